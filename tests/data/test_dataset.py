"""What a loader hands out; cut anywhere, it must go on as if it never had been."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from corpora import random_pairs, stored
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, SubwordConfig, SubwordSampling
from seq2seq.data.batch import Batch
from seq2seq.data.dataset import (
    ResumableLoader,
    TextBatches,
    TrainingBatches,
    batches_together,
)
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
    options = {"start_id": BOS_ID, "batch_pairs": 1024, "max_length": 100, **options}
    return TrainingBatches([PAIRS], subwords, subwords, batch_tokens=budget, **options)


def made(dataset: TrainingBatches, *draws: Draw) -> list[list[Batch]]:
    return list(dataset[draws].batches())


def parts_of(dataset: TrainingBatches, draw: Draw) -> list[Batch]:
    """Of the batch of a draw alone."""
    (parts,) = made(dataset, draw)
    return parts


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
    (batch,) = parts_of(batches(subwords), ALL)
    rows = zip(
        batch.src.tolist(), batch.src_lens, batch.tgt_in.tolist(), batch.tgt_lens, strict=True
    )
    found = [(src[: s - 1], tgt[1:t]) for src, s, tgt, t in rows]
    assert set(batch.tgt_in[:, 0].tolist()) == {BOS_ID}
    assert sorted(found) == sorted(
        (subwords.encode(pair.src), subwords.encode(pair.tgt)) for pair in PAIRS
    )


def test_sampled_subwords_spell_the_same_text_in_another_way_every_epoch(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    spelled = dict[str, set[tuple[int, ...]]]()
    for epoch in range(5):
        rows = sources_in(parts_of(dataset, ALL._replace(epoch=epoch)))
        texts = [subwords.decode(ids) for ids in rows]
        assert sorted(texts) == sorted(pair.src for pair in PAIRS)
        for text, ids in zip(texts, rows, strict=True):
            spelled.setdefault(text, set()).add(tuple(ids))
    assert sum(len(each) > 1 for each in spelled.values()) > len(spelled) / 2


def test_a_sampled_sentence_follows_from_seed_corpus_epoch_and_index_not_from_its_company(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    together = sources_in(parts_of(dataset, ALL._replace(epoch=2)))
    alone = [sources_in(parts_of(dataset, Draw(0, 2, [index])))[0] for index in ALL.indices]
    assert sorted(together) == sorted(alone)
    other = batches(subwords, sampling=SAMPLING, seed=9)
    assert sorted(sources_in(parts_of(other, ALL._replace(epoch=2)))) != sorted(together)


def test_sides_are_sampled_apart(subwords: Subwords) -> None:
    (plain,) = parts_of(batches(subwords), ALL)
    (batch,) = parts_of(batches(subwords, sampling=SubwordSampling(tgt=0.1)), ALL)
    assert sorted(sources_in([batch])) == sorted(sources_in([plain]))
    assert sorted(batch.tgt_in.tolist()) != sorted(plain.tgt_in.tolist())


def test_a_batch_far_over_its_budget_is_cut_by_length_into_parts_and_keeps_every_pair(
    subwords: Subwords,
) -> None:
    for budget in (40, 100, 300):
        dataset = batches(subwords, budget, sampling=SAMPLING)
        parts = parts_of(dataset, ALL)
        assert len(parts) > 1
        for part in parts:
            assert len(part.src) == 1 or max(part.src.numel(), part.tgt_in.numel()) <= 1.5 * budget
        lengths = [torch.maximum(part.src_lens, part.tgt_lens) for part in parts]
        for shorter, longer in pairwise(lengths):
            assert shorter.max() <= longer.min()
        whole = parts_of(batches(subwords, sampling=SAMPLING), ALL)
        assert sorted(sources_in(parts)) == sorted(sources_in(whole))
        assert contents(parts) == contents(parts_of(dataset, ALL))


def test_a_batch_over_its_budget_by_less_than_half_stays_whole(subwords: Subwords) -> None:
    (whole,) = parts_of(batches(subwords, sampling=SAMPLING), ALL)
    size = max(whole.src.numel(), whole.tgt_in.numel())
    assert len(parts_of(batches(subwords, -(-size // 3) * 2, sampling=SAMPLING), ALL)) == 1
    assert len(parts_of(batches(subwords, size // 3 * 2 - 2, sampling=SAMPLING), ALL)) == 2


def test_a_sample_that_is_too_long_gives_way_to_the_best_segmentation(subwords: Subwords) -> None:
    longest = max(len(subwords.encode(side)) for pair in PAIRS for side in pair)
    dataset = batches(subwords, sampling=SAMPLING, max_length=longest)
    epochs = [sources_in(parts_of(dataset, ALL._replace(epoch=epoch))) for epoch in range(9)]
    assert max(len(row) for rows in epochs for row in rows) <= longest
    assert sorted(epochs[0]) != sorted(subwords.encode(pair.src) for pair in PAIRS)


def planned(subwords: Subwords, budget: int, batch_pairs: int = 1024) -> list[Draw]:
    lengths = lengths_of(PAIRS, subwords, subwords)
    return list(TokenBatchSampler(lengths, budget, batch_pairs=batch_pairs))


def longer_sides(made: list[list[Batch]]) -> list[Tensor]:
    """Of each batch, of each of its pairs."""
    return [torch.maximum(part.src_lens, part.tgt_lens) for (part,) in made]


def padding(sides: list[Tensor]) -> int:
    return sum(int((each.max() - each).sum()) for each in sides)


def test_draws_together_share_their_pairs_out_anew_by_sampled_lengths(subwords: Subwords) -> None:
    dataset, draws = batches(subwords, sampling=SAMPLING), planned(subwords, 200)
    apart, together = [parts_of(dataset, draw) for draw in draws], made(dataset, *draws)
    assert len(together) == len(draws)
    sources = [sources_in([part for parts in each for part in parts]) for each in (apart, together)]
    assert sorted(sources[0]) == sorted(sources[1])
    sides = longer_sides(together)
    assert padding(sides) < 0.7 * padding(longer_sides(apart))
    by_length = sorted(sides, key=lambda each: int(each.max()))
    assert all(a.max() <= b.min() for a, b in pairwise(by_length))
    assert [each.tolist() for each in by_length] != [each.tolist() for each in sides]
    costs = [int(each.sum()) for each in sides]
    assert max(costs) < 1.5 * min(costs), "their longer sides add up to about as much"


@pytest.mark.parametrize("batch_pairs", [1, 2, 3, 1024])
@pytest.mark.parametrize("budget", [1, 60, 200])
def test_no_batch_is_empty_or_has_too_many_pairs(
    subwords: Subwords, batch_pairs: int, budget: int
) -> None:
    draws = planned(subwords, budget, batch_pairs)
    dataset = batches(subwords, 10**6, batch_pairs=batch_pairs, sampling=SAMPLING)
    for some in range(1, len(draws) + 1):
        sizes = [len(part.src) for (part,) in made(dataset, *draws[:some])]
        assert len(sizes) == some
        assert sum(sizes) == sum(len(draw.indices) for draw in draws[:some])
        assert min(sizes) > 0
        assert max(sizes) <= batch_pairs


def test_draws_are_together_where_subwords_are_sampled() -> None:
    assert batches_together(2048, SubwordSampling()) == 1
    assert batches_together(2048, SAMPLING) == 64
    assert batches_together(10**6, SubwordSampling(tgt=0.5)) == 1


def test_a_batch_for_evaluation_knows_its_lines_and_their_text(subwords: Subwords) -> None:
    other = Subwords(train_subwords((pair.tgt for pair in PAIRS), SubwordConfig(), 280))
    found = TextBatches(PAIRS, subwords, other, start_id=BOS_ID)[Draw(0, 0, [5, 2])]
    assert found.indices == [5, 2]
    assert found.pairs == [PAIRS[5], PAIRS[2]]
    assert sources_in([found.batch]) == [subwords.encode(PAIRS[index].src) for index in (5, 2)]
    assert found.batch.tgt_out.tolist()[0][: found.batch.tgt_lens[0]] == [
        *other.encode(PAIRS[5].tgt),
        EOS_ID,
    ]


class Loaders:
    """Loaders over the same two stored corpora, with subword sampling."""

    def __init__(self, folder: Path, together: int) -> None:
        self.together = together
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
            batch_pairs=1024,
            max_length=100,
            sampling=SAMPLING,
        )
        order = Mixture(samplers, weights=(1.0, 2.0), together=self.together)
        return ResumableLoader(dataset, order, workers)


@pytest.fixture(scope="module", params=[1, 3], ids=["alone", "three together"])
def loaders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaders:
    return Loaders(tmp_path_factory.mktemp("stores"), request.param)


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
        def __iter__(self) -> Iterator[list[Draw]]:
            for draws in super().__iter__():
                drawn.append(draws)
                yield draws

    loader.sampler.__class__ = Spied
    for seen, _ in enumerate(loader, start=1):
        handed_out = -(-seen // loaders.together)
        assert len(drawn) >= handed_out + 3, "two for each worker, also at the end"
    assert seen == len(loader)


@pytest.mark.skipif(sys.platform != "linux", reason="workers elsewhere end with any SIGTERM")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("begun_by", ["fork", "forkserver"])
def test_a_worker_leaves_signals_to_its_run_but_for_its_own(
    loaders: Loaders, begun_by: str, number: signal.Signals
) -> None:
    loader = loaders.new(workers=1)
    loader.multiprocessing_context = begun_by
    found = map(contents, loader)
    first = next(found)
    (worker,) = vars(loader._iterator)["_workers"]
    kill = "import os, sys; os.kill(int(sys.argv[1]), int(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", kill, str(worker.pid), str(int(number))], check=True)
    assert [first, *found] == epochs(loaders.new(), 1)
    assert worker.is_alive()
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == 0


ENDS_ABRUPTLY = """
import os, signal, sys
from multiprocessing import get_context
from seq2seq.data import dataset

def work(number, connection):
    dataset._begin_worker(number)
    connection.send("begun")
    signal.pause()

if __name__ == "__main__":
    context = get_context(sys.argv[1])
    here, there = context.Pipe()
    for number in range(2):
        context.Process(target=work, args=(number, there), daemon=True).start()
        here.recv()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers elsewhere are torch's own matter")
@pytest.mark.parametrize("begun_by", ["fork", "forkserver"])
def test_workers_end_with_their_run_however_that_ends(tmp_path: Path, begun_by: str) -> None:
    (tmp_path / "run.py").write_text(ENDS_ABRUPTLY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "run.py"), begun_by]
    # It waits for the end of all that hold the pipe.
    ended = subprocess.run(command, stdout=subprocess.PIPE, env=environment, timeout=60)
    assert ended.returncode == -signal.SIGKILL


def test_a_loader_cut_twice_goes_on_too(loaders: Loaders) -> None:
    whole = epochs(loaders.new(), 3)
    once, twice = loaders.new(), loaders.new()
    once.load_state_dict(walked(loaders.new(), 2))
    list(islice(once, 3))
    twice.load_state_dict(once.state_dict())
    assert epochs(twice, 3) == whole[5:]


def test_an_epoch_that_was_left_begins_again(loaders: Loaders) -> None:
    """As with any DataLoader; only a state that is loaded goes on in its middle."""
    whole = epochs(loaders.new(), 2)
    loader = loaders.new()
    walked(loader, 2)
    assert epochs(loader, 2) == whole


def test_a_state_that_was_loaded_is_the_state_to_save(loaders: Loaders) -> None:
    for cut in range(2 * len(loaders.new()) + 1):
        state = walked(loaders.new(), cut)
        loader = loaders.new()
        loader.load_state_dict(state)
        assert loader.state_dict() == state


def test_the_end_of_an_epoch_is_saved_as_the_beginning_of_the_next(loaders: Loaders) -> None:
    loader = loaders.new()
    end = len(loader)
    assert walked(loader, end) == {"epoch": 1, "batches": 0, "end": end}
    assert walked(loader, end + 1) == {"epoch": 2, "batches": 1, "end": end}


def test_epochs_of_a_limited_number_of_batches_are_different_ones(loaders: Loaders) -> None:
    whole, limited = loaders.new(), loaders.new()
    limited.sampler.limit = 3
    in_epoch = len(whole)
    batches = epochs(whole, 2)
    expected = [*batches[:3], *batches[in_epoch : in_epoch + 3]]
    assert [contents(parts) for _ in range(2) for parts in islice(limited, 3)] == expected
    resumed = loaders.new()
    resumed.sampler.limit = 3
    assert walked(resumed, 3) == {"epoch": 1, "batches": 0, "end": 3}
    assert [contents(parts) for parts in islice(resumed, 3)] == expected[3:]


def test_the_length_is_that_of_a_whole_epoch_also_in_the_middle(loaders: Loaders) -> None:
    loader = loaders.new()
    first = epochs(loader, 1)
    loader.load_state_dict({"epoch": 0, "batches": 2})
    assert len(loader) == len(first)
    assert epochs(loader, 1) == first[2:]
    assert len(loader) == len(list(loader)) == len(first)
