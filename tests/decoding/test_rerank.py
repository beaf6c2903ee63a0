"""A feature of hypotheses joins their scores; the oracle sorts them one by one."""

from collections.abc import Sequence

import pytest

from seq2seq.config import Sampling, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.rerank import find_and_rerank, rerank
from seq2seq.decoding.search import Hypothesis

BATCH = [Request([5]), Request([6, 7]), Request([8])]
FOUND = [
    [Hypothesis([10], -1.0), Hypothesis([11, 12], -2.0), Hypothesis([], -4.0)],
    [Hypothesis([13], -1.0)],
    [],
]


def find(batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
    assert batch == BATCH
    return [each[: config.n_best] for each in FOUND]


def feature(src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[float]:
    """Longer translations are better, and later sentences."""
    assert len(src) == len(tgt) <= len(BATCH)
    return [len(said) + sentence[0] / 10 for sentence, said in zip(src, tgt, strict=True)]


def test_it_adds_weight_times_a_value_to_the_scores_and_sorts() -> None:
    found = [Hypothesis([7, 8], -1.0), Hypothesis([9], -1.5)]
    kept = rerank(found, [-2.0, 0.0], 0.1)
    assert [each.tokens for each in kept] == [[7, 8], [9]]
    assert [each.score for each in kept] == pytest.approx([-1.2, -1.5])
    swapped = rerank(found, [-2.0, 0.0], 0.5)
    assert swapped == [Hypothesis([9], -1.5), Hypothesis([7, 8], -2.0)]
    assert rerank([], [], 0.5) == []


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("n_best", [1, 2, 3])
def test_the_best_are_the_best_of_all_that_the_beam_keeps(weight: float, n_best: int) -> None:
    kept = find_and_rerank(find, feature, weight, BATCH, SearchConfig(beam=3, n_best=n_best))
    for request, found, each in zip(BATCH, FOUND, kept, strict=True):
        rescored = [
            Hypothesis(tokens, score + weight * (len(tokens) + request.src[0] / 10))
            for tokens, score in found
        ]
        assert each == sorted(rescored, key=lambda one: -one.score)[:n_best]


def test_of_samples_there_are_as_many_as_asked_for() -> None:
    config = SearchConfig(beam=3, n_best=2, sampling=Sampling())
    (first, *_) = find_and_rerank(find, feature, -2.0, BATCH, config)
    assert [each.tokens for each in first] == [[10], [11, 12]]  # not [], which nobody asked for


def test_of_no_sentences_there_is_nothing_to_rank() -> None:
    assert find_and_rerank(lambda batch, config: [], feature, 1.0, [], SearchConfig()) == []
