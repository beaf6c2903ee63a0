"""Layers against torch's own with copied weights, and against the papers' equations."""

from typing import Any

import pytest
import torch
from networks import SMALL, B, D, H, S, T, build
from oracle import copy_attention, fill_vectors
from torch import nn

from seq2seq.config import ModelConfig
from seq2seq.nn.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from seq2seq.nn.layout import Padded
from seq2seq.nn.transformer import NO_DROPOUT


def layer_settings(norm: str, activation: str) -> tuple[ModelConfig, dict[str, Any]]:
    """The same layer for us and for torch."""
    config = ModelConfig(**SMALL | {"norm": norm, "activation": activation})
    return config, {
        "d_model": D,
        "nhead": H,
        "dim_feedforward": config.ff_dim,
        "dropout": 0.0,
        "activation": activation,
        "batch_first": True,
        "norm_first": norm == "pre",
    }


def copy_rest(theirs: Any, ours: Any, residuals: list[str]) -> None:
    """Feed-forward layers and norms; torch numbers the norms in their order."""
    ours.feed_forward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.outer.load_state_dict(theirs.linear2.state_dict())
    for number, name in enumerate(residuals, start=1):
        norm = getattr(theirs, f"norm{number}")
        getattr(ours, name).norm.load_state_dict(norm.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_equals_torchs_with_copied_weights(norm: str, activation: str) -> None:
    config, settings = layer_settings(norm, activation)
    theirs, ours = nn.TransformerEncoderLayer(**settings), EncoderLayer(config, NO_DROPOUT, "auto")
    fill_vectors(theirs)
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_rest(theirs, ours, ["self_residual", "feed_forward_residual"])
    x, lens = torch.randn(B, S, D), torch.tensor([S, 4, 1])
    expected = theirs(x, src_key_padding_mask=torch.arange(S) >= lens[:, None])
    torch.testing.assert_close(ours(x, lens, Padded(B)), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_layer_equals_torchs_with_copied_weights(norm: str, activation: str) -> None:
    config, settings = layer_settings(norm, activation)
    theirs, ours = nn.TransformerDecoderLayer(**settings), DecoderLayer(config, NO_DROPOUT, "auto")
    fill_vectors(theirs)
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_rest(theirs, ours, ["self_residual", "cross_residual", "feed_forward_residual"])
    x, memory, lens = torch.randn(B, T, D), torch.randn(B, S, D), torch.tensor([S, 4, 1])
    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(T, T).triu(1).bool(),
        memory_key_padding_mask=torch.arange(S) >= lens[:, None],
    )
    network = build({"decoder_layers": 1})
    network.decoder[0] = ours
    state = network.start(memory, lens)
    positions = torch.arange(T).expand(B, T)
    torch.testing.assert_close(
        ours(x, state.layers[0], positions, positions + 1, T, lens, Padded(B)), expected
    )


def test_swiglu_is_the_papers_equation() -> None:
    """Shazeer 2020, eq. 6: (Swish(x W) * x V) W2."""
    layer = FeedForward(ModelConfig(**SMALL | {"activation": "swiglu", "bias": False}), 0.0)
    assert layer.gate is not None
    x = torch.randn(B, T, D)
    w, v, w2 = layer.inner.weight.T, layer.gate.weight.T, layer.outer.weight.T
    swish = x @ w * torch.sigmoid(x @ w)
    torch.testing.assert_close(layer(x), (swish * (x @ v)) @ w2)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_residual_drops_some_of_what_its_sublayer_gives_and_nothing_of_x(norm: str) -> None:
    residual = Residual(ModelConfig(d_model=D, heads=H, norm=norm), 0.5)  # type: ignore[arg-type]
    residual.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.randint(9, (B, T, D)).float()
    assert (residual(x, torch.ones_like) - x).unique().tolist() == [0, 2]
    assert (residual.eval()(x, torch.ones_like) - x).unique().tolist() == [1]
