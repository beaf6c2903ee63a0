"""Names of JoeyNMT's Transformer, and the order of its features.

Its sinusoids alternate sine and cosine where ours are two halves, so every axis of width D of its
parameters is in another order than ours; the function is the same.
"""

import torch
from torch import Tensor

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
"""Our names and theirs."""

_OUTSIDE_LAYERS = {
    "src_embedding": "src_embed.lut",
    "tgt_embedding": "trg_embed.lut",
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
    "output": "decoder.output_layer",
}
_ATTENTION = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}
_FEED_FORWARD = {
    "feed_forward_residual.norm": "feed_forward.layer_norm",
    "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.outer": "feed_forward.pwff_layer.3",
}
_IN_A_LAYER = {
    "encoder": {
        "self_residual.norm": "layer_norm",
        **{f"self_attention.{ours}": f"src_src_att.{name}" for ours, name in _ATTENTION.items()},
        **_FEED_FORWARD,
    },
    "decoder": {
        "self_residual.norm": "x_layer_norm",
        "cross_residual.norm": "dec_layer_norm",
        **{f"self_attention.{ours}": f"trg_trg_att.{name}" for ours, name in _ATTENTION.items()},
        **{f"cross_attention.{ours}": f"src_trg_att.{name}" for ours, name in _ATTENTION.items()},
        **_FEED_FORWARD,
    },
}


def their_name(name: str) -> str:
    """Of a parameter of ours; those that they do not have keep their name."""
    module, _, kind = name.rpartition(".")
    if module in _OUTSIDE_LAYERS:
        return f"{_OUTSIDE_LAYERS[module]}.{kind}"
    side, number, rest = module.split(".", 2)
    return f"{side}.layers.{number}.{_IN_A_LAYER[side].get(rest, rest)}.{kind}"


def alternating(d_model: int) -> Tensor:
    """(D,): of each of their features its number among ours."""
    return torch.arange(d_model).view(2, -1).T.flatten()


def with_features(name: str, parameter: Tensor, order: Tensor) -> Tensor:
    """A parameter, by our name, whose axis of width D has this order (D,) of features."""
    module, _, kind = name.rpartition(".")
    if module.endswith(("norm", "_attention.output", "feed_forward.outer")):
        return parameter[order]
    return parameter[:, order] if kind == "weight" else parameter
