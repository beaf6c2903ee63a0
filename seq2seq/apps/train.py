"""fit, validate, test and predict: the LightningCLI over our modules.

Settings have four groups: `model.*` is the architecture, stored with the model; `training.*` the
recipe; `search.*` how translations are searched for; `data.*` the corpora. `trainer.*` is
Lightning's own. A run lives in one folder, `--run`.
"""

import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace, set_parsing_settings
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.callbacks import ProgressBar as AnyBar
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from pytorch_lightning.plugins.environments import SLURMEnvironment  # type: ignore[attr-defined]
from pytorch_lightning.utilities import rank_zero_info
from pytorch_lightning.utilities.exceptions import (  # type: ignore[attr-defined]
    MisconfigurationException,
    SIGTERMException,
)

from seq2seq.apps.new_folder import check_writable
from seq2seq.apps.train_callbacks import check_callbacks, stop_after_validations
from seq2seq.apps.train_parser import OneLineParser, refusal_of_class, with_settings_of_run
from seq2seq.apps.train_settings import (
    VALIDATED_EVERY,
    check_average,
    check_checkpoints,
    check_corpora,
    check_groups,
    check_joint,
    check_plugins,
    check_run,
    check_seed,
    check_subwords,
    check_trainer,
    check_validates,
    follow_origin,
    follow_subwords,
    named,
    warn_of_other_languages,
)
from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.errors import ConfigError, ModelFolderError, UserError
from seq2seq.interop.targets import reach
from seq2seq.model_facts import load_provenance
from seq2seq.model_folder import CONFIG, find_model, read_description
from seq2seq.process import prepare_process
from seq2seq.training.callbacks import Alone, BestModelFolder, Branch, LastValidation, Patience
from seq2seq.training.checkpoints import (
    BEST,
    FOLDER,
    LAST,
    AtomicCheckpointIO,
    KeptCheckpoints,
    find_checkpoint,
    is_in,
    start_of_fit,
    written_whole,
)
from seq2seq.training.choice import ModelChoice
from seq2seq.training.clean_stop import CleanStop
from seq2seq.training.compatibility import check_architecture
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.ema import ExponentialMovingAverage
from seq2seq.training.hardware import precision_for
from seq2seq.training.health import Health
from seq2seq.training.module import TranslationModule
from seq2seq.training.processes import end_exchange, ending_with_first, wait_for_others
from seq2seq.training.progress import ProgressBar, ProgressLines
from seq2seq.training.quiet import quiet_lightning
from seq2seq.training.recipe import Recipe
from seq2seq.training.record import Record, training_until
from seq2seq.training.samples import Samples

TRAINER_DEFAULTS = {
    "max_epochs": -1,
    "max_steps": 100_000,
    "gradient_clip_val": 1.0,
    "val_check_interval": VALIDATED_EVERY,
    "check_val_every_n_epoch": None,
    "log_every_n_steps": 50,
    "num_sanity_val_steps": 0,
    "use_distributed_sampler": False,
    "enable_model_summary": False,
}

ADVICE = {
    "(closed|reset) by peer": "another process of this run has ended; it says why.",
    r"DataLoader worker \(.*(killed|exited)": "a worker process has died, perhaps because memory "
    "ran out; use fewer data.workers. What was finished before is kept: --ckpt_path last goes on.",
    "in your SLURM bash script": "Slurm must start a task for each process of a run: instead of "
    "--ntasks set --ntasks-per-node, to as many as --trainer.devices.",
    "Early stopping conditioned on": "trainer.callbacks: EarlyStopping monitors what was not "
    "logged before this validation; monitor another number or, if steps log it, choose "
    "trainer.log_every_n_steps so that one before it does.",
}
"""What a user can do about errors of the libraries through which processes talk, torch's loader and
Lightning."""


class SaveRunConfig(SaveConfigCallback):
    """Keeps the full configuration of a fit as RUN/config.yaml, once it has all been accepted: what
    a checkpoint refuses leaves the file as it was."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Nothing: it is too early."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            text = self.parser.dump(_of_the_run(self.config), skip_none=False)
            with written_whole(Path(trainer.default_root_dir) / "config.yaml") as file:
                file.write(text.encode())


class Reach(Callback):
    """Says at the start of a fit which libraries its model can be exported to."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TranslationModule)
        rank_zero_info(f"model {reach(pl_module.config)}")


class TranslationCLI(LightningCLI):
    """LightningCLI with our groups of settings."""

    def __init__(self) -> None:
        super().__init__(
            datamodule_class=CorpusDataModule,
            save_config_callback=SaveRunConfig,
            seed_everything_default=1,
            parser_class=OneLineParser,
            parser_kwargs={"prog": "seq2seq", "allow_abbrev": False},
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """The one that was asked for: to make a parser for each takes four times as long."""
        asked = sys.argv[1]
        return {asked: LightningCLI.subcommands()[asked]}

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--run", type=str, default="runs/default", help="folder of this run")
        parser.add_argument(
            "--init_from",
            type=str | None,
            default=None,
            help="fit: model or run folder whose weights and subwords are the start",
        )
        parser.add_argument(
            "--model_folder",
            type=str | None,
            default=None,
            help="validate, test, predict: model or run folder to use (default: the run's)",
        )
        parser.add_argument(
            "--license",
            type=str | None,
            default=None,
            help="fit: licence of the model, as the hub names it (cc-by-4.0), for its card",
        )
        parser.add_class_arguments(ModelConfig, "model", skip={"src_vocab_size", "tgt_vocab_size"})
        parser.add_class_arguments(Recipe, "training")
        parser.add_class_arguments(SearchConfig, "search")
        parser.add_lightning_class_args(CorpusDataModule, "data")
        parser.add_lightning_class_args(Trainer, "trainer")
        parser.set_defaults({f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()})
        parser.link_arguments("run", "trainer.default_root_dir")
        parser.link_arguments("seed_everything", "data.seed")

    def _parse_ckpt_path(self) -> None:
        """Nothing: settings on the command line win over a checkpoint's."""

    def _set_seed(self) -> None:
        check_seed(self.config[self.subcommand].seed_everything)
        super()._set_seed()

    def before_instantiate_classes(self) -> None:
        settings = self.config[self.subcommand]
        self._origin: str | None = None  # the folder whose weights and subwords are the start
        check_groups(settings)
        check_run(settings.run)
        run = Path(settings.run)
        if self.subcommand != "validate":
            check_writable(run)
        if self.subcommand == "fit":
            check_checkpoints(settings.run)
            check_trainer(settings.trainer)
            check_average(settings.training, settings.trainer)
            if settings.model_folder is not None:
                raise ConfigError(
                    f"model_folder={settings.model_folder} is for validate, test and predict; "
                    f"a fit starts from --init_from."
                )
            settings.ckpt_path = start_of_fit(settings.ckpt_path, run)
            architecture = ModelConfig(**settings.model)
            if settings.init_from is None:
                if settings.data.subwords_from is not None:
                    with named("data.subwords_from"):
                        follow_subwords(settings, settings.data.subwords_from)
                check_joint(architecture, settings.data.subwords)
        else:
            if self.subcommand == "validate":
                check_validates(settings.trainer)
            if settings.model_folder is not None and settings.ckpt_path is not None:
                raise ConfigError(
                    f"model_folder={settings.model_folder} and ckpt_path={settings.ckpt_path} are "
                    f"two models; leave one of them out."
                )
            settings.ckpt_path = find_checkpoint(settings.ckpt_path, run)
            settings.init_from = str(find_model(settings.model_folder or run))
        if settings.init_from is not None:
            with named("init_from"):
                origin = _origin(settings.init_from, settings.ckpt_path, run)
            config, *codes = read_description(origin)
            if self.subcommand == "fit":
                check_architecture(architecture, config, settings.init_from)
                check_subwords(settings.data.subwords_from, settings.init_from)
                follow_origin(settings, config, origin)
            self._origin = settings.data.subwords_from = str(origin)
            for side, code in zip(("src_lang", "tgt_lang"), codes, strict=True):
                settings.data[side] = settings.data[side] or code
            if self.subcommand == "fit":
                warn_of_other_languages(settings.data, codes, settings.init_from)

    def instantiate_classes(self) -> None:
        check_corpora(self.config[self.subcommand].data)
        try:
            self.config_init = self.parser.instantiate(self.config)
        except ValueError as error:  # of a setting that may be null, too, around what is wrong
            if mistake := _user_error(error):
                raise mistake from None
            if refusal := refusal_of_class(str(error)):
                raise ConfigError(refusal) from None
            raise
        made = self.config_init[self.subcommand]
        self.datamodule: LightningDataModule = made.data
        self.model = TranslationModule(
            made.model,
            made.training,
            made.search,
            seed=made.seed_everything,
            init_from=self._origin,
            output=Path(made.run),
        )
        services = self._run_services(made)
        try:
            self.trainer = self.instantiate_trainer(**services)
        except (TypeError, ValueError, ModuleNotFoundError) as error:
            raise ConfigError(str(error)) from None
        cluster = self.trainer._accelerator_connector.cluster_environment
        if isinstance(cluster, SLURMEnvironment):
            # Requeueing would write a checkpoint within a step, and `test` would score that one.
            cluster.auto_requeue = False

    def _run_services(self, made: Namespace) -> dict[str, Any]:
        """Trainer settings that follow from the run folder, the recipe and the device."""
        run, settings = Path(made.run), made.trainer
        callbacks, plugins = _listed(settings.callbacks), _listed(settings.plugins)
        check_plugins(plugins)
        shown = any(isinstance(each, AnyBar) for each in callbacks)
        if settings.enable_progress_bar is not False and not shown:
            callbacks.append(ProgressBar() if sys.stderr.isatty() else ProgressLines())
        services: dict[str, Any] = {
            "callbacks": callbacks,
            "plugins": [*plugins, AtomicCheckpointIO()],
        }
        if self.subcommand == "fit":
            logs, validates = settings.logger is not False, settings.limit_val_batches != 0
            check_callbacks(callbacks, run / FOLDER, logs=logs, validates=validates)
            stop_after_validations(callbacks)
            every = None if validates else settings.val_check_interval
            callbacks += _fit_callbacks(run, made.training, Record(self._settings()), every)
        if settings.logger in (None, True):
            services["logger"] = _loggers(run) if self.subcommand == "fit" else False
        steps = settings.val_check_interval
        if isinstance(steps, int) and settings.check_val_every_n_epoch is not None:
            services["val_check_interval"] = 1.0
        elif isinstance(steps, int):
            # The setting counts steps, Lightning counts batches.
            services["val_check_interval"] = steps * settings.accumulate_grad_batches
        if self.subcommand != "fit":
            # What is scored is what `translate` gives, so only training is in a lower precision.
            services["precision"] = "32-true"
            if settings.precision not in (None, "32-true"):
                rank_zero_info(f"in fp32: trainer.precision={settings.precision} is for training")
        elif settings.precision is None:
            before = training_until(Path(made.ckpt_path)) if made.ckpt_path else None
            earlier = before["hardware"] if before else []
            width = made.model.d_model
            services["precision"] = precision_for(settings.accelerator, width, earlier)
        return services

    def _settings(self) -> dict[str, Any]:
        """What config.yaml holds."""
        assert self.subcommand is not None
        config = _of_the_run(self.config[self.subcommand])
        dumped = self._parser(self.subcommand).dump(config, skip_none=False, format="json")
        settings: dict[str, Any] = json.loads(dumped)
        return settings


def _listed(setting: Any) -> list[Any]:
    """Lightning takes one instead of several, or none."""
    return list(setting) if isinstance(setting, list) else [setting] if setting else []


def _user_error(error: BaseException | None) -> UserError | None:
    """The mistake of the user that led to an error."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__ or error.__context__
    return error


def _of_the_run(config: Namespace) -> Namespace:
    """Without what this session goes on from: the checkpoint is none of the next one's, and `test`
    would score it instead of the model; nor is the run's own model, see `_origin`, whose path
    changes when the run is moved."""
    config = config.clone()
    config["ckpt_path"] = None
    if config["init_from"] is not None:
        config["data"]["subwords_from"] = config["init_from"]
    return config


def _origin(init_from: str, start: str | None, run: Path) -> Path:
    """The model folder that tells architecture and subwords. Where the one that a run began with is
    gone, a run that goes on has them in its own."""
    try:
        return find_model(init_from)
    except ModelFolderError:
        own = run / "model"
        if start is not None and is_in(run / FOLDER, start) and (own / CONFIG).is_file():
            settings = load_provenance(own).get("config", {})
            if settings.get("init_from") == init_from:
                return own
        raise


def _fit_callbacks(
    run: Path, recipe: Recipe, record: Record, unvalidated: int | None = None
) -> list[Any]:
    """`unvalidated` is every how many steps a checkpoint is written where no validation is."""
    folder = run / FOLDER
    last = KeptCheckpoints(folder, LAST, "step", recipe.keep_last, unvalidated)
    best = KeptCheckpoints(folder, BEST, "val_bleu", recipe.keep_best)
    patience = Patience(recipe.patience)
    stored = BestModelFolder(run / "model", record)
    health = Health()
    branch = Branch(folder, [stored, patience, best, last, health])
    watch = [Reach(), health, Samples(run / "samples.txt")]
    ema = None if recipe.ema is None else ExponentialMovingAverage(recipe.ema)
    choice = ModelChoice(run / "candidates.jsonl", stored, last, best, ema)
    averages = [] if ema is None else [ema]
    # A run goes on from the last checkpoints, or from the one of a clean stop: what those must hold
    # of a step is done before they are written.
    ends = [LastValidation(), CleanStop(folder), patience]
    return [Alone(run), branch, *watch, record, *averages, stored, *ends, best, last, choice]


def _loggers(run: Path) -> list[CSVLogger | TensorBoardLogger]:
    table = CSVLogger(str(run), name="logs")
    return [table, TensorBoardLogger(str(run), name="logs", version=table.version)]


@ending_with_first()
def main(argv: Sequence[str] | None = None) -> int:
    """LightningCLI reads sys.argv itself: a distributed run starts its other processes from it."""
    sys.argv[1:] = with_settings_of_run(sys.argv[1:] if argv is None else argv)
    prepare_process()
    quiet_lightning()
    set_parsing_settings(docstring_parse_attribute_docstrings=True)  # for --help
    try:
        trainer = TranslationCLI().trainer
        end_exchange()
        if trainer.received_sigterm:  # in its last batch
            raise SIGTERMException
        wait_for_others(trainer)
    except (MisconfigurationException, ModuleNotFoundError) as error:
        if getattr(error, "name", None):  # an import failed; Lightning asks for libraries without
            raise
        raise ConfigError(str(error)) from None
    except RuntimeError as error:
        for pattern, advice in ADVICE.items():
            if re.search(pattern, str(error)):
                raise ConfigError(advice) from None
        raise
    except SIGTERMException:  # Lightning's, with status 0
        raise SystemExit(128 + signal.SIGTERM) from None
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # Lightning has no status for it
            raise KeyboardInterrupt from None
        raise
    return 0
