"""Tiny networks with every setting, and what to feed them."""

from typing import Any

import pytest
import torch
from oracle import fill_vectors
from torch import Tensor

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.nn.attention import FORMS
from seq2seq.nn.state import DecoderState
from seq2seq.nn.transformer import NO_DROPOUT, Transformer

B, S, T, W = 3, 7, 5, 2
V, D, H = 13, 12, 4
SMALL: dict[str, Any] = {
    "src_vocab_size": V,
    "tgt_vocab_size": V,
    "d_model": D,
    "heads": H,
    "ff_dim": 10,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "max_positions": 20,
}
UNEQUAL = {"src_vocab_size": V, "tgt_vocab_size": 11}
VARIANTS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post": {"norm": "post"},
    "as Marian": {
        "norm": "post",
        "activation": "silu",
        "output_bias": True,
        "start_token": "pad",
    },
    "gelu, unscaled": {"activation": "gelu", "scale_embeddings": False},
    "swiglu, no bias": {"activation": "swiglu", "bias": False},
    "learned positions, no tie": {"positions": "learned", "tie": "none", **UNEQUAL},
    "tie source-target": {"tie": "source-target"},
    "tie target-output": {"tie": "target-output", **UNEQUAL},
    "head_dim, deep encoder": {"head_dim": 5, "encoder_layers": 3, "decoder_layers": 1},
    "no encoder layer": {"encoder_layers": 0},
}
"""Every choice of every setting at least once."""

every_form = pytest.mark.parametrize("form", FORMS)
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
every_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def build(
    settings: dict[str, Any],
    form: AttentionForm = "auto",
    training: bool = False,
    rates: Dropout = NO_DROPOUT,
) -> Transformer:
    """The same settings give the same weights."""
    torch.manual_seed(1)
    network = Transformer(ModelConfig(**SMALL | settings), rates=rates, attention=form)
    fill_vectors(network)
    return network.train(training)


def sentences() -> tuple[Tensor, Tensor]:
    """Tokens (B, S) with something other than padding behind the end, lengths (B,)."""
    return torch.randint(3, 11, (B, S)), torch.tensor([S, 4, 1])


def targets(rows: int = B) -> Tensor:
    return torch.randint(3, 11, (rows, T))


def begin(network: Transformer, src: Tensor, lens: Tensor, width: int = 1) -> DecoderState:
    """An empty state with a cache."""
    return network.start(network.encode(src, lens), lens, width, cached=True)


def in_chunks(
    network: Transformer, tokens: Tensor, state: DecoderState, sizes: list[int]
) -> tuple[Tensor, DecoderState]:
    """Decode so many tokens at a time: hidden of all, and the state after them."""
    found = []
    for chunk in tokens.split(sizes, dim=1):
        hidden, state = network.decode(chunk, state)
        found.append(hidden)
    return torch.cat(found, dim=1), state
