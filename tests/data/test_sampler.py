"""The plan of an epoch: every pair once, within budget, shared fairly, drawn from (seed, epoch)."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from seq2seq.data.sampler import TokenBatchSampler


def random_lengths(seed: int, pairs: int | None = None) -> list[tuple[int, int]]:
    """Mostly short pairs; some have one or both sides long."""
    rng = random.Random(seed)
    count = rng.randint(1, 120) if pairs is None else pairs
    return [
        (rng.choice([rng.randint(1, 9), rng.randint(1, 60)]), rng.randint(1, 30))
        for _ in range(count)
    ]


def all_ranks(lengths: list[tuple[int, int]], world: int, epoch: int = 0) -> list[list[list[int]]]:
    """For each rank, its batches."""
    samplers = [TokenBatchSampler(lengths, 64, rank=rank, world=world) for rank in range(world)]
    for sampler in samplers:
        sampler.epoch = epoch
    assert len({len(sampler) for sampler in samplers}) == 1
    batches = [list(sampler) for sampler in samplers]
    assert {len(each) for each in batches} == {len(samplers[0])}
    return batches


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pair_comes_exactly_once_in_an_epoch(shuffle: bool) -> None:
    for seed in range(100):
        lengths = random_lengths(seed)
        sampler = TokenBatchSampler(lengths, 64, seed=seed, shuffle=shuffle)
        for epoch in range(3):
            sampler.epoch = epoch
            batches = list(sampler)
            assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
            assert len(batches) == len(sampler)


@pytest.mark.parametrize("world", [1, 3])
def test_a_batch_stays_within_the_budget_or_is_one_pair(world: int) -> None:
    for seed in range(100):
        lengths = random_lengths(seed)
        budget = random.Random(seed).randint(1, 200)
        for batch in TokenBatchSampler(lengths, budget, seed=seed, world=world).plan():
            longest = max(max(lengths[i]) for i in batch)
            assert len(batch) == 1 or len(batch) * longest <= budget


def test_a_pair_that_is_too_long_is_a_batch_alone() -> None:
    lengths = [(5, 5)] * 7 + [(3, 65), (65, 3), (64, 64)]
    batches = list(TokenBatchSampler(lengths, 64))
    assert all([i] in batches for i in (7, 8, 9))


def test_budgets_are_used_pairs_of_one_length_fill_their_batches() -> None:
    sizes = [len(batch) for batch in TokenBatchSampler([(8, 4)] * 50, 64)]
    assert sorted(sizes) == [2, *[8] * 6]


def test_a_batch_is_closed_only_when_the_next_pair_would_not_fit() -> None:
    for seed in range(30):
        lengths = random_lengths(seed, pairs=100)
        for batch, following in pairwise(TokenBatchSampler(lengths, 64, shuffle=False).plan()):
            longest = max(max(lengths[i]) for i in [*batch, following[0]])
            assert (len(batch) + 1) * longest > 64


def test_batches_hold_pairs_of_similar_length() -> None:
    lengths = random_lengths(0, pairs=400)
    plan = TokenBatchSampler(lengths, 64, shuffle=False).plan()
    batches = [[lengths[i] for i in batch] for batch in plan]
    assert all(max(shorter) <= min(longer) for shorter, longer in pairwise(batches))


def test_epochs_differ_in_order_and_in_company() -> None:
    sampler = TokenBatchSampler(random_lengths(0, pairs=200), 64, seed=3)
    plans = []
    for epoch in range(4):
        sampler.epoch = epoch
        plans.append(list(sampler))
    for one in range(4):
        for other in range(one):
            assert plans[one] != plans[other]
            assert set(map(frozenset, plans[one])) != set(map(frozenset, plans[other]))


def test_the_same_seed_and_epoch_give_the_same_plan_whatever_came_before() -> None:
    lengths = random_lengths(0, pairs=200)
    walked, jumped, other = (TokenBatchSampler(lengths, 64, seed=seed) for seed in (3, 3, 4))
    for epoch in range(3):
        walked.epoch = epoch
        list(walked)
        random.random()  # the global generator has no say
    jumped.epoch = other.epoch = 2
    assert list(walked) == list(jumped)
    assert list(walked) != list(other)


def test_without_shuffling_every_epoch_is_the_same() -> None:
    sampler = TokenBatchSampler(random_lengths(0, pairs=200), 64, shuffle=False)
    first = list(sampler)
    sampler.epoch = 5
    assert list(sampler) == first


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_ranks_share_the_corpus_evenly_and_no_pair_comes_twice(world: int) -> None:
    for seed in range(30):
        lengths = [(n % 9 + 1, n % 7 + 1) for n in range(random.Random(seed).randint(40, 90))]
        for epoch in range(2):
            ranks = all_ranks(lengths, world, epoch)
            indices = [i for batches in ranks for batch in batches for i in batch]
            assert sorted(indices) == list(range(len(lengths)))


@pytest.mark.parametrize(("pairs", "world"), [(1, 2), (1, 8), (3, 8), (5, 8), (7, 3)])
def test_where_single_pairs_cannot_be_shared_evenly_all_come_and_few_come_twice(
    pairs: int, world: int
) -> None:
    ranks = all_ranks([(64, 64)] * pairs, world)
    seen = Counter(i for batches in ranks for batch in batches for i in batch)
    assert set(seen) == set(range(pairs))
    assert sum(seen.values()) - pairs == -pairs % world
    assert all(batch for batches in ranks for batch in batches)


def test_start_skips_batches_of_this_rank_and_nothing_else() -> None:
    lengths = random_lengths(0, pairs=200)
    for rank in range(2):
        sampler = TokenBatchSampler(lengths, 64, rank=rank, world=2)
        whole = list(sampler)
        for start in (0, 1, len(whole) - 1, len(whole)):
            sampler.start = start
            assert list(sampler) == whole[start:]
            assert len(sampler) == len(whole)


def test_nothing_to_sample_gives_no_batches() -> None:
    for world in (1, 2):
        sampler = TokenBatchSampler([], 64, world=world)
        assert list(sampler) == []
        assert len(sampler) == 0
