"""A loader that is cut anywhere must go on as if it never had been."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from corpora import random_pairs, stored
from test_dataset import PAIRS, SAMPLING, Contents, contents

from seq2seq.config import BOS_ID, SubwordConfig
from seq2seq.data.dataset import TrainingBatches
from seq2seq.data.loader import ResumableLoader
from seq2seq.data.mixture import Mixture
from seq2seq.data.sampler import Draw, TokenBatchSampler
from seq2seq.data.store import lengths_of
from seq2seq.text.subwords import Subwords, train_subwords


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
from seq2seq.data import loader

def work(number, connection):
    loader._begin_worker(number)
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
    loader.load_state_dict({"epoch": 0, "batches": 2, "end": len(first)})
    assert len(loader) == len(first)
    assert epochs(loader, 1) == first[2:]
    assert len(loader) == len(list(loader)) == len(first)
