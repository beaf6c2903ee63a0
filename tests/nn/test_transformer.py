"""One decoder path: however the tokens come, and whoever else is in the batch, the same numbers."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from oracle import copy_attention, fill_vectors
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import BOS_ID, PAD_ID, AttentionForm, Dropout, ModelConfig
from seq2seq.nn.attention import FORMS
from seq2seq.nn.layers import DecoderLayer, EncoderLayer, FeedForward
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
    "no decoder layer": {"decoder_layers": 0},
}
"""Every choice of every setting at least once."""

every_form = pytest.mark.parametrize("form", FORMS)
every_variant = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
every_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


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
    """An empty state with room for T tokens."""
    return network.start(network.encode(src, lens), lens, width, capacity=T)


def in_chunks(
    network: Transformer, tokens: Tensor, state: DecoderState, sizes: list[int]
) -> tuple[Tensor, DecoderState]:
    """Decode so many tokens at a time: hidden of all, and the state after them."""
    found = []
    for chunk in tokens.split(sizes, dim=1):
        hidden, state = network.decode(chunk, state)
        found.append(hidden)
    return torch.cat(found, dim=1), state


@every_form
@every_variant
@every_mode
def test_decoding_step_by_step_equals_decoding_at_once(
    settings: dict[str, Any], form: AttentionForm, training: bool
) -> None:
    network = build(settings, form, training)
    (src, lens), tgt = sentences(), targets()
    at_once = network(src, lens, tgt)
    for sizes in ([1] * T, [3, 2]):
        by_steps, state = in_chunks(network, tgt, begin(network, src, lens), sizes)
        torch.testing.assert_close(by_steps, at_once)
        assert state.lengths.tolist() == [T] * B
        assert state.used == T


@every_variant
def test_training_and_evaluation_mean_the_same(settings: dict[str, Any]) -> None:
    (src, lens), tgt = sentences(), targets()
    network = build(settings, training=True)
    assert network(src, lens, tgt).equal(network.eval()(src, lens, tgt))


@every_form
@every_variant
@every_mode
def test_no_position_sees_a_later_token(
    settings: dict[str, Any], form: AttentionForm, training: bool
) -> None:
    network = build(settings, form, training)
    (src, lens), tgt = sentences(), targets()
    hidden = network(src, lens, tgt)
    for t in range(1, T):
        later = tgt.clone()
        later[:, t:] = (tgt[:, t:] - 2) % 8 + 3  # another word each
        changed = network(src, lens, later)
        assert changed[:, :t].equal(hidden[:, :t])
        assert (changed[:, t] != hidden[:, t]).any(dim=-1).all()


def test_every_position_sees_all_earlier_tokens_and_the_whole_source() -> None:
    network, tgt = build({}), targets()
    src, lens = sentences()
    hidden = network(src, lens, tgt)
    for t in range(T):
        earlier = tgt.clone()
        earlier[:, t] = (tgt[:, t] - 2) % 8 + 3
        assert (network(src, lens, earlier)[:, t:] != hidden[:, t:]).any(dim=-1).all()
    for s in range(S):
        other = src.clone()
        other[:, s] = (src[:, s] - 2) % 8 + 3
        changed = (network(other, lens, tgt) != hidden).any(dim=-1)  # (B, T)
        assert changed.equal((s < lens)[:, None].expand(B, T))


@every_form
@every_variant
def test_padding_and_batch_mates_never_change_a_sentence(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets()
    together = network(src, lens, tgt)
    padded = torch.cat([src, targets()], dim=1), lens, torch.cat([tgt, targets()], dim=1)
    torch.testing.assert_close(network(*padded)[:, :T], together)
    for b, n in enumerate(lens.tolist()):
        alone = network(src[b : b + 1, :n], lens[b : b + 1], tgt[b : b + 1])
        torch.testing.assert_close(alone[0], together[b])


@every_form
def test_an_empty_sentence_is_finite_and_leaves_its_mates_alone(form: AttentionForm) -> None:
    network = build({}, form, training=True)
    (src, lens), tgt = sentences(), targets()
    with_empty = network(src, lens * torch.tensor([1, 0, 1]), tgt)
    torch.testing.assert_close(with_empty[[0, 2]], network(src, lens, tgt)[[0, 2]])
    assert with_empty.isfinite().all()
    with_empty.square().sum().backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.fixture
def unwritten_memory_is_nan() -> Any:
    """torch fills what `empty` gives with NaN while its algorithms are deterministic."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("unwritten_memory_is_nan")
@every_form
@every_variant
def test_rows_at_different_places_go_on_right(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    """Prefixes of 3, 1 and 2 tokens, decoded side by side with anything behind their ends."""
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets()
    at_once = network(src, lens, tgt)
    prefixes, rows = torch.tensor([3, 1, 2]), torch.arange(B)
    side_by_side = torch.where(torch.arange(3) < prefixes[:, None], tgt[:, :3], targets()[:, :3])
    _, state = network.decode(side_by_side, begin(network, src, lens))
    state = replace(state, lengths=prefixes)
    for step in range(2):
        place = prefixes + step
        hidden, state = network.decode(tgt[rows, place, None], state)
        torch.testing.assert_close(hidden[:, 0], at_once[rows, place])
        assert state.lengths.equal(place + 1)


@every_form
@every_variant
def test_reorder_then_step_equals_a_step_on_reordered_input(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets(B * W)
    _, state = in_chunks(network, tgt[:, :3], begin(network, src, lens, W), [1, 1, 1])
    beams = torch.tensor([[1, 1], [1, 0], [0, 0]])
    hidden, _ = network.decode(tgt[:, 3:4], state.reorder(beams))
    before = tgt[:, :3].view(B, W, 3)[torch.arange(B)[:, None], beams].flatten(0, 1)
    reordered = torch.cat([before, tgt[:, 3:4]], dim=1)
    expected, _ = network.decode(reordered, begin(network, src, lens, W))
    torch.testing.assert_close(hidden, expected[:, 3:4])


def test_reorder_takes_each_beams_place_along() -> None:
    network = build({})
    (src, lens), tgt = sentences(), targets(B * W)
    _, state = network.decode(tgt[:, :3], begin(network, src, lens, W))
    state = replace(state, lengths=torch.tensor([3, 1, 2, 3, 1, 2]))
    beams = torch.tensor([[1, 0], [0, 0], [1, 1]])
    assert state.reorder(beams).lengths.tolist() == [1, 3, 2, 2, 2, 2]


@every_form
@every_variant
@pytest.mark.parametrize("width", [1, W])
def test_keeping_sentences_equals_running_them_alone(
    settings: dict[str, Any], form: AttentionForm, width: int
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets(B * width)
    kept = torch.tensor([2, 0])
    _, state = in_chunks(network, tgt[:, :2], begin(network, src, lens, width), [1, 1])
    tokens = tgt.view(B, width, T)[kept].flatten(0, 1)
    hidden, state = in_chunks(network, tokens[:, 2:], state.keep(kept), [1, 2])
    alone, _ = network.decode(tokens, begin(network, src[kept], lens[kept], width))
    torch.testing.assert_close(hidden, alone[:, 2:])
    assert state.memory_lens.equal(lens[kept])
    assert state.lengths.tolist() == [T] * 2 * width


@every_form
@every_variant
def test_beams_of_one_sentence_equal_that_many_copies_of_it(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets(B * W)
    beams, state = in_chunks(network, tgt, begin(network, src, lens, W), [2, 1, 2])
    copies = network(src.repeat_interleave(W, dim=0), lens.repeat_interleave(W), tgt)
    torch.testing.assert_close(beams, copies)
    assert all(len(layer.memory_keys) == B for layer in state.layers)


def test_three_beams_with_equal_tokens_equal_one_beam_three_times() -> None:
    network = build({})
    (src, lens), tgt = sentences(), targets()
    one, _ = network.decode(tgt, begin(network, src, lens))
    three, _ = network.decode(tgt.repeat_interleave(3, dim=0), begin(network, src, lens, 3))
    torch.testing.assert_close(three, one.repeat_interleave(3, dim=0))


def test_a_state_is_the_callers_so_two_translations_can_take_turns() -> None:
    network = build({})
    (src, lens), first, second = sentences(), targets(), targets()
    a, b = begin(network, src, lens), begin(network, src.flip(1), lens)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    turns: list[list[Tensor]] = [[], []]
    for t in range(T):
        hidden, a = network.decode(first[:, t : t + 1], a)
        turns[0].append(hidden)
        hidden, b = network.decode(second[:, t : t + 1], b)
        turns[1].append(hidden)
    torch.testing.assert_close(torch.cat(turns[0], dim=1), network(src, lens, first))
    torch.testing.assert_close(torch.cat(turns[1], dim=1), network(src.flip(1), lens, second))
    assert all(value.equal(before[name]) for name, value in network.state_dict().items())


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
    torch.testing.assert_close(ours(x, lens), expected)


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
    torch.testing.assert_close(ours(x, state.layers[0], positions, T, lens), expected)


def test_swiglu_is_the_papers_equation() -> None:
    """Shazeer 2020, eq. 6: (Swish(x W) * x V) W2."""
    layer = FeedForward(ModelConfig(**SMALL | {"activation": "swiglu", "bias": False}), 0.0)
    assert layer.gate is not None
    x = torch.randn(B, T, D)
    w, v, w2 = layer.inner.weight.T, layer.gate.weight.T, layer.outer.weight.T
    swish = x @ w * torch.sigmoid(x @ w)
    torch.testing.assert_close(layer(x), (swish * (x @ v)) @ w2)


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
    assert build({"start_token": name}).start_id == token


def test_only_learned_positions_have_an_end() -> None:
    assert build({}).max_length is None
    network = build({"positions": "learned", "max_positions": T})
    assert network.max_length == T
    (src, lens), tgt = sentences(), targets()
    src, lens = src[:, :T], lens.clamp(max=T)
    network(src, lens, tgt)
    with pytest.raises(AssertionError, match=f"position {T + 1} of a table of {T}"):
        network(src, lens, torch.cat([tgt, tgt[:, :1]], dim=1))


def test_a_sentence_may_be_longer_than_the_first_table_of_sinusoids() -> None:
    network = build({})
    src, tgt = torch.randint(3, 11, (1, 300)), torch.randint(3, 11, (1, 300))
    lens = torch.tensor([300])
    state = network.start(network.encode(src, lens), lens, capacity=300)
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
