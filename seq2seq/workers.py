"""Several processes search at once, each with an engine of its own."""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from traceback import format_exception
from typing import Any

import torch
from torch import Tensor

from seq2seq.allocator import keep_freed_memory
from seq2seq.config import SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine, asked
from seq2seq.errors import ConfigError

WORTH_WORKERS, MOST_WORKERS = 200_000, 8
"""Bytes of input from which on several processes are worth their start, and how many there are at
most, as each holds the model: see `default_workers`."""


class WorkersEngine:
    """Hands each batch to a process that is free, of `count` that share torch's threads.

    `make` makes the engine in each of them; it and what it makes an engine of must be picklable.
    The processes end with this object. Like all that starts processes, it wants a script to have
    its `if __name__ == "__main__":`.
    """

    def __init__(self, make: Callable[[], Engine], count: int) -> None:
        threads = max(1, torch.get_num_threads() // count)
        self.parallel = count
        workers = [_Worker(make, threads) for _ in range(count)]  # all load at the same time
        self.max_length: int | None = None
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers:
            self.max_length = worker.receive()
            self._free.put(worker)

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = self._ask("search", batch, config)
        return found

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        return list(map(torch.from_numpy, self._ask("log_probs", src, tgt)))

    def cross_attention(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        return list(map(torch.from_numpy, self._ask("cross_attention", src, tgt)))

    def _ask(self, question: str, *arguments: object) -> Any:
        worker = self._free.get()
        try:
            return worker.ask(question, *arguments)
        finally:
            self._free.put(worker)  # a dead one, too: it says so to everyone who asks


class _Worker:
    """This side of one process."""

    def __init__(self, make: Callable[[], Engine], threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # torch has threads: no fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, make, threads), daemon=True)
        # Ctrl-C goes to all processes of a terminal, but is for the first one to answer. (Starting
        # the tracker would unblock the signal.)
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the death of the process is the end of the connection

    def ask(self, question: str, *arguments: object) -> Any:
        with suppress(OSError):  # it is dead, as the answer will say
            self.connection.send((question, *arguments))
        return self.receive()

    def receive(self) -> Any:
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):  # OSError if it died while it was sending
            self.process.join(10)
            raise ConfigError(
                f"a worker process has died (exit code {self.process.exitcode}), perhaps because "
                f"memory ran out; use fewer workers or a smaller batch_tokens."
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(connection: Connection, make: Callable[[], Engine], threads: int) -> None:
    """The other side: say the engine's max_length, then answer until nobody asks any more."""
    # When the first process ends, it ends this one with SIGTERM: exit as usual, so that temporary
    # files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        _answer_all(connection, make, threads)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # exiting already


def _answer_all(connection: Connection, make: Callable[[], Engine], threads: int) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            engine = make()
            connection.send(engine.max_length)
        except Exception as error:
            connection.send(error)
            return
        while True:
            question, *arguments = connection.recv()
            try:
                answer = asked(engine, question)(*arguments)
                # A tensor would go through shared memory, of which containers have little.
                connection.send(
                    [each.numpy() if isinstance(each, Tensor) else each for each in answer]
                )
            except Exception as error:
                error.add_note("".join(format_exception(error)))
                connection.send(error)


def default_workers(size: int, device: str) -> int:
    """For `size` bytes of text: on a CPU one for each thread of torch, if their start is worth it.

    Measured on two cores with a small model: two processes of one thread each translate 9 % (beam
    5) or 38 % (greedy search) faster than one process of two threads, but start later: 60 kB take
    8.0 s in all instead of 7.2, 180 kB as long either way.
    """
    on_gpu = torch.cuda.is_available() if device == "auto" else not device.startswith("cpu")
    if on_gpu or size < WORTH_WORKERS:
        return 1
    return min(torch.get_num_threads(), MOST_WORKERS)
