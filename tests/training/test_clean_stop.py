"""A run that is asked to stop does so soon, wherever its steps and validations lie."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_runs import Run, ctrl_c_in_step, settings, validated_after

from seq2seq.training.callbacks import CleanStop
from seq2seq.training.checkpoints import step_of


@pytest.mark.parametrize("interval", [1, 2, 3])
def test_ctrl_c_stops_after_its_step_and_the_validation_of_it(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    ctrl_c_in_step(3, monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        run("fit", *settings(trainer__val_check_interval=interval))
    assert stopped.value.code == 128 + signal.SIGINT
    assert max(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == 3


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
    """The signal comes in the second step, to any of them."""
    stop, saved = CleanStop(tmp_path), list[str]()
    trainer: Any = SimpleNamespace(
        world_size=2,
        is_global_zero=True,
        accumulate_grad_batches=1,
        log_every_n_steps=logged,
        global_step=0,
        strategy=SimpleNamespace(reduce_boolean_decision=lambda decision, all: decision),
        save_checkpoint=lambda path, weights_only: saved.append(path),
    )
    trainer.fit_loop = SimpleNamespace(
        _data_fetcher=None,
        epoch_loop=SimpleNamespace(
            _should_check_val_fx=lambda fetcher: trainer.global_step % validated == 0
        ),
    )
    module: Any = None

    def train() -> None:
        for number in range(3000):
            stop.on_train_batch_start(trainer, module, None, number)
            stop.asked = signal.SIGTERM if number == 1 else stop.asked
            trainer.global_step += 1
            stop.on_train_batch_end(trainer, module, None, None, number)

    with pytest.raises(SystemExit) as stopped:
        train()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert trainer.global_step == stops
    assert bool(saved) == bool(stops % validated), "or its validation has"
