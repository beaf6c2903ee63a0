"""Without padding: the same numbers and gradients, and nothing is computed that stands for none."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
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
from seq2seq.nn import attention
from seq2seq.nn.layout import REST, Joined, Layout, Padded, Unpadded, room_for
from seq2seq.nn.masks import Spans

E = 5
LENS = torch.tensor([4, 1, S])


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def unpadded(lens: Tensor, width: int) -> Unpadded:
    return Unpadded.of(lens, width, int(lens.sum()), H)


def joined(lens: Tensor, width: int) -> Joined:
    return Joined.of(lens, width, int(lens.sum()))


def span_by_span(
    query: Tensor, key: Tensor, value: Tensor, spans: Spans, dropout: float = 0.0
) -> Tensor:
    """What a GPU's kernel does, which knows no longer spans than it is told."""
    assert not dropout
    found = []
    ends = (pairwise(each.tolist()) for each in (spans.query_ends, spans.key_ends))
    for (start, end), (first, last) in zip(*ends, strict=True):
        assert 0 < end - start <= spans.longest_query
        assert 0 < last - first <= spans.longest_key
        pair = key[first:last], value[first:last]
        part, keys, values = (x.transpose(0, 1) for x in (query[start:end], *pair))
        lens = torch.arange(end - start) + 1 if spans.causal else torch.tensor(last - first)
        lens = lens.expand(query.shape[1], *lens.shape)
        output = attention.dot_product_attention(part, keys, values, lens).output
        found.append(output.transpose(0, 1))
    assert sum(map(len, found)) == len(query)
    return torch.cat(found)


def test_joined_attention_asks_a_gpu_for_what_it_has() -> None:
    """On torch's meta device, which knows what the kernel takes."""
    sides = [joined(lens, S) for lens in (torch.tensor([3, 1]), torch.tensor([7, 2]))]
    query, key, value = (
        torch.empty(len(side.places), H, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for side in (sides[0], sides[1], sides[1])
    )
    spans = sides[0].visible(torch.tensor([7, 2]), sides[1])
    assert isinstance(spans, Spans)
    assert not spans.causal
    spans = spans._replace(
        query_ends=spans.query_ends.to("meta"), key_ends=spans.key_ends.to("meta")
    )
    found = attention.joined_attention(query, key, value, spans, 0.1)
    assert found.shape == query.shape
    found.sum().backward()
    assert value.grad is not None
    assert value.grad.shape == value.shape


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


def test_joined_sentences_end_where_the_next_begins_and_the_rest_is_the_last() -> None:
    assert joined(LENS, S).ends.tolist() == [0, 4, 5, 12, REST]
    for tokens in (REST - 1, REST, 4 * REST):
        layout = joined(torch.tensor([tokens]), tokens)
        assert layout.ends[-1] == len(layout.places) > tokens
        assert layout.ends[-1] - tokens <= REST <= layout.longest
        assert layout.ends[-1] % 8 == 0


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


@pytest.mark.parametrize("of", [unpadded, joined])
@every_form
@every_variant
@every_mode
def test_a_network_without_padding_computes_and_learns_the_same(
    settings: dict[str, Any],
    form: AttentionForm,
    training: bool,
    of: Callable[[Tensor, int], Layout],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention, "joined_attention", span_by_span)
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
    torch.testing.assert_close(found, expected)


def test_batches_of_about_one_size_have_the_same_number_of_vectors() -> None:
    assert len({room_for(tokens) for tokens in range(3584, 4096)}) <= 4
    for tokens in range(5000):
        room = room_for(tokens)
        assert room % 8 == 0
        assert tokens < room <= tokens + max(8, tokens / 16)
