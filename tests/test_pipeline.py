"""Windows, order, overlap and memory of the pipeline, with searches that are a line of Python."""

import itertools
import math
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
import torch

from seq2seq import pipeline
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.errors import CorpusError, SentenceError
from seq2seq.pipeline import BatchSearch, InFlight, Line, Pipeline, searchers, windows

PATIENCE = 30
"""Seconds until a thread that waits for another is thought to wait forever."""


def backwards(batch: Sequence[Request]) -> list[list[Hypothesis]]:
    return [[Hypothesis(list(each.src[::-1]), 0.0)] for each in batch]


def lines_of(lengths: Sequence[Sequence[int]]) -> list[Line]:
    """Of pieces of these lengths, every source different."""
    ids = itertools.count(4)
    return [
        Line(number, [Request([next(ids) for _ in range(length)]) for length in pieces])
        for number, pieces in enumerate(lengths, start=1)
    ]


def random_lines(count: int, seed: int = 0) -> list[Line]:
    rng = random.Random(seed)
    kinds = [[1], [4], [9], [2], [], [3, 7], [30]]
    return lines_of(rng.choices(kinds, k=count))


def answered(line: Line) -> bool:
    found = [line.found[place][0].tokens for place in range(len(line.pieces))]
    return found == [list(piece.src[::-1]) for piece in line.pieces]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "WINDOW_BATCHES", 2)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("parallel", [0, 1, 3])
@pytest.mark.parametrize("batch_tokens", [1, 20, 1000])
def test_lines_come_out_in_their_order_each_with_its_own_answers(
    parallel: int, batch_tokens: int
) -> None:
    lines = random_lines(200)
    found = list(Pipeline(backwards, searchers(parallel), batch_tokens).run(lines))
    assert found == lines
    assert all(map(answered, found))


@pytest.mark.parametrize("size", range(1, 60))
def test_a_window_ends_with_the_line_that_fills_it_and_a_blank_one_counts_as_one(size: int) -> None:
    lines = random_lines(200)
    found = list(windows(lines, size))
    assert list(itertools.chain.from_iterable(found)) == lines
    *full, rest = [
        [1 + sum(len(piece.src) for piece in line.pieces) for line in window] for window in found
    ]
    assert all(sum(tokens[:-1]) < size <= sum(tokens) for tokens in full)
    assert sum(rest) < size


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(("pieces", "lines_of_a_window"), [([Request([5, 6, 7])], 10), ([], 40)])
def test_no_more_than_a_few_windows_are_read_ahead(
    pieces: list[Request], lines_of_a_window: int
) -> None:
    read = 0

    def endless() -> Iterator[Line]:
        nonlocal read
        while True:
            read += 1
            yield Line(read, pieces)

    with closing(Pipeline(backwards, searchers(2), 20).run(endless())) as stream:
        for line in itertools.islice(stream, 500):
            assert read - line.number <= 4 * lines_of_a_window


@pytest.mark.usefixtures("small_windows")
def test_the_next_window_is_read_while_the_last_batch_of_one_is_searched() -> None:
    following = threading.Event()

    def patient(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        assert following.wait(PATIENCE)
        return backwards(batch)

    def lines() -> Iterator[Line]:
        yield from lines_of([[9]] * 4)  # a window
        following.set()
        yield from lines_of([[9]] * 4)

    assert len(list(Pipeline(patient, searchers(1), 20).run(lines()))) == 8


def test_without_threads_of_its_own_the_caller_searches_a_batch_and_has_its_lines() -> None:
    searched = []

    def here(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        searched.append(threading.current_thread())
        return backwards(batch)

    stream = Pipeline(here, searchers(0), 1).run(lines_of([[4]] * 9))
    counts = [len(searched) for _ in stream]
    assert counts == list(range(1, 10))
    assert set(searched) == {threading.current_thread()}


@pytest.mark.parametrize("parallel", [0, 1, 2, 3])
@pytest.mark.parametrize("batch_tokens", [130, 400, 1000])
def test_all_who_search_have_as_much_to_do(parallel: int, batch_tokens: int) -> None:
    sizes = list[int]()

    def counted(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        sizes.append(len(batch))
        return backwards(batch)

    list(Pipeline(counted, searchers(parallel), batch_tokens).run(lines_of([[9]] * 100)))
    searching = max(1, parallel)
    rounds = math.ceil(100 * 10 / batch_tokens / searching)
    assert len(sizes) == rounds * searching
    assert max(sizes) <= 100 / len(sizes) + 1


def test_as_many_batches_are_searched_at_once_as_the_engine_allows() -> None:
    together = threading.Barrier(3)

    def meeting(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        together.wait(PATIENCE)
        return backwards(batch)

    found = Pipeline(meeting, searchers(3), 1).run(lines_of([[4]] * 9))
    assert len(list(found)) == 9


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_thread_has_one_question_to_work_on_and_one_that_comes_next(parallel: int) -> None:
    asked = threading.Event()

    def patient(number: int) -> int:
        assert asked.wait(PATIENCE)
        return number

    with InFlight[int](searchers(parallel)) as running:
        assert [running.ask(patient, number) for number in range(2 * parallel)] == (
            [[]] * 2 * parallel
        )
        asked.set()
        assert [running.ask(patient, 2 * parallel + n) for n in range(9)] == [[n] for n in range(9)]
        assert list(running.rest()) == list(range(9, 9 + 2 * parallel))


def test_at_the_end_what_has_begun_is_waited_for_and_what_has_not_is_dropped() -> None:
    begun, ended, working, may_end = list[int](), list[int](), threading.Event(), threading.Event()

    def patient(number: int) -> None:
        begun.append(number)
        working.set()
        assert may_end.wait(PATIENCE)
        ended.append(number)

    with InFlight[None](searchers(1)) as running:
        running.ask(patient, 1)
        running.ask(patient, 2)
        assert working.wait(PATIENCE)
        threading.Timer(0.2, may_end.set).start()
    assert begun == ended == [1]


@pytest.mark.parametrize("parallel", [0, 1, 2])
def test_an_error_while_reading_comes_after_all_lines_before_it(parallel: int) -> None:
    def lines() -> Iterator[Line]:
        yield from random_lines(50)
        raise CorpusError("line 51 is no text")

    stream = Pipeline(backwards, searchers(parallel), 20).run(lines())
    assert [line.number for line in itertools.islice(stream, 50)] == list(range(1, 51))
    with pytest.raises(CorpusError, match="line 51"):
        next(stream)


def test_an_error_of_the_search_ends_the_stream_and_the_searches() -> None:
    asked = []

    def broken(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        asked.append(batch)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Pipeline(broken, searchers(1), 1).run(random_lines(50)))
    assert len(asked) <= 4


def of_memory_for(
    tokens: int, error: Exception, asked: list[int]
) -> Callable[[Sequence[Request]], list[list[Hypothesis]]]:
    """A search with memory for batches of so many source tokens."""

    def search(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        asked.append(len(batch) * (max(len(each.src) for each in batch) + 1))
        if asked[-1] > tokens:
            raise error
        return backwards(batch)

    return search


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to ..."),
]


@pytest.mark.parametrize("parallel", [0, 1, 2])
@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
@pytest.mark.filterwarnings("ignore:out of memory")
def test_batches_beyond_the_memory_are_halved_until_they_fit(
    error: Exception, parallel: int
) -> None:
    lines, asked = random_lines(300), list[int]()
    search = of_memory_for(64, error, asked)
    assert list(Pipeline(search, searchers(parallel), 1000).run(lines)) == lines
    assert all(map(answered, lines))
    beyond = [tokens for tokens in asked if tokens > 64]
    assert beyond
    assert len(beyond) <= 5 * max(1, parallel)  # 1000, 500, 250, 125 and once more; later ones know


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([9] * 20, [40] + [20] * 10), ([8, 9, 6, 9], [40, 20, 18])],
    ids=["alike", "unlike"],
)
def test_a_smaller_batch_is_told_once_and_plainly(
    lengths: Sequence[int], expected: Sequence[int]
) -> None:
    asked = list[int]()
    search = of_memory_for(25, OUT_OF_MEMORY[0], asked)
    with pytest.warns(UserWarning, match="with 40 source tokens in a batch; going on with 20"):
        list(Pipeline(search, searchers(1), 40).run(lines_of([[each] for each in lengths])))
    assert asked == expected


@pytest.mark.filterwarnings("ignore:out of memory")
def test_a_line_that_does_not_fit_alone_is_named() -> None:
    lines = lines_of([[4], [], [3, 30], [4]])
    search = of_memory_for(25, OUT_OF_MEMORY[0], [])
    stream = Pipeline(search, searchers(1), 1000).run(lines)
    assert [next(stream).number for _ in range(2)] == [1, 2]
    with pytest.raises(SentenceError, match="sentence 3: 31 subwords alone do not fit"):
        next(stream)


def test_another_error_is_no_reason_to_try_again() -> None:
    asked = list[int]()
    search = of_memory_for(25, RuntimeError("mat1 and mat2"), asked)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        list(Pipeline(search, searchers(1), 1000).run(lines_of([[9]] * 20)))
    assert len(asked) == 1


@pytest.mark.parametrize("parallel", [0, 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_search_runs_in_the_precision_of_the_caller(dtype: torch.dtype, parallel: int) -> None:
    found = []

    def product(batch: Sequence[Request]) -> list[list[Hypothesis]]:
        found.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        return backwards(batch)

    search: BatchSearch = product
    with torch.autocast("cpu", dtype):
        list(Pipeline(search, searchers(parallel), 9).run(lines_of([[4]])))
    list(Pipeline(search, searchers(parallel), 9).run(lines_of([[4]])))
    assert found == [dtype, torch.float32]
