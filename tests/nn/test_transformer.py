"""One decoder path: however the tokens come, and whoever else is in the batch, the same numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from networks import (
    B,
    H,
    S,
    T,
    W,
    begin,
    build,
    every_form,
    every_mode,
    every_variant,
    in_chunks,
    sentences,
    targets,
)
from torch import Tensor

from seq2seq.config import AttentionForm
from seq2seq.nn.state import with_room


@pytest.fixture(autouse=True)
def growing_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in T steps, in all that is claimed here."""
    monkeypatch.setattr("seq2seq.nn.transformer.FIRST_ROOM", 2)


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


def test_layers_are_compiled_for_training_and_not_for_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = list[str]()

    def pretended(call: Callable[..., Tensor], *, dynamic: bool) -> Callable[..., Tensor]:
        def run(*inputs: Any) -> Tensor:
            compiled.append(type(call.__self__).__name__)  # type: ignore[attr-defined]
            return call(*inputs)

        assert dynamic
        return run

    monkeypatch.setattr(torch, "compile", pretended)
    (src, lens), tgt = sentences(), targets()
    network = build({}, training=True)
    expected = network(src, lens, tgt)
    network.compile_layers()
    assert network(src, lens, tgt).equal(expected)
    assert compiled == ["EncoderLayer", "DecoderLayer", "DecoderLayer"]
    assert network.eval()(src, lens, tgt).equal(expected)
    in_chunks(network, tgt, begin(network, src, lens), [1] * T)
    assert len(compiled) == 3


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
def unwritten_memory_is_nan() -> Iterator[None]:
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


@pytest.mark.usefixtures("unwritten_memory_is_nan")
@every_form
def test_beams_of_sentences_at_different_places_go_on_right(form: AttentionForm) -> None:
    """The oracle decodes each row's own past alone."""
    network = build({}, form)
    (src, lens), tgt = sentences(), targets(B * W)
    begun = torch.tensor([3, 1, 2]).repeat_interleave(W)
    _, state = network.decode(tgt[:, :3], begin(network, src, lens, W))
    state = replace(state, lengths=begun)
    said = [row[:n].tolist() for row, n in zip(tgt, begun.tolist(), strict=True)]
    kept, memory = torch.arange(B), network.encode(src, lens)
    choices = [
        ([0, 1, 2], [[1, 0], [1, 1], [0, 1]]),
        ([1, 0, 2], [[0, 0], [1, 0], [1, 1]]),
        ([2, 1], [[1, 0], [0, 0]]),
    ]
    for going_on, beams in choices:
        left = torch.tensor(going_on)
        state, kept = state.select(going_on, torch.tensor(beams)), kept[left]
        rows = (left[:, None] * W + torch.tensor(beams)).flatten().tolist()
        new = torch.randint(3, 11, (len(rows), 1))
        said = [said[row] + new[i].tolist() for i, row in enumerate(rows)]
        hidden, state = network.decode(new, state)
        for i, past in enumerate(said):
            sentence = kept[i // W : i // W + 1]
            alone = network.start(memory[sentence], lens[sentence])
            expected, _ = network.decode(torch.tensor([past]), alone)
            torch.testing.assert_close(hidden[i, 0], expected[0, -1])


@every_form
@every_variant
def test_selecting_beams_then_a_step_equals_a_step_on_reordered_input(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets(B * W)
    _, state = in_chunks(network, tgt[:, :3], begin(network, src, lens, W), [1, 1, 1])
    beams = torch.tensor([[1, 1], [1, 0], [0, 0]])
    hidden, _ = network.decode(tgt[:, 3:4], state.select(range(B), beams))
    before = tgt[:, :3].view(B, W, 3)[torch.arange(B)[:, None], beams].flatten(0, 1)
    reordered = torch.cat([before, tgt[:, 3:4]], dim=1)
    expected, _ = network.decode(reordered, begin(network, src, lens, W))
    torch.testing.assert_close(hidden, expected[:, 3:4])


def test_selecting_takes_each_beams_place_along() -> None:
    network = build({})
    (src, lens), tgt = sentences(), targets(B * W)
    _, state = network.decode(tgt[:, :3], begin(network, src, lens, W))
    state = replace(state, lengths=torch.tensor([3, 1, 2, 3, 1, 2]))
    beams = torch.tensor([[1, 0], [0, 0], [1, 1]])
    state = state.select(range(B), beams)
    assert state.lengths.tolist() == [1, 3, 2, 2, 2, 2]
    state = state.select([1, 0], torch.tensor([[0, 1], [1, 0]]))
    assert state.lengths.tolist() == [2, 2, 3, 1]


@every_form
@every_variant
def test_keeping_sentences_equals_running_them_alone(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets(B * W)
    kept, stay = torch.tensor([2, 0]), torch.arange(W).expand(2, W)
    _, state = in_chunks(network, tgt[:, :2], begin(network, src, lens, W), [1, 1])
    tokens = tgt.view(B, W, T)[kept].flatten(0, 1)
    hidden, state = in_chunks(network, tokens[:, 2:], state.select(kept.tolist(), stay), [1, 2])
    alone, _ = network.decode(tokens, begin(network, src[kept], lens[kept], W))
    torch.testing.assert_close(hidden, alone[:, 2:])
    assert state.memory_lens.equal(lens[kept])
    assert state.lengths.tolist() == [T] * 2 * W


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


@pytest.mark.parametrize(("used", "room"), [(1, 4), (4, 4), (5, 8), (8, 8), (9, 9), (20, 20)])
def test_a_cache_that_must_grow_doubles_and_new_places_hold_zeros(used: int, room: int) -> None:
    cache = torch.randn(B, H, 4, W, 3)
    grown = with_room(cache, used)
    assert grown.shape == (B, H, room, W, 3)
    assert grown[:, :, :4].equal(cache)
    assert (grown[:, :, 4:] == 0).all()


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
