"""The quick look for evaluation pairs in train."""

from itertools import pairwise

import pytest

from seq2seq.data.corpus import Pair
from seq2seq.data.glance import RUN, glance, spread

TRAIN = [Pair(f"source {number}", f"target {number}") for number in range(5000)]


def test_pairs_and_sources_that_are_in_any_corpus_are_counted() -> None:
    other = [Pair("one", "eins"), Pair("two", "zwei"), Pair(" ", "leer")]
    evaluation = [
        *TRAIN[7:10],
        TRAIN[7],
        Pair("source 20", "another"),
        Pair("two", "zwei"),
        Pair("Source 21", "target 21"),
        Pair(" ", "leer"),
    ]
    found = glance(evaluation, [TRAIN, other], most=10_000)
    assert found == (5, 6, 5003, 5003)
    assert glance(evaluation[-2:], [TRAIN, other], most=10_000)[:2] == (0, 0)


def test_only_so_many_pairs_of_large_corpora_are_looked_at_and_the_ends_are_among_them() -> None:
    corpora = [TRAIN[:4000], TRAIN[4000:]]
    ends = [TRAIN[0], TRAIN[3999], TRAIN[4000], TRAIN[4999]]
    found = glance(ends, corpora, most=1000)
    assert found.pairs == found.sources == 4
    assert 900 <= found.looked_at <= 1000
    assert found.of == 5000
    everything = glance(TRAIN, corpora, most=1000)
    assert everything.pairs == everything.looked_at


@pytest.mark.parametrize("size", [0, 1, 3 * RUN, 1000, 1001, 5000])
def test_indices_come_once_in_order_and_evenly(size: int) -> None:
    indices = list(spread(size, 1000))
    assert indices == sorted(set(indices))
    if size <= 1000:
        assert indices == list(range(size))
    else:
        assert indices[0] == 0
        assert indices[-1] == size - 1
        widest = max(after - before for before, after in pairwise(indices))
        assert widest <= size / (1000 // RUN - 1)
