"""The checkpoint files of a run folder."""

import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_warn

from seq2seq.errors import ConfigError
from seq2seq.nn.transformer import Transformer

FOLDER = "checkpoints"
LAST, BEST = "step={step}", "best-step={step}-bleu={val_bleu:.2f}"
"""Names that ModelCheckpoint fills in."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint whole or not at all, however the process ends."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        with unfinished.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)


def last_checkpoints(run: Path) -> list[Path]:
    """The checkpoints of the last validations, oldest first."""
    return _checkpoints(run, "step=")


def find_checkpoint(wanted: str | None, run: Path) -> str | None:
    """The file that `ckpt_path` means; "last" and "best" are found in the run folder."""
    if wanted in ("last", "best"):
        for path in reversed(_checkpoints(run, "step=" if wanted == "last" else "best-")):
            if _is_complete(path):
                return str(path)
            rank_zero_warn(f"{path} is damaged or was cut short; an older checkpoint is taken.")
        raise ConfigError(f"ckpt_path={wanted}: {run / FOLDER} holds no such checkpoint.")
    if wanted is not None and not Path(wanted).is_file():
        raise ConfigError(f"ckpt_path={wanted} does not exist; use a file, last or best.")
    if wanted is not None and not _is_complete(Path(wanted)):
        raise ConfigError(f"ckpt_path={wanted} is damaged or no checkpoint; use another, or last.")
    return wanted


def average(network: Transformer, checkpoints: Sequence[Path]) -> None:
    """Set the network's weights to the mean of the checkpoints', summed in fp64."""
    parameters = dict(network.named_parameters())
    sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    for path in checkpoints:
        state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
        for name, total in sums.items():
            key = f"network.{name}"
            if key not in state or state[key].shape != total.shape:
                raise ConfigError(f"{path} does not fit the run's model: {name} differs.")
            total += state[key]
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(sums[name] / len(checkpoints))


def _is_complete(path: Path) -> bool:
    """A checkpoint is a zip archive: its directory stands at the end, with a sum of each entry."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _checkpoints(run: Path, prefix: str) -> list[Path]:
    return sorted((run / FOLDER).glob(f"{prefix}*.ckpt"), key=_step)


def _step(path: Path) -> int:
    found = re.search(r"step=(\d+)", path.name)
    return int(found[1]) if found else -1
