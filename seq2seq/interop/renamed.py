"""Our network with the weights of another toolkit, where only the names differ."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import ModelConfig
from seq2seq.errors import ModelFolderError
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.transformer import Transformer

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


def network_of(
    path: Path,
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    their_name: Callable[[str], str] = str,
    ignored: Collection[str] = (),
) -> Transformer:
    """weights: in our order, under the names that their_name gives to ours. ModelFolderError names
    one that is missing, of another shape or, if it is not among `ignored`, extra."""
    for name, shape in _shapes(path, config, len(weights)).items():
        tensor = weights.get(their_name(name))
        if tensor is None or tensor.shape != shape:
            what = "is missing" if tensor is None else f"is {tuple(tensor.shape)}"
            raise ModelFolderError(
                f"{path}: the weights do not fit the settings: {their_name(name)} {what}, "
                f"expected {tuple(shape)}."
            )
    found = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            parameter.copy_(weights[their_name(name)])
    read = {their_name(name) for name, _ in found.named_parameters(remove_duplicate=False)}
    if left := weights.keys() - read - set(ignored):
        raise ModelFolderError(
            f"{path}: the weights do not fit the settings: {min(left)} is extra."
        )
    return found


def _shapes(path: Path, config: ModelConfig, weights: int) -> dict[str, torch.Size]:
    """Of all parameters by our names; of layers, which each have some, one more than there are
    weights is enough. Settings of any size take no memory."""
    stacks = {name: getattr(config, name) for name in ("encoder_layers", "decoder_layers")}
    enough = {name: min(layers, weights + 1) for name, layers in stacks.items()}
    try:
        with torch.device("meta"):
            network = Transformer(replace(config, **enough))
    except (OverflowError, RuntimeError, TypeError):  # torch has one for each kind of overflow
        raise ModelFolderError(f"{path} is damaged: no network is so large.") from None
    return {name: parameter.shape for name, parameter in network.named_parameters()}
