"""What the weights of another toolkit, where only the names differ, say of the settings."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.nn.embedding import sinusoids

TIES = {
    # source and target embedding are equal, target embedding and output projection are equal
    (False, False): "none",
    (True, False): "source-target",
    (False, True): "target-output",
    (True, True): "all",
}


def tie(src: Tensor, tgt: Tensor, output: Tensor) -> str:
    """Of three matrices (V, D), as `ModelConfig.tie` says it."""
    return TIES[torch.equal(src, tgt), torch.equal(tgt, output)]


def position_settings(*tables: Tensor) -> dict[str, Any]:
    """Settings for tables (N, D): ours have no end if these are our sinusoids, as far as they go.

    Tables of two lengths end where the shorter one does.
    """
    if all(map(_is_sinusoidal, tables)):
        return {"positions": "sinusoidal"}
    return {"positions": "learned", "max_positions": min(map(len, tables))}


def _is_sinusoidal(table: Tensor) -> bool:
    # Rounded to bf16, numbers up to 1 are off by up to 1/512.
    return table.shape[1] % 2 == 0 and torch.allclose(table, sinusoids(*table.shape), atol=2e-3)


def tensor2tensor_sinusoids(first: int, length: int, d_model: int) -> Tensor:
    """-> (length, D) from position `first`: [sin | cos] halves as ours, whose wavelengths reach
    10000 within D / 2 steps instead of behind them; CTranslate2 and fairseq have these."""
    half = d_model // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / max(half - 1, 1)))  # (D / 2,)
    angles = torch.arange(first, first + length)[:, None] * rates  # (length, D / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def depth(names: Iterable[str], stack: str) -> int:
    """Layers of the encoder or the decoder, by names such as "encoder.layers.0.fc1.weight": as
    many as there are numbers, however high."""
    found = (re.match(rf"{stack}\W(?:layers\.|layer_)(\d+)\W", name) for name in names)
    return len({each[1] for each in found if each})


def check_matrices(path: Path, weights: Mapping[str, Tensor], names: Iterable[str]) -> None:
    """ModelFolderError names one of these weights that is missing or no matrix."""
    for name in names:
        if name not in weights:
            raise ModelFolderError(f"{path} is damaged: it lacks {name}.")
        if weights[name].dim() != 2:
            raise ModelFolderError(
                f"{path} is damaged: {name} is {tuple(weights[name].shape)}, expected a matrix."
            )
