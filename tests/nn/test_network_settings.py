"""What each setting makes of the network, and what it leaves alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from networks import (
    SMALL,
    B,
    D,
    S,
    T,
    begin,
    build,
    every_form,
    every_variant,
    in_chunks,
    sentences,
    targets,
)
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import BOS_ID, PAD_ID, AttentionForm, Dropout, ModelConfig
from seq2seq.nn.attention import FORMS, MultiHeadAttention
from seq2seq.nn.layers import FeedForward, Residual
from seq2seq.nn.transformer import NO_DROPOUT, Transformer


@every_variant
def test_the_form_of_attention_and_dropout_are_no_part_of_the_network(
    settings: dict[str, Any],
) -> None:
    (src, lens), tgt = sentences(), targets()
    plain = build(settings)
    expected = plain.project(plain(src, lens, tgt))
    assert expected.shape == (B, T, plain.config.tgt_vocab_size)
    high = Dropout(residual=0.9, attention=0.9, activation=0.9)
    for form in ("auto", *FORMS):
        other = build(settings, form, rates=high)  # type: ignore[arg-type]
        torch.nn.init.ones_(other.output.weight)  # what is loaded must make the difference
        assert list(other.state_dict()) == list(plain.state_dict())
        other.load_state_dict(plain.state_dict())
        torch.testing.assert_close(other.project(other(src, lens, tgt)), expected)


def test_every_sublayer_drops_at_the_rate_of_its_kind() -> None:
    rates = Dropout(residual=0.1, attention=0.2, activation=0.3)
    modules = list(build({}, rates=rates).modules())
    assert {each.rate for each in modules if isinstance(each, Residual)} == {0.1}
    assert {each.dropout for each in modules if isinstance(each, MultiHeadAttention)} == {0.2}
    assert {each.rate for each in modules if isinstance(each, FeedForward)} == {0.3}


@pytest.mark.parametrize("where", ["residual", "attention", "activation"])
def test_each_dropout_acts_in_training_and_follows_the_seed(where: str) -> None:
    rates = replace(NO_DROPOUT, **{where: 0.5})
    network = build({}, training=True, rates=rates)
    (src, lens), tgt = sentences(), targets()
    torch.manual_seed(3)
    first, second = network(src, lens, tgt), network(src, lens, tgt)
    torch.manual_seed(3)
    assert network(src, lens, tgt).equal(first)
    assert not second.equal(first)
    assert network.eval()(src, lens, tgt).equal(network(src, lens, tgt))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_both_sides_start_from_embeddings_plus_positions_under_dropout(positions: str) -> None:
    """Without layers and with post-norm, what comes out is what went in."""
    bare = {"encoder_layers": 0, "norm": "post", "positions": positions}
    network = build(bare, rates=Dropout(residual=0.5))
    network.decoder = nn.ModuleList()
    (src, lens), tgt = sentences(), targets()
    source = network.src_embedding(src) + network.src_positions(torch.arange(S), S)
    target = network.tgt_embedding(tgt) + network.tgt_positions(torch.arange(T), T)
    assert network.encode(src, lens).equal(source)
    assert network(src, lens, tgt).equal(target)
    network.train()
    for found, whole in ((network.encode(src, lens), source), (network(src, lens, tgt), target)):
        dropped = found == 0
        assert 0.3 < dropped.float().mean() < 0.7
        torch.testing.assert_close(found[~dropped], 2 * whole[~dropped])


@pytest.mark.parametrize(
    ("tie", "one_embedding", "output_is_target"),
    [
        ("none", False, False),
        ("source-target", True, False),
        ("target-output", False, True),
        ("all", True, True),
    ],
)
def test_a_tie_makes_two_matrices_one_and_keeps_them_one(
    tie: str, one_embedding: bool, output_is_target: bool
) -> None:
    network = build({"tie": tie})
    src, tgt, out = network.src_embedding, network.tgt_embedding, network.output
    assert (src.weight is tgt.weight) == one_embedding
    assert (tgt.weight is out.weight) == output_is_target
    assert (src.weight is out.weight) == (one_embedding and output_is_target)
    network.load_state_dict({k: v + 1 for k, v in network.state_dict().items()})
    assert (tgt.weight is out.weight) == output_is_target
    different = len({src.weight.data_ptr(), tgt.weight.data_ptr(), out.weight.data_ptr()})
    assert different == 3 - one_embedding - output_is_target


@every_variant
def test_the_number_of_parameters_is_the_papers(settings: dict[str, Any]) -> None:
    network = build(settings)
    c = network.config
    heads, matrices = c.heads * c.head_width, 3 if c.activation == "swiglu" else 2
    attention = 4 * c.d_model * heads + c.bias * (3 * heads + c.d_model)
    feed_forward = matrices * c.d_model * c.ff_dim + c.bias * (
        (matrices - 1) * c.ff_dim + c.d_model
    )
    norm = 2 * c.d_model
    layers = c.encoder_layers * (attention + feed_forward + 2 * norm)
    layers += c.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    tables = {
        "none": c.src_vocab_size + 2 * c.tgt_vocab_size,
        "source-target": c.src_vocab_size + c.tgt_vocab_size,
        "target-output": c.src_vocab_size + c.tgt_vocab_size,
        "all": c.src_vocab_size,
    }[c.tie] * c.d_model
    expected = layers + tables + c.output_bias * c.tgt_vocab_size
    expected += 2 * norm if c.norm == "pre" else 0
    expected += 2 * c.max_positions * c.d_model if c.positions == "learned" else 0
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


def test_a_new_network_has_biases_of_zero() -> None:
    network = Transformer(ModelConfig(**SMALL, output_bias=True))
    biases = [each.bias for each in network.modules() if isinstance(each, nn.Linear)]
    assert biases
    assert not any(bias.any() for bias in biases)


def test_the_base_network_of_the_paper_has_63_million_parameters() -> None:
    """Vaswani et al. 2017, table 3, base: 65 million with 37,000 joint subwords, rounded."""
    with torch.device("meta"):
        network = Transformer(
            ModelConfig(
                src_vocab_size=37000,
                tgt_vocab_size=37000,
                d_model=512,
                heads=8,
                ff_dim=2048,
                encoder_layers=6,
                decoder_layers=6,
                norm="post",
            )
        )
    count = sum(parameter.numel() for parameter in network.parameters())
    # 6 encoder layers of 3,152,384 and 6 decoder layers of 4,204,032, and the one table.
    assert count == 6 * 3_152_384 + 6 * 4_204_032 + 37000 * 512 == 63_082_496


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_memory_and_hidden_vectors_are_normalised_last(norm: str) -> None:
    network = build({"norm": norm})
    (src, lens), tgt = sentences(), targets()
    memory, hidden = network.encode(src, lens), network(src, lens, tgt)
    for vectors, layers, last in (
        (memory, network.encoder, network.encoder_norm),
        (hidden, network.decoder, network.decoder_norm),
    ):
        layer: Any = layers[-1]
        norm_module: Any = last if norm == "pre" else layer.feed_forward_residual.norm
        raw = (vectors - norm_module.bias) / norm_module.weight
        zero, one = torch.zeros(raw.shape[:2]), torch.ones(raw.shape[:2])
        torch.testing.assert_close(raw.mean(dim=-1), zero, atol=1e-5, rtol=0)
        torch.testing.assert_close(raw.var(dim=-1, correction=0), one, atol=1e-3, rtol=0)


def test_logits_are_hidden_vectors_times_the_tied_table() -> None:
    network = build({"output_bias": True})
    hidden = torch.randn(B, T, D)
    by_hand = hidden @ network.tgt_embedding.weight.T + network.output.bias
    torch.testing.assert_close(network.project(hidden), by_hand)


@pytest.mark.parametrize(("name", "token"), [("bos", BOS_ID), ("pad", PAD_ID)])
def test_the_start_token_is_the_settings(name: str, token: int) -> None:
    assert build({"start_token": name}).config.start_id == token


def test_only_learned_positions_have_an_end() -> None:
    assert build({}).config.max_length is None
    network = build({"positions": "learned", "max_positions": T})
    assert network.config.max_length == T
    (src, lens), tgt = sentences(), targets()
    src, lens = src[:, :T], lens.clamp(max=T)
    network(src, lens, tgt)
    with pytest.raises(AssertionError, match=f"position {T + 1} of a table of {T}"):
        network(src, lens, torch.cat([tgt, tgt[:, :1]], dim=1))


def test_a_sentence_may_be_longer_than_the_first_table_of_sinusoids() -> None:
    network = build({})
    src, tgt = torch.randint(3, 11, (1, 300)), torch.randint(3, 11, (1, 300))
    lens = torch.tensor([300])
    state = network.start(network.encode(src, lens), lens, cached=True)
    by_steps, _ = in_chunks(network, tgt, state, [250, 1, 9, 40])
    fresh = build({})
    torch.testing.assert_close(by_steps, fresh(src, lens, tgt))


def test_a_network_needs_the_sizes_of_its_vocabularies() -> None:
    for side, word in (("src", "source"), ("tgt", "target")):
        config = ModelConfig(**SMALL | {"tie": "none", f"{side}_vocab_size": 0})
        with pytest.raises(AssertionError, match=word):
            Transformer(config)


@every_form
@every_variant
def test_bf16_autocast_gives_the_same_but_for_rounding(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form, training=True)
    (src, lens), tgt = sentences(), targets()
    exact = network.project(network(src, lens, tgt))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = network.project(network(src, lens, tgt))
        by_steps, _ = in_chunks(network, tgt, begin(network, src, lens), [1] * T)
    assert rounded.dtype == torch.bfloat16
    assert relative_error(rounded, exact) < 0.02
    assert relative_error(network.project(by_steps.float()), exact) < 0.02
    F.cross_entropy(rounded.float().flatten(0, 1), tgt.flatten()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


def relative_error(found: Tensor, expected: Tensor) -> float:
    error: float = ((found.float() - expected).norm() / expected.norm()).item()
    return error
