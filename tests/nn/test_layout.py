"""Without padding: the same numbers and gradients, and nothing is computed that stands for none."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_tests import interpreted
from networks import (
    B,
    H,
    S,
    T,
    build,
    every_form,
    every_mode,
    every_variant,
    sentences,
    targets,
)
from torch import Tensor

from seq2seq.config import AttentionForm
from seq2seq.nn.layout import MULTIPLE, Joined, Layout, Padded, Unpadded, room_for
from seq2seq.nn.masks import Spans

E = 5
LENS = torch.tensor([4, 1, S])


def unpadded(lens: Tensor, width: int) -> Unpadded:
    return Unpadded.of(lens, width, int(lens.sum()), H)


def joined(lens: Tensor, width: int) -> Joined:
    return Joined.of(lens, width, int(lens.sum()))


def stretched(lens: Tensor, width: int) -> Joined:
    """With room for more tokens than there are."""
    return Joined.of(lens, width, int(lens.sum()) + 3 * MULTIPLE)


def inside(lens: Tensor, width: int) -> Tensor:
    return torch.arange(width) < lens[:, None]


def test_tokens_stand_one_after_the_other() -> None:
    ids = torch.arange(B * S).view(B, S)
    found = unpadded(LENS, S).tokens(ids)
    expected = [
        token for row, n in zip(ids.tolist(), LENS.tolist(), strict=True) for token in row[:n]
    ]
    assert found[: LENS.sum()].tolist() == expected
    assert len(found) > LENS.sum()
    assert joined(LENS, S).tokens(ids)[: LENS.sum()].tolist() == expected


@pytest.mark.parametrize("tokens", [MULTIPLE - 1, MULTIPLE, 4 * MULTIPLE])
def test_joined_sentences_leave_room_for_a_rest(tokens: int) -> None:
    layout = joined(torch.tensor([tokens]), tokens)
    assert 0 < len(layout.places) - tokens <= MULTIPLE
    assert len(layout.places) % 8 == 0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of", [joined, stretched])
def test_joined_sentences_see_themselves_or_their_translation(
    of: Callable[[Tensor, int], Joined], causal: bool
) -> None:
    query_lens = torch.tensor([3, 0, 1, 2])
    key_lens = query_lens if causal else torch.tensor([2, 0, 4, 1])
    queries, keys = of(query_lens, S), of(key_lens, S)
    lens = torch.ones(len(key_lens), S) if causal else key_lens
    spans = queries.visible(lens, keys)
    assert isinstance(spans, Spans)
    query, key = torch.arange(len(queries.places)), torch.arange(len(keys.places))
    seen = (key >= spans.firsts[:, None]) & (key < spans.ends[:, None])
    seen_by = (query >= spans.seen_firsts[:, None]) & (query < spans.seen_ends[:, None])
    pairs = zip(query_lens.tolist(), key_lens.tolist(), strict=True)
    expected = torch.block_diag(*(torch.ones(q, k) for q, k in pairs))
    expected = (expected.tril() if causal else expected).bool()
    assert seen.sum() == expected.sum()
    assert torch.equal(seen[: len(expected), : expected.shape[1]], expected)
    assert torch.equal(seen_by.T, seen)


def test_heads_are_those_of_rows_and_come_back() -> None:
    rows = torch.randn(B, S, H * E)
    layout, mask = unpadded(LENS, S), inside(LENS, S)
    vectors = torch.cat([rows[mask], torch.randn(len(layout.places) - layout.real, H * E)])
    heads = layout.split(vectors, E)
    assert heads.shape == (B, H, S, E)
    expected = Padded(B).split(rows, E)
    kept = mask[:, None].expand(B, H, S)
    assert torch.equal(heads[kept], expected[kept])
    back = layout.merge(heads)
    assert torch.equal(back[: layout.real], vectors[: layout.real])
    assert not back[layout.real :].any()


def test_gradients_go_back_to_where_they_came_from() -> None:
    layout, mask = unpadded(LENS, S), inside(LENS, S)
    vectors = torch.randn(len(layout.places), H * E, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(B, H, S, E, dtype=torch.float64) * mask[:, None, :, None]
    (found,) = torch.autograd.grad((layout.split(vectors, E) * weights).sum(), vectors)
    expected = Padded(B).merge(weights)[mask]
    assert torch.equal(found[: layout.real], expected)
    assert not found[layout.real :].any()

    heads = torch.randn(B, H, S, E, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(len(layout.places), H * E, dtype=torch.float64)
    weights[layout.real :] = 0
    (found,) = torch.autograd.grad((layout.merge(heads) * weights).sum(), heads)
    rows = torch.zeros(B, S, H * E, dtype=torch.float64)
    rows[mask] = weights[: layout.real]
    assert torch.equal(found, Padded(B).split(rows, E))


@every_form
@every_variant
@every_mode
def test_a_network_without_padding_computes_and_learns_the_same(
    settings: dict[str, Any], form: AttentionForm, training: bool
) -> None:
    check_the_same(settings, form, training, unpadded)


@interpreted
@pytest.mark.parametrize("of", [joined, stretched])
@every_variant
@every_mode
def test_a_network_of_joined_sentences_computes_and_learns_the_same(
    settings: dict[str, Any], training: bool, of: Callable[[Tensor, int], Layout]
) -> None:
    # Kernels for a GPU sum in another order, with powers of two.
    check_the_same(settings, "fast", training, of, rtol=1e-5, atol=2e-5)


def check_the_same(
    settings: dict[str, Any],
    form: AttentionForm,
    training: bool,
    of: Callable[[Tensor, int], Layout],
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    network = build(settings, form, training)
    (src, src_lens), tgt, tgt_lens = sentences(), targets(), torch.tensor([T, 2, 3])
    mask = inside(tgt_lens, T)
    parameters = list(network.parameters())
    weights = torch.randn(int(mask.sum()), network.config.tgt_vocab_size)

    def learned(hidden: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        logits = network.project(hidden)
        wanted = logits[: len(weights)]
        loss = (wanted * weights).sum()
        return wanted.detach(), torch.autograd.grad(loss, parameters, allow_unused=True)

    rows, expected = learned(network(src, src_lens, tgt)[mask])
    sides = of(src_lens, src.shape[1]), of(tgt_lens, T)
    vectors, found = learned(network(src, src_lens, tgt, *sides))
    torch.testing.assert_close(vectors, rows)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def test_batches_of_about_one_size_have_the_same_number_of_vectors() -> None:
    assert len({room_for(tokens) for tokens in range(3584, 4096)}) <= 4
    for tokens in range(5000):
        room = room_for(tokens)
        assert room % 8 == 0
        assert tokens < room <= tokens + max(8, tokens / 16)
