"""The checkpoint files of a run folder."""

import os
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_warn

from seq2seq.errors import ConfigError, check_utf8, disk_of
from seq2seq.memory import ran_out
from seq2seq.model_folder import CONFIG, SavedModel
from seq2seq.training.quality import validated

FOLDER = "checkpoints"
LAST, BEST = "step={step}", "best-step={step}-bleu={val_bleu:.4f}"
"""Names that ModelCheckpoint fills in."""
UNFINISHED = ".{}.unfinished"
FORMAT = 1
"""Of checkpoints, with what each callback keeps in them."""


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which becomes the one at `path` whole or not at all, however the process
    ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(UNFINISHED.format(path.name))
    with disk_of(path), unfinished.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint whole or not at all."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        with written_whole(Path(path)) as file:
            torch.save(checkpoint, file)


class KeptCheckpoints(ModelCheckpoint):
    """Keeps the checkpoints whose `monitor` is highest, in the folder of a run; of BLEU, the better
    ones.

    Of the files that a checkpoint remembers only those in this folder count, so a run may have been
    moved, and may go on with fewer to keep. When it goes on, other files of such names are removed:
    a stop has left them, or an earlier session that began at the same checkpoint.
    """

    def __init__(
        self, folder: Path, name: str, monitor: str, count: int, every: int | None = None
    ) -> None:
        """`every` is how many steps lie between two of them; None where validations decide."""
        super().__init__(
            folder,
            name,
            monitor=monitor,
            mode="max",
            save_top_k=count,
            auto_insert_metric_name=False,
            enable_version_counter=False,
            save_on_train_epoch_end=False,  # a run would not go on exactly from there
            every_n_train_steps=every,
        )
        self.every = every
        self._name = re.compile(re.sub(r"\\{.*?\\}", r"[\\d.]+", re.escape(f"{name}.ckpt")))

    @property
    def state_key(self) -> str:
        """The same whatever decides when it writes, steps or validations."""
        return self._generate_state_key(monitor=self.monitor)

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Adapt the state in the checkpoint to this folder and to the number to keep."""
        assert self.dirpath is not None
        state = checkpoint["callbacks"].pop(self.state_key, {"best_k_models": {}})
        scores = {
            str(here): score
            for there, score in state["best_k_models"].items()
            if (here := Path(self.dirpath) / Path(there).name).is_file()
        }
        scores = trainer.strategy.broadcast(scores)  # others may have no such folder
        ranked = sorted(scores, key=lambda path: scores[path], reverse=True)  # the first of equals
        for path in ranked[self.save_top_k :]:
            del scores[path]
        if scores:
            worst = min(scores, key=lambda path: scores[path])
            checkpoint["callbacks"][self.state_key] = {
                **state,
                "dirpath": self.dirpath,
                "best_k_models": scores,
                "best_model_path": ranked[0],
                "best_model_score": scores[ranked[0]],
                "kth_best_model_path": worst,
                "kth_value": scores[worst],
            }

    def _monitor_candidates(self, trainer: Trainer) -> dict[str, torch.Tensor]:
        found = super()._monitor_candidates(trainer)
        if "val_bleu" in found:  # as a rank, which names the same BLEU
            found["val_bleu"] = torch.tensor(validated(trainer).rank, dtype=torch.float64)
        return found

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the last step, too, if steps decide; if validations do, it is validated anyway."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        ends = self.every is not None and trainer.should_stop
        if ends and not self._should_skip_saving_checkpoint(trainer):
            self._save_topk_checkpoint(trainer, self._monitor_candidates(trainer))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        # The step that the run goes on from is saved already; the next may have several batches.
        self._last_global_step_saved = trainer.global_step
        if trainer.ckpt_path is not None and trainer.is_global_zero:
            self._tidy(trainer, Path(trainer.ckpt_path).resolve())

    def _tidy(self, trainer: Trainer, start: Path) -> None:
        assert self.dirpath is not None
        folder = Path(self.dirpath)
        for path in folder.glob("*.ckpt"):
            forgotten = self._name.fullmatch(path.name) and str(path) not in self.best_k_models
            if forgotten and path.resolve() != start:
                trainer.strategy.remove_checkpoint(path)
        for path in folder.glob(UNFINISHED.format("*.ckpt")):
            trainer.strategy.remove_checkpoint(path)


def last_checkpoints(run: Path) -> list[Path]:
    """The newest checkpoints but the best ones, oldest first: of validations and of clean stops."""
    return sorted((run / FOLDER).glob("step=*.ckpt"), key=step_of)


def best_checkpoints(run: Path) -> list[Path]:
    """The checkpoints of the best validations, worst first; of equal ones, whose perplexities their
    names do not tell, the newest is taken for the best."""
    return sorted(
        (run / FOLDER).glob("best-step=*.ckpt"), key=lambda path: (_bleu_of(path), step_of(path))
    )


def find_checkpoint(wanted: str | None, run: Path, *, to_train: bool = False) -> str | None:
    """The file that `ckpt_path` means; "last" and "best" are found in the run folder."""
    if wanted in ("last", "best"):
        found = last_checkpoints(run) if wanted == "last" else best_checkpoints(run)
        for path in reversed(found):
            if is_complete(path):
                return str(path)
            rank_zero_warn(f"{path} is damaged or was cut short; another checkpoint is taken.")
        raise ConfigError(f"ckpt_path={wanted}: {run / FOLDER} holds no such checkpoint.")
    if wanted is not None:
        try:
            content = _read(Path(wanted))
        except ConfigError as error:
            raise ConfigError(f"ckpt_path={error}") from None
        if to_train and "optimizer_states" not in content:
            raise ConfigError(
                f"ckpt_path={wanted} has weights alone, from which no training can go on; use "
                f"another, or last."
            )
    return wanted


def start_of_fit(wanted: str | None, run: Path) -> str | None:
    """The checkpoint that a fit goes on from, as find_checkpoint gives it; None where it is new.

    A run is one line of steps: ConfigError where the folder holds another, or later steps.
    """
    start = find_checkpoint(wanted, run, to_train=True)
    if start is not None and is_in(run / FOLDER, start):
        step = step_of(Path(start))
        for path in reversed(last_checkpoints(run)):
            if step_of(path) == step and (str(path) == start or is_complete(path)):
                return str(path)  # even if a best one is wanted: this is written later, knows both
            if step_of(path) > step and is_complete(path):
                raise ConfigError(
                    f"ckpt_path={wanted}: run={run} has gone on since, to step {step_of(path)}; "
                    f"begin another --run with --ckpt_path {start}."
                )
        return start
    if last_checkpoints(run):
        raise ConfigError(
            f"run={run} already holds a run; choose another --run, or go on with it: "
            f"--ckpt_path last."
        )
    if (run / "model" / CONFIG).exists():
        raise ConfigError(f"run={run} already holds a model; choose another --run.")
    return start


def average(model: SavedModel, checkpoints: Sequence[Path]) -> None:
    """Set the model's weights to the mean of the checkpoints', summed in fp64.

    Averages of checkpoints: Junczys-Dowmunt et al. (2016), Vaswani et al. (2017, section 6.1).
    """
    parameters = dict(model.network.named_parameters())
    sums = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in parameters.items()}
    for path in checkpoints:
        weights = _fitting(_read(path), path, model)["state_dict"]
        for name, total in sums.items():
            total += weights[f"network.{name}"]
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(sums[name] / len(checkpoints))


def _read(path: Path) -> dict[str, Any]:
    """The content of a checkpoint; ConfigError if it is damaged, or not one of ours."""
    if not path.is_file():
        raise ConfigError(f"{path} does not exist; expected a checkpoint.")
    check_utf8(path, "PyTorch", ConfigError)
    if not is_complete(path):
        raise ConfigError(f"{path} is damaged or no checkpoint; use another.")
    return content_of(path)


def content_of(path: Path) -> dict[str, Any]:
    """What a complete checkpoint holds, its tensors still on disk; ConfigError if it is not one of
    ours."""
    try:
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (RuntimeError, pickle.UnpicklingError) as error:
        if ran_out(error):
            raise ConfigError(f"{path} does not fit into memory.") from None
        content = None
    if not isinstance(content, dict) or "model_config" not in content:
        raise ConfigError(f"{path} is not a checkpoint of seq2seq; use another.")
    check_format(content, path)
    return content


def check_format(content: Mapping[str, Any], path: str | Path) -> None:
    """ConfigError for a checkpoint that another version of seq2seq wrote."""
    if (found := content.get("format_version")) != FORMAT:
        raise ConfigError(
            f"{path} has format_version={found}; this seq2seq reads {FORMAT}. Use the version that "
            f"wrote it, or begin another --run from the model of its run with --init_from."
        )


def _fitting(content: dict[str, Any], path: Path, model: SavedModel) -> dict[str, Any]:
    """The checkpoint, if its weights fit the model."""
    if difference := differing_setting(model, content):
        raise ConfigError(
            f"{path} has another architecture: {difference} there; only checkpoints of the same "
            f"architecture can be averaged."
        )
    if not same_subwords(model, content):
        raise ConfigError(
            f"{path} was trained with other subwords than the model's; its weights belong to those."
        )
    return content


def same_subwords(model: SavedModel, checkpoint: Mapping[str, Any]) -> bool:
    """Whether both have the same subwords."""
    found: bool = checkpoint["subwords"] == model.fingerprints
    return found


def differing_setting(model: SavedModel, checkpoint: Mapping[str, Any]) -> str | None:
    """The first setting of the architecture that is another one in the checkpoint, in words."""
    for name, there in checkpoint["model_config"].items():
        here = getattr(model.network.config, name, None)
        if here != there:
            return f"model.{name}={here} differs from {there}"
    return None


def is_complete(path: Path) -> bool:
    """A checkpoint is a zip archive: its directory stands at the end, with a sum of each entry."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def is_in(folder: Path, path: str | Path) -> bool:
    """Whether a file lies in a folder, perhaps as a link to another place."""
    return Path(path).parent.resolve() == folder.resolve()


def step_of(path: Path) -> int:
    """The step in a checkpoint's name; -1 where there is none."""
    found = re.search(r"step=(\d+)", path.name)
    return int(found[1]) if found else -1


def _bleu_of(path: Path) -> float:
    found = re.search(r"bleu=(\d+\.\d+)", path.name)
    return float(found[1]) if found else -1.0
