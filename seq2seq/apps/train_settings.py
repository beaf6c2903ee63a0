"""What the settings of the Lightning verbs may be, beyond their types."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from pytorch_lightning.plugins import Precision
from pytorch_lightning.utilities import rank_zero_warn

from seq2seq.config import ModelConfig, SubwordConfig, at_least, cannot_share
from seq2seq.data.corpus import CorpusFiles
from seq2seq.data.vocabulary import subword_settings
from seq2seq.errors import ConfigError, ModelFolderError, check_utf8
from seq2seq.model_folder import find_subwords
from seq2seq.text.scripts import may_be_same_languages

VALIDATED_EVERY = 1000
"""Steps, where no setting says otherwise."""
MOST_SEED = 2**32 - 1
"""NumPy's bound."""
GROUPS = {
    "model": "model.d_model: 256",
    "training": "training.lr: 0.001",
    "search": "search.beam: 5",
    "data": "data.batch_tokens: 4096",
    "trainer": "trainer.max_steps: 12000",
    "training.dropout": "training.dropout.residual: 0.3",
    "data.subwords": "data.subwords.src_vocab_size: 8000",
    "data.subword_sampling": "data.subword_sampling.src: 0.2",
    "search.diversity": "search.diversity.groups: 2",
}
"""Settings that consist of settings, and an example of one."""
SHARDED = ("fsdp", "deepspeed", "modelparallel", "model_parallel")
"""What names of strategies that shard the weights begin with."""


@contextmanager
def named(setting: str) -> Iterator[None]:
    """Begin errors of a model folder with the setting that led to it."""
    try:
        yield
    except ModelFolderError as error:
        raise ModelFolderError(f"{setting}: {error}") from None


def check_run(run: str) -> None:
    """Raise ConfigError for what names no folder, as a variable of the shell that is not set."""
    if not run.strip():
        raise ConfigError(f"run={run!r} is empty; expected a folder for the run, e.g. runs/mine.")


def check_checkpoints(run: str) -> None:
    """Raise ConfigError for a run whose checkpoints could not be read: Lightning writes them by
    their whole paths."""
    check_utf8(os.path.realpath(run), "PyTorch", ConfigError, f"run={run}: ")


def check_seed(seed: int) -> None:
    """Raise ConfigError for one that NumPy does not take."""
    at_least("seed_everything", seed, 0, MOST_SEED)


def check_groups(settings: Namespace) -> None:
    """Raise ConfigError for a value where settings are expected."""
    for group in GROUPS:
        if group in settings and not isinstance(settings[group], Namespace):
            raise ConfigError(no_group(group, settings[group]))


def no_group(group: str, value: object) -> str:
    """What the user is told of a value in the place of settings."""
    return f"{group}={value} is not a group of settings; expected e.g. {GROUPS[group]}."


def check_corpora(data: Namespace) -> None:
    """Raise ConfigError, with the name of the setting, for files that make no corpus."""
    for setting, corpus in _corpora(data):
        if setting.startswith("data.test.") and "/" in setting:
            raise ConfigError(f"{setting}: the name of a test set names files, so it has no slash.")
        try:
            CorpusFiles(**corpus)
        except ConfigError as error:
            raise ConfigError(f"{setting}: {error}") from None


def check_trainer(settings: Namespace) -> None:
    """Raise ConfigError for what Lightning takes, and this training cannot."""
    for name in ("log_every_n_steps", "accumulate_grad_batches"):
        if settings[name] is not None:
            at_least(f"trainer.{name}", settings[name], 1)
    if settings.limit_train_batches == 0:
        raise ConfigError(
            "trainer.limit_train_batches=0 leaves nothing to learn from; leave it out."
        )
    _check_whole_steps(settings)
    _check_interval(settings)
    if settings.gradient_clip_val is not None:
        at_least("trainer.gradient_clip_val", settings.gradient_clip_val, 0)
    if settings.gradient_clip_algorithm not in (None, "norm"):
        raise ConfigError(
            f"trainer.gradient_clip_algorithm={settings.gradient_clip_algorithm}: gradients are "
            f"clipped by norm; leave it out."
        )
    if settings.reload_dataloaders_every_n_epochs:
        raise ConfigError(
            f"trainer.reload_dataloaders_every_n_epochs="
            f"{settings.reload_dataloaders_every_n_epochs} would make every epoch the first one; "
            f"leave it out, each epoch has an order of its own."
        )
    if settings.precision in ("bf16-true", "16-true"):
        mixed = settings.precision.replace("true", "mixed")
        raise ConfigError(
            f"trainer.precision={settings.precision} keeps the weights themselves in half "
            f"precision, which small updates do not change; use {mixed}."
        )
    strategy = settings.strategy
    name = strategy if isinstance(strategy, str) else strategy.get("class_path", "")
    if name.rpartition(".")[2].lower().startswith(SHARDED):
        raise ConfigError(
            f"trainer.strategy={name} shards the weights, which this training needs whole; use ddp."
        )
    if settings.use_distributed_sampler:
        raise ConfigError(
            "trainer.use_distributed_sampler=True: batches are shared out without it; leave it out."
        )
    if settings.barebones:
        raise ConfigError(
            "trainer.barebones=True leaves out checkpoints and logs, which a run needs; leave it "
            "out."
        )
    if settings.overfit_batches:
        raise ConfigError(
            f"trainer.overfit_batches={settings.overfit_batches}: make a corpus of few pairs "
            f"instead, and train on it."
        )


def check_plugins(plugins: Sequence[object]) -> None:
    """Raise ConfigError for one that would compute in another precision than the run does."""
    for plugin in plugins:
        if isinstance(plugin, Precision):
            raise ConfigError(
                f"trainer.plugins: {type(plugin).__name__} contradicts the precision that a run "
                f"chooses; leave it out, and set trainer.precision, e.g. to bf16-mixed."
            )


def _check_whole_steps(settings: Namespace) -> None:
    """Where a step has several batches, runs and their epochs end with whole ones."""
    limit, accumulated = settings.limit_train_batches, settings.accumulate_grad_batches
    if accumulated == 1:
        return
    if limit not in (None, 1) and limit % accumulated:  # 1 is read as 1.0, which is all of them
        raise ConfigError(
            f"trainer.limit_train_batches={limit:g} leaves a part of a step at the end of an "
            f"epoch, with trainer.accumulate_grad_batches={accumulated}; use a multiple of it."
        )
    if int(settings.fast_dev_run) % accumulated:
        raise ConfigError(
            f"trainer.fast_dev_run={settings.fast_dev_run} is a part of a step, with "
            f"trainer.accumulate_grad_batches={accumulated}; use a multiple of it."
        )


def _check_interval(settings: Namespace) -> None:
    """Validations come after steps, or shares of an epoch; checkpoints alone after steps."""
    every = settings.val_check_interval
    if isinstance(every, str | timedelta | dict):
        raise ConfigError(
            f"trainer.val_check_interval={every} is not a number of steps; give one, e.g. 1000."
        )
    epochs = settings.check_val_every_n_epoch
    if epochs is not None:
        at_least("trainer.check_val_every_n_epoch", epochs, 1)
        if isinstance(every, int) and every != VALIDATED_EVERY:
            raise ConfigError(
                f"trainer.val_check_interval={every} counts steps; with "
                f"trainer.check_val_every_n_epoch={epochs} it is a share of an epoch, e.g. 1.0."
            )
    if isinstance(every, int):
        at_least("trainer.val_check_interval", every, 1)
    elif settings.limit_val_batches == 0:
        raise ConfigError(
            f"trainer.val_check_interval={every} is a share of an epoch; without validation it is "
            f"the number of steps between checkpoints, e.g. 1000."
        )
    elif epochs is None:
        raise ConfigError(
            f"trainer.val_check_interval={every} is a share of an epoch, for which "
            f"trainer.check_val_every_n_epoch has to be set, e.g. to 1; or give a number of steps, "
            f"e.g. 1000."
        )


def check_validates(settings: Namespace) -> None:
    """Raise ConfigError where `validate` would have nothing to do."""
    if settings.limit_val_batches == 0:
        raise ConfigError(
            "trainer.limit_val_batches=0, perhaps of the run, leaves out all validation; give "
            "--trainer.limit_val_batches 1.0."
        )


def check_average(training: Namespace, trainer: Namespace) -> None:
    """Raise ConfigError for a moving average that nothing would choose."""
    if training.ema is not None and trainer.limit_val_batches == 0:
        raise ConfigError(
            f"training.ema={training.ema} is kept where its validation BLEU is the best, but "
            f"trainer.limit_val_batches=0 leaves out all validation; leave out one of the two."
        )


def check_joint(model: ModelConfig, subwords: Namespace) -> None:
    """Raise ConfigError where one matrix would serve two vocabularies, before they are trained."""
    if model.shares_languages and not subwords.joint:
        raise cannot_share(model.tie, "with data.subwords.joint=false each has its own subwords")


def check_subwords(wanted: str | None, init_from: str) -> None:
    """The weights that a fit starts from mean the subwords of their model."""
    if wanted is None or wanted == init_from:
        return
    with named("data.subwords_from"):
        there = find_subwords(wanted)
    here = find_subwords(init_from)
    if [each.fingerprint for each in there] != [each.fingerprint for each in here]:
        raise ConfigError(
            f"data.subwords_from={wanted} holds other subwords than init_from={init_from}, whose "
            f"weights are of no use with those; leave it out."
        )


def warn_of_other_languages(data: Namespace, codes: Sequence[str], init_from: str) -> None:
    """Of subwords that were trained for each language alone, where the model that a fit starts from
    was trained for others, as far as both say. Joint subwords know both, whichever is the source.
    """
    wanted = data.src_lang, data.tgt_lang
    src, tgt = find_subwords(data.subwords_from)
    if src.fingerprint == tgt.fingerprint or not all((*wanted, *codes)):
        return
    if not may_be_same_languages(wanted, codes):
        rank_zero_warn(
            f"init_from={init_from} was trained from {codes[0]} to {codes[1]}, each with subwords "
            f"of its own; here they have to do for {wanted[0]} to {wanted[1]}, whose words they "
            f"may cut into many pieces."
        )


def follow_origin(settings: Namespace, config: ModelConfig, origin: Path) -> None:
    """Give settings that were left alone the values of the model that a fit starts from, of this
    architecture and in this folder: what the run records of itself is what it trains."""
    _follow(settings.model, ModelConfig, asdict(config))
    follow_subwords(settings, origin)


def follow_subwords(settings: Namespace, origin: str | Path) -> None:
    """The same for the settings of subwords, where those that are there are used."""
    _follow(settings.data.subwords, SubwordConfig, subword_settings(*find_subwords(origin)))


def _follow(group: Namespace, kind: type[Any], stored: Mapping[str, Any]) -> None:
    for field in fields(kind):
        if field.name in group and group[field.name] == field.default:
            group[field.name] = stored[field.name]


def _corpora(data: Namespace) -> Iterator[tuple[str, Namespace]]:
    """The settings of each corpus, by the name of its setting."""
    for name in ("train", "validation", "test"):
        setting = data[name] or {}
        if isinstance(setting, Namespace):
            yield f"data.{name}", setting
        else:
            yield from ((f"data.{name}.{key}", corpus) for key, corpus in setting.items())
