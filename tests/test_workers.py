"""Engines in other processes, with a toy engine that can be told to fail or to die."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from test_translator import subwords
from torch import Tensor

from seq2seq.config import SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine
from seq2seq.errors import ConfigError
from seq2seq.pipeline import Line, Pipeline, searchers
from seq2seq.translator import Translator
from seq2seq.workers import WORTH_WORKERS, WorkersEngine, _Worker, default_workers

DIE, FAIL, RUN_OUT, WHO = 4, 5, 6, 7
PATIENCE = 60
"""Seconds that an answer may take to come."""


class Obedient:
    """Does what its source says; otherwise says it backwards, with the beam for a score."""

    max_length, parallel = 77, 1

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        for each in batch:
            if each.src[0] == DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            if each.src[0] == FAIL:
                raise ZeroDivisionError("asked for")
            if each.src[0] == RUN_OUT and len(batch) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            if each.src[0] == WHO:
                return [[Hypothesis([os.getpid(), torch.get_num_threads()], 0.0)]]
        return [[Hypothesis(list(each.src[::-1]), float(config.beam))] for each in batch]


def nothing_shared(tensor: Tensor) -> Any:
    raise OSError("No space left on /dev/shm")


class Looking(Obedient):
    """Says of each token how long the sentence is, and of a layer's one head how long both are.
    Torch's shared memory is full there, and Ctrl-C comes while it looks at no translation."""

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        ForkingPickler.register(Tensor, nothing_shared)
        if not any(tgt):
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.5)
        return [torch.full((len(t) + 1,), -len(s) / 2) for s, t in zip(src, tgt, strict=True)]

    def cross_attention(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        ForkingPickler.register(Tensor, nothing_shared)
        return [torch.ones(1, 1, len(t) + 1, len(s) + 1) for s, t in zip(src, tgt, strict=True)]


def nowhere() -> Engine:
    raise ConfigError("device=nowhere cannot be used")


THREADS = 6
"""Of torch, where the workers begin."""


@pytest.fixture(scope="module")
def workers() -> WorkersEngine:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: THREADS)
        return WorkersEngine(Obedient, 2)


def ask(engine: Engine, *sources: Sequence[int]) -> list[list[Hypothesis]]:
    return engine.search([Request(each) for each in sources], SearchConfig(beam=3))


def run(engine: Engine, sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Through a pipeline, a sentence a batch unless they are told to run out of memory."""
    lines = [Line(number, [Request(each)]) for number, each in enumerate(sources, start=1)]
    pipeline = Pipeline(lambda batch: engine.search(batch, SearchConfig()), searchers(2), 8)
    return [line.found[0][0].tokens for line in pipeline.run(lines)]


def test_workers_answer_as_their_engine_does(workers: WorkersEngine) -> None:
    assert (workers.max_length, workers.parallel) == (77, 2)
    assert ask(workers, [8, 9], [10]) == ask(Obedient(), [8, 9], [10])
    sources = [[n, n + 1] for n in range(8, 60)]
    assert run(workers, sources) == [source[::-1] for source in sources]


def test_every_worker_is_another_process_with_its_share_of_the_threads(
    workers: WorkersEngine,
) -> None:
    answers = [ask(workers, [WHO])[0][0].tokens for _ in range(2)]
    assert len({process for process, _ in answers} | {os.getpid()}) == 3
    assert {threads for _, threads in answers} == {THREADS // 2}


def test_more_workers_than_threads_have_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[int]()

    class Silent:
        def __init__(self, make: object, threads: int) -> None:
            given.append(threads)

        def receive(self) -> None:
            pass

    monkeypatch.setattr("seq2seq.workers._Worker", Silent)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    WorkersEngine(Obedient, 3)
    assert given == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:out of memory")
def test_errors_of_a_worker_are_raised_here(workers: WorkersEngine) -> None:
    with pytest.raises(ZeroDivisionError, match="asked for") as raised:
        ask(workers, [FAIL])
    assert 'raise ZeroDivisionError("asked for")' in raised.value.__notes__[0]
    assert run(workers, [[RUN_OUT, 8]] * 5) == [[8, RUN_OUT]] * 5


def test_what_an_engine_cannot_be_asked_is_told(workers: WorkersEngine) -> None:
    with pytest.raises(ConfigError, match="Obedient does not tell how likely each token is"):
        workers.log_probs([[8]], [[8]])


def test_what_workers_tell_of_translations_needs_no_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The one here fills its own shared memory, too.
    monkeypatch.setattr(
        ForkingPickler, "_extra_reducers", vars(ForkingPickler)["_extra_reducers"].copy()
    )
    engine, src, tgt = WorkersEngine(Looking, 1), [[8, 9, 10], [11]], [[12], [13, 14]]
    for ask in ("log_probs", "cross_attention"):
        found, expected = (getattr(each, ask)(src, tgt) for each in (engine, Looking()))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("count", [1, 2])
def test_after_ctrl_c_the_next_question_gets_its_own_answer(count: int) -> None:
    translator = Translator(WorkersEngine(Looking, count), subwords(), subwords())
    interrupted, (sentence,) = ["kare tosu mino"], ["mire"]
    translator.score([sentence], ["tosu"])  # the thread that asks: its start stands no interrupt
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            translator.score(interrupted, [""])
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(3):
        (found,) = translator.score([sentence], ["tosu"])
        assert set(found.log_probs) == {-len(subwords().encode(sentence)) / 2}


def test_a_worker_that_cannot_begin_says_why() -> None:
    with pytest.raises(ConfigError, match="device=nowhere cannot be used"):
        WorkersEngine(nowhere, 1)


def test_a_worker_that_dies_is_an_error_and_never_a_hang(workers: WorkersEngine) -> None:
    said = r"a worker process has died \(exit code -9\), .* use fewer workers"
    with pytest.raises(ConfigError, match=said):
        run(workers, [[8, 9]] * 5 + [[DIE]] + [[8, 9]] * 50)
    with pytest.raises(ConfigError, match=said):
        run(workers, [[DIE]] * 20)  # both are dead now


def test_a_worker_that_dies_while_it_answers_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = _Worker(Obedient, 1)
    worker.receive()
    receive = worker.connection.recv

    def late() -> Any:
        assert worker.connection.poll(PATIENCE)
        time.sleep(0.5)  # the pipe is full now, and holds a part
        worker.process.kill()
        return receive()

    monkeypatch.setattr(worker.connection, "recv", late)
    with pytest.raises(ConfigError, match=r"a worker process has died \(exit code -9\)"):
        worker.ask("search", [Request(range(8, 2_000_000))], SearchConfig())


class Exporting(Obedient):
    """Needs a folder for as long as it is there."""

    def __init__(self, there: Path) -> None:
        self.scratch = tempfile.TemporaryDirectory(dir=there)


def test_a_worker_that_is_terminated_as_at_the_end_of_the_first_process_leaves_nothing(
    tmp_path: Path,
) -> None:
    worker = _Worker(partial(Exporting, tmp_path), 1)
    worker.receive()
    assert len(list(tmp_path.iterdir())) == 1
    worker.process.terminate()
    worker.process.join(PATIENCE)
    assert not list(tmp_path.iterdir())


def test_the_end_of_the_first_process_is_silent() -> None:
    program = "from test_workers import *; WorkersEngine(Obedient, 2)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(3):  # terminated while they leave, or before
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, env=environment, timeout=PATIENCE
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("size", "device", "gpu", "expected"),
    [
        (WORTH_WORKERS, "cpu", True, 6),
        (WORTH_WORKERS, "auto", False, 6),
        (WORTH_WORKERS - 1, "cpu", False, 1),
        (WORTH_WORKERS, "auto", True, 1),
        (WORTH_WORKERS, "cuda:1", True, 1),
    ],
)
def test_workers_are_the_cores_of_a_cpu_if_the_text_is_worth_their_start(
    size: int, device: str, gpu: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert default_workers(size, device) == expected
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert default_workers(size, device) <= 8
