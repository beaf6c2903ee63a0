"""The plan of an epoch: every pair once, within budget, shared fairly, drawn from (seed, epoch)."""

import random
from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import sampler as sampler_module
from seq2seq.data.sampler import TokenBatchSampler

Plan = list[list[int]]

corpora = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=80)
"""Subwords of both sides of each pair."""
small_blocks = pytest.mark.parametrize("block", [sampler_module.BLOCK, 24], ids=["one", "several"])
"""Whether a test's corpus is planned at once or in blocks."""


@pytest.fixture(autouse=True)
def slices_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "SLICE", 4)


def sampler_of(
    lengths: list[tuple[int, int]], budget: int = 64, **options: Any
) -> TokenBatchSampler:
    return TokenBatchSampler(np.array(lengths, np.uint32).reshape(-1, 2), budget, **options)


def random_lengths(seed: int, pairs: int = 200) -> list[tuple[int, int]]:
    """Mostly short pairs; some have one or both sides long."""
    rng = random.Random(seed)
    return [
        (rng.choice([rng.randint(1, 9), rng.randint(1, 60)]), rng.randint(1, 30))
        for _ in range(pairs)
    ]


def plan_of(sampler: TokenBatchSampler, epoch: int = 0, start: int = 0) -> Plan:
    draws = list(sampler.batches(epoch, start))
    assert {(draw.corpus, draw.epoch) for draw in draws} <= {(sampler.corpus, epoch)}
    assert all(draw.indices for draw in draws)
    return [draw.indices for draw in draws]


def all_ranks(lengths: list[tuple[int, int]], world: int, **options: Any) -> list[Plan]:
    """For each rank, its batches of an epoch."""
    epoch = options.pop("epoch", 0)
    samplers = [sampler_of(lengths, rank=rank, world=world, **options) for rank in range(world)]
    plans = [plan_of(sampler, epoch) for sampler in samplers]
    assert {len(plan) for plan in plans} == {len(sampler) for sampler in samplers}
    assert len({len(plan) for plan in plans}) == 1
    return plans


@small_blocks
@settings(deadline=None)
@given(lengths=corpora, world=st.integers(1, 4), accumulated=st.integers(1, 3), data=st.data())
def test_every_pair_comes_in_an_epoch_over_all_ranks(
    block: int,
    lengths: list[tuple[int, int]],
    world: int,
    accumulated: int,
    data: st.DataObject,
) -> None:
    epoch, shuffle = data.draw(st.integers(0, 5)), data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler_module, "BLOCK", block)
        ranks = all_ranks(lengths, world, accumulated=accumulated, epoch=epoch, shuffle=shuffle)
    assert len(ranks[0]) % accumulated == 0
    seen = Counter(index for plan in ranks for batch in plan for index in batch)
    assert set(seen) == set(range(len(lengths)))


@small_blocks
@settings(deadline=None)
@given(
    lengths=corpora,
    budget=st.integers(1, 200),
    most=st.integers(1, 9),
)
def test_a_batch_stays_within_its_bounds_or_is_one_pair(
    block: int, lengths: list[tuple[int, int]], budget: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler_module, "BLOCK", block)
        plan = plan_of(sampler_of(lengths, budget, batch_pairs=most))
    for batch in plan:
        longest = max(max(lengths[index]) + 1 for index in batch)
        assert len(batch) == 1 or (len(batch) * longest <= budget and len(batch) <= most)


@small_blocks
@settings(deadline=None)
@given(lengths=corpora, bound=st.integers(1, 40))
def test_pairs_with_an_empty_or_a_long_side_never_come_and_are_counted(
    block: int, lengths: list[tuple[int, int]], bound: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler_module, "BLOCK", block)
        sampler = sampler_of(lengths, max_length=bound)
        seen = [index for batch in plan_of(sampler) for index in batch]
    good = [n for n, sides in enumerate(lengths) if min(sides) > 0 and max(sides) <= bound]
    assert sorted(seen) == good
    assert sampler.pairs == len(good)
    assert sampler.empty == sum(min(sides) == 0 for sides in lengths)
    assert sampler.longest == max((max(lengths[index]) + 1 for index in good), default=0)


def test_a_pair_that_is_too_long_is_a_batch_alone() -> None:
    lengths = [(5, 5)] * 7 + [(3, 65), (65, 3), (64, 64)]
    batches = plan_of(sampler_of(lengths))
    assert all([index] in batches for index in (7, 8, 9))


def test_budgets_are_used_pairs_of_one_length_fill_their_batches() -> None:
    sizes = [len(batch) for batch in plan_of(sampler_of([(7, 3)] * 50))]
    assert sorted(sizes) == [2, *[8] * 6]


def test_a_batch_is_closed_only_when_the_next_pair_would_not_fit() -> None:
    for seed in range(30):
        lengths = random_lengths(seed, pairs=100)
        plan = plan_of(sampler_of(lengths, shuffle=False))
        for batch, following in pairwise(plan):
            longest = max(max(lengths[index]) + 1 for index in [*batch, following[0]])
            assert (len(batch) + 1) * longest > 64


def test_batches_hold_pairs_of_similar_length() -> None:
    lengths = random_lengths(0, pairs=400)
    plan = plan_of(sampler_of(lengths, shuffle=False))
    batches = [[max(lengths[index]) for index in batch] for batch in plan]
    assert all(max(shorter) <= min(longer) for shorter, longer in pairwise(batches))


def test_pairs_of_one_longer_side_are_in_the_order_of_the_other() -> None:
    lengths = random_lengths(0, pairs=400)
    plan = plan_of(sampler_of(lengths, shuffle=False))
    order = [(max(lengths[index]), np.subtract(*lengths[index])) for each in plan for index in each]
    assert order == sorted(order)


def test_chance_exchanges_pairs_of_one_longer_side_whose_others_differ_by_one_at_most() -> None:
    lengths = random_lengths(0, pairs=400)
    falls = [
        int(np.subtract(*lengths[one]) - np.subtract(*lengths[other]))
        for batch in plan_of(sampler_of(lengths, budget=999))
        for one, other in combinations(batch, 2)
        if max(lengths[one]) == max(lengths[other])
    ]
    assert max(falls) == 1


def test_batches_come_in_no_order_of_length() -> None:
    lengths = random_lengths(0, pairs=400)
    sampler = sampler_of(lengths)
    for epoch in range(5):
        longest = [max(lengths[batch[0]]) for batch in plan_of(sampler, epoch)]
        rising = sum(one <= other for one, other in pairwise(longest)) / len(longest)
        assert 0.3 < rising < 0.8


def test_any_block_may_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", 24)
    sampler = sampler_of([(5, 5)] * 72)
    blocks = [{i for batch in sampler.plan(0, block) for i in batch.tolist()} for block in range(3)]
    firsts = [plan_of(sampler, epoch)[0][0] for epoch in range(30)]
    assert all(block.intersection(firsts) for block in blocks)


@small_blocks
def test_epochs_differ_in_order_and_in_company(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", block)
    sampler = sampler_of([(n % 5, n % 3) for n in range(200)], budget=20, seed=3)
    plans = [plan_of(sampler, epoch) for epoch in range(4)]
    for one in range(4):
        for other in range(one):
            assert plans[one] != plans[other]
            assert set(map(frozenset, plans[one])) != set(map(frozenset, plans[other]))


@small_blocks
def test_the_plan_follows_from_seed_corpus_and_epoch_and_nothing_else(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", block)
    lengths = random_lengths(0)
    walked = sampler_of(lengths, seed=3)
    for epoch in range(3):
        plan_of(walked, epoch)
        random.random()  # the global generators have no say
        np.random.random()
    wanted = plan_of(walked, 2)
    assert plan_of(sampler_of(lengths, seed=3), 2) == wanted
    assert plan_of(sampler_of(lengths, seed=4), 2) != wanted
    assert plan_of(sampler_of(lengths, seed=3, corpus=1), 2) != wanted


@small_blocks
def test_without_shuffling_every_epoch_is_the_same(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", block)
    sampler = sampler_of(random_lengths(0), shuffle=False)
    assert plan_of(sampler, 0) == plan_of(sampler, 5)


def test_blocks_hold_pairs_from_all_over_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", 100)
    sampler = sampler_of([(5, 5)] * 1000)
    for block in range(10):
        indices = np.concatenate(sampler.plan(0, block))
        assert indices.min() < 250
        assert indices.max() >= 750
        assert len(indices) == 100


@pytest.mark.parametrize(("world", "accumulated"), [(1, 1), (2, 1), (3, 1), (8, 1), (1, 3), (2, 2)])
def test_ranks_share_the_corpus_evenly_in_whole_steps_and_no_pair_comes_twice(
    world: int, accumulated: int
) -> None:
    for pairs in range(8, 90, 3):
        lengths = [(n % 9, n % 7) for n in range(pairs)]
        for epoch in range(2):
            ranks = all_ranks(lengths, world, epoch=epoch, accumulated=accumulated)
            assert len(ranks[0]) % accumulated == 0
            indices = [index for plan in ranks for batch in plan for index in batch]
            assert sorted(indices) == list(range(len(lengths)))


@pytest.mark.parametrize(("world", "accumulated"), [(2, 1), (3, 1), (1, 4), (2, 3)])
def test_nearly_the_same_pairs_come_first_however_many_share_them(
    world: int, accumulated: int
) -> None:
    for seed in range(10):
        lengths = random_lengths(seed, pairs=400)
        whole = plan_of(sampler_of(lengths))
        ranks = all_ranks(lengths, world, accumulated=accumulated)
        shared = [batch for batches in zip(*ranks, strict=True) for batch in batches]
        half = [{i for batch in plan[: len(plan) // 2] for i in batch} for plan in (whole, shared)]
        longest_batch = max(map(len, whole))
        assert len(half[0] ^ half[1]) <= world * accumulated * longest_batch


@pytest.mark.parametrize(("pairs", "world"), [(1, 2), (1, 8), (3, 8), (5, 8), (7, 3)])
def test_where_single_pairs_cannot_be_shared_evenly_all_come_and_few_come_twice(
    pairs: int, world: int
) -> None:
    ranks = all_ranks([(64, 64)] * pairs, world)
    seen = Counter(index for plan in ranks for batch in plan for index in batch)
    assert set(seen) == set(range(pairs))
    assert sum(seen.values()) - pairs == -pairs % world
    assert all(batch for plan in ranks for batch in plan)


@small_blocks
@pytest.mark.parametrize("rank", [0, 1])
def test_a_start_skips_batches_of_this_rank_and_nothing_else(
    block: int, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", block)
    sampler = sampler_of(random_lengths(0), rank=rank, world=2)
    whole = plan_of(sampler, 1)
    for start in range(len(whole) + 1):
        assert plan_of(sampler, 1, start) == whole[start:]


def test_the_place_is_found_without_planning_what_comes_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", 40)
    sampler = sampler_of(random_lengths(0, pairs=2000))
    planned: list[int] = []

    def plan(epoch: int, block: int) -> list[Any]:
        planned.append(block)
        return TokenBatchSampler.plan(sampler, epoch, block)

    monkeypatch.setattr(sampler, "plan", plan)
    for start in range(len(sampler)):
        planned.clear()
        next(sampler.batches(7, start))
        assert len(planned) == 1


def test_nothing_to_sample_gives_no_batches() -> None:
    for world in (1, 2):
        sampler = sampler_of([], world=world)
        assert plan_of(sampler) == []
        assert len(sampler) == 0


def test_a_block_of_pairs_that_are_too_long_gives_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "BLOCK", 24)
    lengths = [(length, 5) for length in (5, 99, 5) for _ in range(24)]
    plan = plan_of(sampler_of(lengths, max_length=9, shuffle=False))
    assert sorted(index for batch in plan for index in batch) == [*range(24), *range(48, 72)]
