"""Several corpora in one order: shares as asked for, nothing twice before all came once."""

from collections import Counter
from itertools import chain, combinations, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.mixture import Mixture
from seq2seq.data.sampler import Draw, TokenBatchSampler


def mixture_of(
    *sizes: int,
    weights: tuple[float | None, ...] = (),
    temperature: float = 1.0,
    accumulated: int = 1,
    rank: int = 0,
    world: int = 1,
    seed: int = 5,
) -> Mixture:
    """Corpora of so many pairs of one length, four in a batch."""
    samplers = [
        TokenBatchSampler(
            np.full((size, 2), 7, np.uint32),
            32,
            corpus=corpus,
            rank=rank,
            world=world,
            accumulated=accumulated,
            seed=seed,
        )
        for corpus, size in enumerate(sizes)
    ]
    return Mixture(
        samplers, weights=weights, temperature=temperature, accumulated=accumulated, seed=seed
    )


def drawn(mixture: Mixture, number: int) -> list[Draw]:
    """The first ones."""
    return list(islice(chain.from_iterable(mixture), number))


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(8, 60), min_size=1, max_size=4),
    world=st.integers(1, 2),
    epoch=st.integers(0, 3),
)
def test_without_weights_every_pair_of_every_corpus_comes_once_an_epoch(
    sizes: list[int], world: int, epoch: int
) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for rank in range(world):
        mixture = mixture_of(*sizes, rank=rank, world=world)
        for draw in mixture.batches(epoch):
            assert draw.epoch == epoch
            seen.update((draw.corpus, index) for index in draw.indices)
    assert seen == Counter((corpus, i) for corpus, size in enumerate(sizes) for i in range(size))


def test_weights_are_shares_of_the_batches() -> None:
    mixture = mixture_of(400, 40, 40, weights=(2.0, 1.0, 1.0))
    assert Counter(draw.corpus for draw in mixture.batches(0)) == {0: 60, 1: 30, 2: 30}
    assert mixture_of(400, 40, weights=(1000.0, 1.0)).shares.tolist() == [110, 1]  # at least
    assert mixture_of(40, 40, weights=(1e308, 1e308)).shares.tolist() == [10, 10]
    assert mixture_of(40, 40, weights=(3e-308, 1e-308)).shares.tolist() == [15, 5]


def test_temperature_takes_sizes_to_the_power_of_its_inverse() -> None:
    for temperature in (1.0, 2.0, 5.0):
        mixture = mixture_of(1600, 400, 16, temperature=temperature)
        wanted = np.array([400, 100, 4]) ** (1 / temperature)
        assert mixture.shares == pytest.approx(504 * wanted / wanted.sum(), abs=0.5)


def test_no_pair_of_a_corpus_comes_twice_before_all_others_came_once() -> None:
    mixture = mixture_of(80, 24, weights=(1.0, 3.0))
    draws = drawn(mixture, 5 * len(mixture))
    for corpus, size in enumerate((80, 24)):
        indices = [index for draw in draws if draw.corpus == corpus for index in draw.indices]
        for start in range(0, len(indices) - size, size):
            assert sorted(indices[start : start + size]) == list(range(size))


def test_corpora_are_mixed_and_every_epoch_and_seed_mixes_them_anew() -> None:
    orders = []
    for seed, epoch in ((5, 0), (5, 1), (5, 2), (6, 2)):
        order = [draw.corpus for draw in mixture_of(200, 200, seed=seed).batches(epoch)]
        assert set(order[:20]) == set(order[-20:]) == {0, 1}
        orders.append(order)
    assert all(a != b for a, b in combinations(orders, 2))


@pytest.mark.parametrize("weights", [(), (1.0, 3.0, 0.5)])
def test_a_mixture_goes_on_anywhere_as_if_it_never_had_been_cut(weights: tuple[float, ...]) -> None:
    each = len(mixture_of(80, 24, 13, weights=weights))
    whole = drawn(mixture_of(80, 24, 13, weights=weights), 3 * each)
    for cut in range(len(whole)):
        mixture = mixture_of(80, 24, 13, weights=weights)
        mixture.epoch, mixture.start = divmod(cut, each)
        assert drawn(mixture, len(whole) - cut) == whole[cut:]


def test_all_ranks_take_the_same_corpus_at_the_same_time() -> None:
    ranks = [mixture_of(80, 24, weights=(1.0, 2.0), rank=rank, world=2) for rank in range(2)]
    draws = [drawn(mixture, 2 * len(mixture)) for mixture in ranks]
    assert [draw.corpus for draw in draws[0]] == [draw.corpus for draw in draws[1]]
    assert all(set(a.indices).isdisjoint(b.indices) for a, b in zip(*draws, strict=True))


@pytest.mark.parametrize("accumulated", [1, 2, 3])
def test_an_epoch_has_whole_steps(accumulated: int) -> None:
    for weights in ((), (1.0, 2.5, 0.7)):
        mixture = mixture_of(90, 25, 41, weights=weights, accumulated=accumulated)
        epoch = list(mixture.batches(0))
        assert len(epoch) == len(mixture)
        assert len(epoch) % accumulated == 0
        alone = sum(len(sampler) for sampler in mixture.samplers)
        assert abs(len(epoch) - alone) <= accumulated  # of rounding


def test_a_limit_ends_every_epoch_early() -> None:
    whole, mixture = mixture_of(80, 24), mixture_of(80, 24)
    mixture.limit, mixture.start = 3, 1
    expected = [list(whole.batches(epoch))[:3] for epoch in range(2)]
    assert drawn(mixture, 5) == [*expected[0][1:], *expected[1]]
    mixture.limit = 1000
    assert mixture.end == len(mixture)


@pytest.mark.parametrize(
    ("accumulated", "seen", "end", "place"),
    [(1, 0, 30, 0), (1, 7, 30, 7), (2, 7, 30, 8), (1, 7, 15, 14), (3, 20, 60, 9), (3, 29, 30, 27)],
)
def test_where_an_epoch_has_other_batches_it_goes_on_after_the_same_share_in_whole_steps(
    accumulated: int, seen: int, end: int, place: int
) -> None:
    mixture = mixture_of(120, accumulated=accumulated)
    assert mixture.end == 30
    assert mixture.place(seen, end) == place


@pytest.mark.parametrize("limit", [1, 5, 6])
def test_an_epoch_that_ends_within_a_step_goes_on_where_it_was(limit: int) -> None:
    mixture = mixture_of(120, accumulated=3)
    mixture.limit = limit
    for seen in range(0, limit, 3):
        assert mixture.place(seen, limit) == seen


@pytest.mark.parametrize("together", [1, 2, 5, 1000])
def test_draws_come_so_many_together_and_none_of_another_epoch(together: int) -> None:
    mixture = mixture_of(80, 24)
    each = len(mixture)
    mixture.together = together
    stream = iter(mixture)
    for epoch in range(2):
        sizes, draws = [], list[Draw]()
        while len(draws) < each:
            some = next(stream)
            sizes.append(len(some))
            draws += some
        assert draws == list(mixture_of(80, 24).batches(epoch))
        assert set(sizes[:-1]) <= {together}
        assert sizes[-1] <= together
