"""What a loader hands out; cut anywhere, it must go on as if it never had been."""

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import random_pairs, stored

from seq2seq.config import BOS_ID, EOS_ID, SubwordConfig, SubwordSampling
from seq2seq.data.batch import Batch
from seq2seq.data.dataset import ResumableLoader, TextBatches, TrainingBatches
from seq2seq.data.mixture import Mixture
from seq2seq.data.sampler import Draw, TokenBatchSampler
from seq2seq.data.store import lengths_of
from seq2seq.text.subwords import Subwords, train_subwords

PAIRS = [pair for pair in random_pairs(60) if pair.src]
ALL = Draw(0, 0, list(range(len(PAIRS))))
SAMPLING = SubwordSampling(src=0.1, tgt=0.3)
Contents = list[list[Any]]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def subwords(request: pytest.FixtureRequest) -> Subwords:
    config = SubwordConfig(kind=request.param)
    return Subwords(train_subwords((pair.src for pair in random_pairs(300)), config, 290))


def batches(subwords: Subwords, budget: int = 10**6, **options: Any) -> TrainingBatches:
    options = {"start_id": BOS_ID, "max_length": 100, **options}
    return TrainingBatches([PAIRS], subwords, subwords, batch_tokens=budget, **options)


def contents(parts: list[Batch]) -> Contents:
    return [tensor.tolist() for part in parts for tensor in part[:5]]


def sources_in(parts: list[Batch]) -> list[list[int]]:
    """Source ids of every row, without the end token."""
    rows = []
    for part in parts:
        for ids, length in zip(part.src, part.src_lens, strict=True):
            assert ids[length - 1] == EOS_ID
            rows.append(ids[: length - 1].tolist())
    return rows


def test_a_training_batch_holds_the_subwords_of_its_pairs(subwords: Subwords) -> None:
    (batch,) = batches(subwords)[ALL]
    assert sources_in([batch]) == [subwords.encode(pair.src) for pair in PAIRS]
    for ids, length, pair in zip(batch.tgt_in, batch.tgt_lens, PAIRS, strict=True):
        assert ids[:length].tolist() == [BOS_ID, *subwords.encode(pair.tgt)]


def test_sampled_subwords_spell_the_same_text_in_another_way_every_epoch(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    epochs = [sources_in(dataset[ALL._replace(epoch=epoch)]) for epoch in range(5)]
    for rows in epochs:
        assert [subwords.decode(ids) for ids in rows] == [pair.src for pair in PAIRS]
    spelled = [len({tuple(rows[place]) for rows in epochs}) for place in range(len(PAIRS))]
    assert sum(number > 1 for number in spelled) > len(PAIRS) / 2


def test_a_sampled_sentence_follows_from_seed_corpus_epoch_and_index_not_from_its_company(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    together = sources_in(dataset[ALL._replace(epoch=2)])
    alone = [sources_in(dataset[Draw(0, 2, [index])])[0] for index in reversed(ALL.indices)]
    assert together == alone[::-1]
    assert sources_in(batches(subwords, sampling=SAMPLING, seed=9)[ALL._replace(epoch=2)]) != (
        together
    )


def test_sides_are_sampled_apart(subwords: Subwords) -> None:
    (plain,) = batches(subwords)[ALL]
    (batch,) = batches(subwords, sampling=SubwordSampling(tgt=0.1))[ALL]
    assert batch.src.tolist() == plain.src.tolist()
    assert batch.tgt_in.tolist() != plain.tgt_in.tolist()


def test_a_batch_far_over_its_budget_is_cut_by_length_into_parts_and_keeps_every_pair(
    subwords: Subwords,
) -> None:
    for budget in (40, 100, 300):
        dataset = batches(subwords, budget, sampling=SAMPLING)
        parts = dataset[ALL]
        assert len(parts) > 1
        for part in parts:
            assert len(part.src) == 1 or max(part.src.numel(), part.tgt_in.numel()) <= 1.5 * budget
        lengths = [torch.maximum(part.src_lens, part.tgt_lens) for part in parts]
        for shorter, longer in pairwise(lengths):
            assert shorter.max() <= longer.min()
        whole = batches(subwords, sampling=SAMPLING)[ALL]
        assert sorted(sources_in(parts)) == sorted(sources_in(whole))
        assert contents(parts) == contents(dataset[ALL])


def test_a_batch_over_its_budget_by_less_than_half_stays_whole(subwords: Subwords) -> None:
    (whole,) = batches(subwords, sampling=SAMPLING)[ALL]
    size = max(whole.src.numel(), whole.tgt_in.numel())
    assert len(batches(subwords, -(-size // 3) * 2, sampling=SAMPLING)[ALL]) == 1
    assert len(batches(subwords, size // 3 * 2 - 2, sampling=SAMPLING)[ALL]) == 2


def test_a_sample_that_is_too_long_gives_way_to_the_best_segmentation(subwords: Subwords) -> None:
    longest = max(len(subwords.encode(side)) for pair in PAIRS for side in pair)
    dataset = batches(subwords, sampling=SAMPLING, max_length=longest)
    rows = [row for epoch in range(9) for row in sources_in(dataset[ALL._replace(epoch=epoch)])]
    assert max(map(len, rows)) <= longest
    assert rows[: len(PAIRS)] != [subwords.encode(pair.src) for pair in PAIRS]


def test_a_batch_for_evaluation_knows_its_lines_and_their_text(subwords: Subwords) -> None:
    found = TextBatches(PAIRS, subwords, subwords, start_id=BOS_ID)[Draw(0, 0, [5, 2])]
    assert found.indices == [5, 2]
    assert found.pairs == [PAIRS[5], PAIRS[2]]
    assert contents([found.batch]) == contents(batches(subwords)[Draw(0, 0, [5, 2])])


class Loaders:
    """Loaders over the same two stored corpora, with subword sampling."""

    def __init__(self, folder: Path) -> None:
        self.subwords = Subwords(
            train_subwords((pair.src for pair in random_pairs(300)), SubwordConfig(), 290)
        )
        halves = PAIRS[:30], PAIRS[30:]
        self.stores = [stored(half, folder / str(n)) for n, half in enumerate(halves)]

    def new(self, workers: int = 0, rank: int = 0, world: int = 1) -> ResumableLoader:
        samplers = [
            TokenBatchSampler(
                lengths_of(store, self.subwords, self.subwords),
                90,
                rank=rank,
                world=world,
                corpus=corpus,
            )
            for corpus, store in enumerate(self.stores)
        ]
        dataset = TrainingBatches(
            self.stores,
            self.subwords,
            self.subwords,
            start_id=BOS_ID,
            batch_tokens=90,
            max_length=100,
            sampling=SAMPLING,
        )
        return ResumableLoader(dataset, Mixture(samplers, weights=(1.0, 2.0)), workers)


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> Loaders:
    return Loaders(tmp_path_factory.mktemp("stores"))


def epochs(loader: ResumableLoader, number: int) -> list[Contents]:
    return [contents(parts) for _ in range(number) for parts in loader]


def walked(loader: ResumableLoader, taken: int) -> dict[str, int]:
    """The loader's state when so many batches have been taken, over as many epochs as needed."""
    done = 0
    while done < taken:
        for _ in islice(loader, taken - done):
            done += 1
    return loader.state_dict()


@pytest.mark.parametrize("world", [1, 2])
def test_a_loader_cut_anywhere_goes_on_as_if_it_never_had_been(
    loaders: Loaders, world: int
) -> None:
    rank = world - 1
    whole = epochs(loaders.new(rank=rank, world=world), 3)
    in_epoch = len(loaders.new(rank=rank, world=world))
    assert whole[:in_epoch] != whole[in_epoch : 2 * in_epoch]
    for cut in range(2 * in_epoch + 2):
        resumed = loaders.new(rank=rank, world=world)
        resumed.load_state_dict(walked(loaders.new(rank=rank, world=world), cut))
        begun = cut // in_epoch
        assert epochs(resumed, 3 - begun) == whole[cut:], f"cut after {cut} batches"


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a single core
def test_a_loader_with_workers_cut_in_its_second_epoch_goes_on_too(loaders: Loaders) -> None:
    whole = epochs(loaders.new(), 3)
    cut = len(loaders.new()) + 2
    resumed = loaders.new(workers=2)
    resumed.load_state_dict(walked(loaders.new(), cut))
    assert epochs(resumed, 2) == whole[cut:]
    assert resumed.state_dict() == walked(loaders.new(), len(whole))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_begin_the_next_epoch_before_this_one_has_ended(loaders: Loaders) -> None:
    loader = loaders.new(workers=2)
    drawn = []

    class Spied(Mixture):
        def __iter__(self) -> Iterator[Draw]:
            for draw in super().__iter__():
                drawn.append(draw)
                yield draw

    loader.sampler.__class__ = Spied
    for seen, _ in enumerate(loader, start=1):
        assert len(drawn) >= seen + 3, "two batches for each worker, also at the end"
    assert seen == len(loader)


def test_a_loader_cut_twice_goes_on_too(loaders: Loaders) -> None:
    whole = epochs(loaders.new(), 3)
    once, twice = loaders.new(), loaders.new()
    once.load_state_dict(walked(loaders.new(), 2))
    list(islice(once, 3))
    twice.load_state_dict(once.state_dict())
    assert epochs(twice, 3) == whole[5:]


def test_a_state_that_was_loaded_is_the_state_to_save(loaders: Loaders) -> None:
    for cut in range(2 * len(loaders.new()) + 1):
        state = walked(loaders.new(), cut)
        loader = loaders.new()
        loader.load_state_dict(state)
        assert loader.state_dict() == state


def test_the_end_of_an_epoch_is_saved_as_the_beginning_of_the_next(loaders: Loaders) -> None:
    loader = loaders.new()
    assert walked(loader, len(loader)) == {"epoch": 1, "batches": 0}
    assert walked(loader, len(loader) + 1) == {"epoch": 2, "batches": 1}


def test_epochs_of_a_limited_number_of_batches_are_different_ones(loaders: Loaders) -> None:
    whole, limited = loaders.new(), loaders.new()
    limited.sampler.limit = 3
    in_epoch = len(whole)
    batches = epochs(whole, 2)
    expected = [*batches[:3], *batches[in_epoch : in_epoch + 3]]
    assert [contents(parts) for _ in range(2) for parts in islice(limited, 3)] == expected
    resumed = loaders.new()
    resumed.sampler.limit = 3
    assert walked(resumed, 3) == {"epoch": 1, "batches": 0}
    assert [contents(parts) for parts in islice(resumed, 3)] == expected[3:]


def test_the_length_is_that_of_a_whole_epoch_also_in_the_middle(loaders: Loaders) -> None:
    loader = loaders.new()
    whole = len(list(loader))
    loader.load_state_dict({"epoch": 0, "batches": 2})
    assert len(loader) == whole
    assert len(list(loader)) == whole - 2
    assert len(loader) == len(list(loader)) == whole
