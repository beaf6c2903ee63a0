"""Lines stream through a search: sorted within windows, in batches, and out in their order.

Batches are searched in the caller's thread, or in threads of their own: meanwhile the caller's
reads and encodes what comes next, decodes and writes what is finished. Memory does not grow with
the number of lines.
"""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import torch

from seq2seq.data.batch import batches, round_up
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.errors import SentenceError
from seq2seq.memory import attempt

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
BatchSearch = Callable[[Sequence[Request]], list[list[Hypothesis]]]

WINDOW_BATCHES = 16
"""A window has the source tokens of so many full batches. On Multi30k, sorting within 16 batches
leaves 6 % padding, within 8 of them 11 %; but the lines of a window are finished late, all about
the same time."""


@dataclass(eq=False)
class Line:
    """A line on its way: its pieces, usually one, none if it is blank."""

    number: int
    """As errors name it."""
    pieces: Sequence[Request]
    found: dict[int, list[Hypothesis]] = field(default_factory=dict)
    """By the place of the piece."""
    error: SentenceError | None = None
    """Why it will not be translated."""

    @property
    def finished(self) -> bool:
        return self.error is not None or len(self.found) == len(self.pieces)


class Piece(NamedTuple):
    """Where a request comes from and its answer goes to."""

    line: Line
    place: int

    @property
    def request(self) -> Request:
        return self.line.pieces[self.place]

    @property
    def length(self) -> int:
        """Source tokens, the end token counted."""
        return len(self.request.src) + 1


class CallersThread(Executor):
    """Runs what is submitted at once, in the thread that submits it, which gets its errors, too."""

    parallel = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class OwnThreads(ThreadPoolExecutor):
    """`parallel` threads. Each gets threads of torch's own at its first search, which takes as long
    as a short sentence: a pool is worth keeping."""

    def __init__(self, parallel: int) -> None:
        super().__init__(parallel, thread_name_prefix="search")
        self.parallel = parallel


def searchers(parallel: int) -> CallersThread | OwnThreads:
    """`parallel` threads that search, or the caller's own if 0."""
    return OwnThreads(parallel) if parallel else CallersThread()


class InFlight(Generic[Answer]):
    """What a pool is asked, answered in order: for each of its threads one question at work and one
    that comes next. At the end what has not begun is dropped, and the rest waited for."""

    def __init__(self, pool: CallersThread | OwnThreads) -> None:
        self._pool = pool
        self._running: deque[Future[Answer]] = deque()

    def __enter__(self) -> "InFlight[Answer]":
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._running:
            future.cancel()
        wait(self._running)

    def ask(self, work: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        """The answer that had to be waited for before there was room for one more question."""
        full = self._running and len(self._running) >= 2 * self._pool.parallel
        answered = [self._running.popleft().result()] if full else []
        self._running.append(self._pool.submit(work, *arguments))
        return answered

    def rest(self) -> Iterator[Answer]:
        """All other answers."""
        while self._running:
            yield self._running.popleft().result()


class Pipeline:
    """Searches lines in batches of up to `batch_tokens` padded source tokens, a batch in each
    thread of the pool, or one after the other in the caller's.

    A batch that runs out of memory is halved, and later ones are made smaller.
    """

    def __init__(
        self, search: BatchSearch, pool: CallersThread | OwnThreads, batch_tokens: int
    ) -> None:
        self.search, self.pool, self.batch_tokens = search, pool, batch_tokens

    def run(self, lines: Iterable[Line]) -> Generator[Line, None, None]:
        """The same lines in the same order, finished.

        If `lines` ends with an error, that error comes after all that came before it.
        """
        waiting: deque[Line] = deque()
        errors: list[Exception] = []
        search = with_autocast_of_caller(self.search)
        with InFlight[None](self.pool) as running:
            for window in windows(_until_error(lines, errors), WINDOW_BATCHES * self.batch_tokens):
                waiting.extend(window)
                pieces = [
                    Piece(each, place) for each in window for place in range(len(each.pieces))
                ]
                lengths = [piece.length for piece in pieces]
                for indices in batches(lengths, self._budget(lengths)):
                    running.ask(self._answer, [pieces[index] for index in indices], search)
                    yield from _taken_finished(waiting)
                yield from _taken_finished(waiting)  # a window of blank lines has no batch
            for _ in running.rest():
                yield from _taken_finished(waiting)
        for error in errors:
            raise error

    def _budget(self, lengths: Sequence[int]) -> int:
        """Padded source tokens of a batch such that all threads of the pool have as much to do."""
        total = sum(lengths)
        count = round_up(max(1, -(-total // self.batch_tokens)), max(1, self.pool.parallel))
        even = -(-total // count) + max(lengths, default=0)  # batches end between sentences
        return min(self.batch_tokens, even)

    def _answer(self, batch: list[Piece], search: BatchSearch) -> None:
        """Search a batch, in halves if it is larger than fits."""
        if padded_tokens(batch) <= self.batch_tokens or len(batch) == 1:
            found = attempt(partial(search, [piece.request for piece in batch]))
            if found is not None:
                for piece, hypotheses in zip(batch, found, strict=True):
                    piece.line.found[piece.place] = hypotheses
                return
            if len(batch) == 1:
                batch[0].line.error = _does_not_fit(batch[0])
                return
            self._shrink(batch)
        middle = len(batch) // 2
        self._answer(batch[:middle], search)
        self._answer(batch[middle:], search)

    def _shrink(self, batch: Sequence[Piece]) -> None:
        tokens = padded_tokens(batch)
        self.batch_tokens = min(self.batch_tokens, tokens // 2)
        warnings.warn(
            f"out of memory with {tokens} source tokens in a batch; going on with "
            f"{self.batch_tokens}, translations stay the same.",
            stacklevel=2,
        )


def padded_tokens(batch: Sequence[Piece]) -> int:
    """Source tokens of a batch, padding counted."""
    return len(batch) * max(piece.length for piece in batch)


def windows(lines: Iterable[Line], size: int) -> Iterator[list[Line]]:
    """Lists of following lines of about `size` source tokens; a blank line counts as one."""
    window: list[Line] = []
    tokens = 0
    for line in lines:
        window.append(line)
        tokens += 1 + sum(len(piece.src) for piece in line.pieces)
        if tokens >= size:
            yield window
            window, tokens = [], 0
    yield window


def _until_error(lines: Iterable[Line], errors: list[Exception]) -> Iterator[Line]:
    try:
        yield from lines
    except Exception as error:
        errors.append(error)


def _taken_finished(waiting: deque[Line]) -> Iterator[Line]:
    while waiting and waiting[0].finished:
        line = waiting.popleft()
        if line.error is not None:
            raise line.error
        yield line


def _does_not_fit(piece: Piece) -> SentenceError:
    return SentenceError(
        f"sentence {piece.line.number}: {piece.length} subwords alone do not fit into memory; use "
        f"a smaller beam, or a smaller max_length so that the sentence is split."
    )


def with_autocast_of_caller(work: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """Autocast is set per thread: threads that work get the caller's setting with each task."""
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    precisions = [(kind, torch.get_autocast_dtype(kind)) for kind in kinds]

    def working(*args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        with ExitStack() as stack:
            for kind, dtype in precisions:
                stack.enter_context(torch.autocast(kind, dtype))
            return work(*args, **kwargs)

    return working
