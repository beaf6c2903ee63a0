"""A run that is asked to stop does so soon, wherever its steps and validations lie."""

import os
import signal
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytorch_lightning.trainer.connectors import signal_connector
from small_runs import Run, ctrl_c_in_step, metrics, settings, validated_after

from seq2seq.training import choice
from seq2seq.training.checkpoints import step_of
from seq2seq.training.clean_stop import CleanStop
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.module import TranslationModule

MODULE: Any = None
"""No callback here looks at it."""


def one_of_two(decision: bool, all: bool) -> bool:
    """What two processes decide of which one is asked."""
    return decision and not all


@pytest.mark.parametrize("interval", [1, 2, 3])
def test_ctrl_c_stops_after_its_step_and_the_validation_of_it(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    ctrl_c_in_step(3, monkeypatch)
    chosen = settings(trainer__val_check_interval=interval, trainer__log_every_n_steps=50)
    with pytest.raises(SystemExit) as stopped:
        run("fit", *chosen)
    assert stopped.value.code == 128 + signal.SIGINT
    assert max(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == 3


@pytest.mark.parametrize("interval", [3, 100])
def test_the_step_in_which_ctrl_c_comes_is_logged_like_others(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    ctrl_c_in_step(3, monkeypatch)
    chosen = settings(trainer__val_check_interval=interval, trainer__log_every_n_steps=1)
    with pytest.raises(SystemExit):
        run("fit", *chosen)
    assert [int(row["step"]) for row in metrics(corpus / "run") if row["loss"]] == [0, 1, 2]


@pytest.mark.parametrize("interval", [2, 100])
def test_ctrl_c_stops_after_whole_steps(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    """It comes in the first of two batches of a step, the one after a validation or another."""
    begun, step = list[int](), TranslationModule.training_step

    def asking(self: TranslationModule, *arguments: Any) -> Any:
        begun.append(self.global_step + 1)
        if begun == [1, 1, 2, 2, 3]:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    monkeypatch.setattr(TranslationModule, "training_step", asking)
    chosen = settings(trainer__val_check_interval=interval, trainer__accumulate_grad_batches=2)
    with pytest.raises(SystemExit):
        run("fit", *chosen)
    assert begun == [1, 1, 2, 2, 3, 3]
    assert max(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == 3


def test_a_run_that_is_stopped_in_its_last_validation_chooses_its_model_when_it_goes_on(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(trainer__max_steps=1)
    with monkeypatch.context() as patch:
        stop_in("validation_step", patch)
        with pytest.raises(SystemExit) as stopped:
            run("fit", *chosen)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert validated_after() == [1]
    assert not Path("run/candidates.jsonl").exists()
    assert run("fit", *chosen, "--ckpt_path", "last") == 0
    assert Path("run/candidates.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_run_that_is_stopped_while_candidates_are_scored_says_where_it_stands_and_chooses_later(
    corpus: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: signal.Signals,
) -> None:
    caplog.set_level("INFO")
    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(choice, "_validate", lambda *_: signal.raise_signal(number))
        with pytest.raises(SystemExit) as stopped:
            run("fit", *settings())
    assert stopped.value.code == 128 + number
    assert caplog.messages[-1] == "interrupted after 8 steps; model: run/model"
    assert not Path("run/candidates.jsonl").exists()
    assert run("fit", *settings(), "--ckpt_path", "last") == 0
    assert Path("run/candidates.jsonl").exists()
    assert signal.getsignal(number) == before


def test_a_signal_of_slurm_stops_a_run_as_others_do_and_leaves_no_checkpoint_of_lightnings_own(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning would go on with it, and test it instead of the model."""
    task = {"NTASKS": 1, "NTASKS_PER_NODE": 1, "PROCID": 0, "LOCALID": 0, "NODEID": 0, "JOB_ID": 7}
    for name, value in task.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setattr(signal_connector, "call", lambda command: pytest.fail(f"ran {command}"))
    stop_in("training_step", monkeypatch, signal.SIGUSR1)
    with pytest.raises(SystemExit) as stopped:
        run("fit", *settings())
    assert stopped.value.code == 128 + signal.SIGUSR1
    assert [path.name for path in Path().rglob("*.ckpt")] == ["step=1.ckpt"]
    assert run("fit", *settings(), "--ckpt_path", "last") == 0


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_run_that_is_stopped_before_its_first_step_ends_with_the_checkpoint_of_that(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, accumulated: int
) -> None:
    loader = CorpusDataModule.train_dataloader

    def stopping(data: CorpusDataModule) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return loader(data)

    monkeypatch.setattr(CorpusDataModule, "train_dataloader", stopping)
    with pytest.raises(SystemExit) as stopped:
        run("fit", *settings(trainer__accumulate_grad_batches=accumulated))
    assert stopped.value.code == 128 + signal.SIGTERM
    assert Path("run/checkpoints/step=1.ckpt").exists()


@pytest.mark.parametrize("tokens", [16, 512], ids=["several batches", "one batch"])
def test_a_test_that_is_stopped_says_so_in_its_status(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    stop_in("test_step", monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        run("test", "--run", "run", "--data.batch_tokens", tokens)
    assert stopped.value.code == 128 + signal.SIGTERM


def stop_in(name: str, patch: pytest.MonkeyPatch, number: int = signal.SIGTERM) -> None:
    """The signal comes in the first of these steps."""
    step, signals = getattr(TranslationModule, name), iter([number])

    def stopping(*arguments: Any) -> Any:
        for number in signals:
            signal.raise_signal(number)
        return step(*arguments)

    patch.setattr(TranslationModule, name, stopping)


def test_of_several_stops_before_the_first_validation_only_the_last_one_keeps_its_checkpoint(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in (1, 2, 3):
        with monkeypatch.context() as patch:
            ctrl_c_in_step(asked, patch)
            with pytest.raises(SystemExit):
                run("fit", *settings(), *["--ckpt_path", "last"][: 2 * (asked > 1)])
    kept = sorted(path.name for path in Path("run/checkpoints").iterdir())
    assert kept == ["step=2.ckpt", "step=3.ckpt"], "the one that it went on from, and its own"


@pytest.mark.parametrize("asked", [5, 6, 7])
def test_ctrl_c_loses_no_step_where_validations_go_by_epochs(
    corpus: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    asked: int,
) -> None:
    """Epochs of five steps, of which every second one is validated after each two."""
    caplog.set_level("INFO")
    ctrl_c_in_step(asked, monkeypatch)
    chosen = settings(
        trainer__limit_train_batches=5,
        trainer__check_val_every_n_epoch=2,
        trainer__val_check_interval=0.5,
    )
    with pytest.raises(SystemExit):
        run("fit", *chosen)
    assert max(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == asked
    assert validated_after() == [7][: asked == 7]
    said = f"interrupted after {asked} steps; model: run/model"
    assert said in caplog.text
    assert (f"{said} (not validated)" in caplog.text) == (asked != 7)


@pytest.mark.parametrize(
    ("validated", "logged", "stops"),
    [(1000, 50, 51), (50, 50, 50), (25, 50, 25), (1, 50, 2), (7, 1, 2), (1000, 2000, 1000)],
)
def test_several_processes_ask_each_other_after_every_logging_interval_and_validation(
    tmp_path: Path, validated: int, logged: int, stops: int
) -> None:
    """The signal comes in the second step, each of two batches, to any of them."""
    stop, saved = CleanStop(tmp_path), list[str]()
    trainer: Any = SimpleNamespace(
        world_size=2,
        is_global_zero=True,
        accumulate_grad_batches=2,
        log_every_n_steps=logged,
        global_step=0,
        strategy=SimpleNamespace(reduce_boolean_decision=one_of_two),
        save_checkpoint=lambda path, weights_only: saved.append(path),
    )
    trainer.fit_loop = SimpleNamespace(
        _data_fetcher=None,
        epoch_loop=SimpleNamespace(
            _should_check_val_fx=lambda fetcher: trainer.global_step % validated == 0
        ),
    )
    batches = list[int]()

    def train() -> None:
        for number in range(6000):
            stop.on_train_batch_start(trainer, MODULE, None, number)
            batches.append(number)
            stop.asked = signal.SIGTERM if number == 2 else stop.asked
            trainer.global_step += number % 2
            stop.on_train_batch_end(trainer, MODULE, None, None, number)

    with pytest.raises(SystemExit) as stopped:
        train()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert trainer.global_step == stops
    assert len(batches) == 2 * stops, "whole steps"
    assert bool(saved) == bool(stops % validated), "or its validation has"


@pytest.mark.parametrize(
    ("asked", "first", "status"),
    [
        (signal.SIGINT, True, 128 + signal.SIGINT),
        (0, True, 128 + signal.SIGTERM),  # another one was asked
        (signal.SIGINT, False, 0),
    ],
)
def test_of_several_processes_the_first_one_has_the_status(
    tmp_path: Path, asked: int, first: bool, status: int
) -> None:
    stop = CleanStop(tmp_path)
    stop.asked = asked
    with pytest.raises(SystemExit) as stopped:
        stop._stop(cast("Any", SimpleNamespace(is_global_zero=first)))
    assert stopped.value.code == status


@pytest.mark.parametrize("failed", [True, False])
def test_a_signal_a_second_later_stops_at_once_and_after_a_fit_signals_are_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool
) -> None:
    stop = CleanStop(tmp_path)
    strategy = SimpleNamespace(reduce_boolean_decision=one_of_two)
    loop = SimpleNamespace(epoch_loop=SimpleNamespace())
    trainer = cast("Any", SimpleNamespace(strategy=strategy, received_sigterm=False, fit_loop=loop))
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    for begin in (stop.on_train_start, stop.on_fit_end):
        begun = Thread(target=begin, args=(trainer, MODULE))
        begun.start()  # where Python allows no handlers
        begun.join()
    assert [signal.getsignal(number) for number in numbers] == before
    stop.on_train_start(trainer, MODULE)
    try:
        with monkeypatch.context() as patch:  # as in a process that makes batches
            patch.setattr(os, "getpid", lambda: -1)
            signal.raise_signal(signal.SIGTERM)
        elsewhere = stop.asked
        signal.raise_signal(signal.SIGTERM)
        assert (elsewhere, stop.asked) == (0, signal.SIGTERM)
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 0.9)
        signal.raise_signal(signal.SIGUSR1)  # the same request, passed on by another process
        assert stop.asked == signal.SIGTERM
        monkeypatch.setattr(time, "monotonic", lambda: now + 1.1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        if failed:
            stop.on_exception(trainer, MODULE, KeyboardInterrupt())
        else:
            stop.asked = 0
            stop.on_train_end(trainer, MODULE)
    assert [signal.getsignal(number) for number in numbers] == before
