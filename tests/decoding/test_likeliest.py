"""The best of many numbers are found without looking at each."""

import pytest
import torch
from torch import Tensor

from seq2seq.decoding.likeliest import BLOCK, likeliest

B, W, COUNT = 7, 3, 6
LARGE = COUNT * BLOCK
"""From one more token on, blocks are looked at."""


def check(scores: Tensor, log_probs: Tensor) -> None:
    found = likeliest(scores, log_probs, COUNT)
    totals = scores[:, :, None] + log_probs  # (B, W, V)
    every = totals.flatten(1).sort(dim=1, descending=True).values
    assert found.totals.equal(every[:, :COUNT])
    rows = torch.arange(len(scores))[:, None]
    assert totals[rows, found.beams, found.tokens].equal(found.totals)
    for beams, tokens in zip(found.beams.tolist(), found.tokens.tolist(), strict=True):
        places = list(zip(beams, tokens, strict=True))
        assert len(set(places)) == len(places)


@pytest.mark.parametrize("vocab_size", [4, BLOCK, BLOCK + 1, LARGE, LARGE + 1, LARGE + BLOCK, 1000])
def test_they_are_those_of_sorting_everything(vocab_size: int) -> None:
    check(torch.randn(B, W), torch.randn(B, W, vocab_size))


@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK, LARGE - 1, LARGE, LARGE + 20])
def test_all_of_them_may_stand_side_by_side(place: int) -> None:
    log_probs = torch.randn(B, W, LARGE + 30)
    log_probs[:, 1, place : place + COUNT] += 100
    check(torch.randn(B, W), log_probs)


def test_a_beam_that_is_closed_gives_none_while_others_give_enough() -> None:
    scores = torch.tensor([[0.0, -torch.inf, -torch.inf]]).expand(B, W)
    found = likeliest(scores, torch.randn(B, W, 1000), COUNT)
    assert (found.beams == 0).all()
    check(scores, torch.randn(B, W, 1000))


def test_equal_ones_are_different_places() -> None:
    check(torch.zeros(B, W), torch.zeros(B, W, 1000))
    check(torch.zeros(B, W), torch.randint(0, 3, (B, W, 1000)).float())


def test_where_almost_nothing_may_follow_the_few_come_first() -> None:
    log_probs = torch.full((B, W, 1000), -torch.inf)
    log_probs[:, 2, 3] = -1.0
    log_probs[:, 1, 999] = -2.0
    found = likeliest(torch.zeros(B, W), log_probs, COUNT)
    assert found.tokens[:, :2].tolist() == [[3, 999]] * B
    assert found.beams[:, :2].tolist() == [[2, 1]] * B
    check(torch.zeros(B, W), log_probs)


def test_a_small_vocabulary_gives_all_that_there_are() -> None:
    assert likeliest(torch.zeros(B, W), torch.randn(B, W, 2), 99).totals.shape == (B, W * 2)
