"""Weights that were read, put into the network that settings describe."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.errors import ModelFolderError
from seq2seq.nn.transformer import NO_DROPOUT, Transformer


def network_of(
    path: Path,
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    their_name: Callable[[str], str] = str,
    ignored: Collection[str] = (),
    *,
    rates: Dropout = NO_DROPOUT,
    attention: AttentionForm = "auto",
) -> Transformer:
    """A network, ready to translate, with weights from `path` under the names that `their_name`
    gives to ours. ModelFolderError names one that is missing, of another shape, not finite or, if
    it is not among `ignored`, extra."""
    for name, shape in _shapes(path, config, len(weights)).items():
        tensor = weights.get(their_name(name))
        if tensor is None or tensor.shape != shape:
            what = "is missing" if tensor is None else f"is {tuple(tensor.shape)}"
            raise ModelFolderError(
                f"{path}: the weights do not fit the settings: {their_name(name)} {what}, "
                f"expected {tuple(shape)}."
            )
        extremes = torch.stack(torch.aminmax(tensor.float()))  # NaN if any is
        if not extremes.isfinite().all():
            raise ModelFolderError(f"{path} is damaged: {their_name(name)} holds NaN or infinity.")
    found = Transformer(config, rates=rates, attention=attention).eval()
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
    """The shape of each parameter, by our names. Settings of any size take no memory: parameters
    are on the meta device, and each layer has some, so one layer more than there are weights is
    enough to miss one."""
    stacks = {name: getattr(config, name) for name in ("encoder_layers", "decoder_layers")}
    enough = {name: min(layers, weights + 1) for name, layers in stacks.items()}
    try:
        with torch.device("meta"):
            network = Transformer(replace(config, **enough))
    except (OverflowError, RuntimeError, TypeError):  # torch has one for each kind of overflow
        raise ModelFolderError(f"{path} is damaged: no network is so large.") from None
    return {name: parameter.shape for name, parameter in network.named_parameters()}
