"""Without padding: the same numbers and gradients, and nothing is computed that stands for none."""

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
from seq2seq.nn.layout import Padded, Unpadded, room_for

E = 5
LENS = torch.tensor([4, 1, S])


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def unpadded(lens: Tensor, width: int) -> Unpadded:
    return Unpadded.of(lens, width, int(lens.sum()), H)


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
    sides = unpadded(src_lens, src.shape[1]), unpadded(tgt_lens, T)
    vectors, found = learned(network(src, src_lens, tgt, *sides))
    torch.testing.assert_close(vectors, rows)
    torch.testing.assert_close(found, expected)


def test_batches_of_about_one_size_have_the_same_number_of_vectors() -> None:
    assert len({room_for(tokens) for tokens in range(3584, 4096)}) <= 4
    for tokens in range(5000):
        room = room_for(tokens)
        assert room % 8 == 0
        assert tokens < room <= tokens + max(8, tokens / 16)
