"""A run that was killed anywhere and went on ends as the run that never was: bit for bit."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Run, ctrl_c_in_step, settings, validated_after

from seq2seq.data.dataset import TrainingBatches
from seq2seq.data.sampler import Draw
from seq2seq.errors import ConfigError
from seq2seq.model_folder import load_model
from seq2seq.training.checkpoints import find_checkpoint, step_of
from seq2seq.training.logs import read_log

KILLED_FIT = Path(__file__).with_name("killed_fit.py")
LAST_STEP = 16
EVERYTHING_ON = {
    "trainer__max_steps": LAST_STEP,
    "trainer__val_check_interval": 4,
    "trainer__accumulate_grad_batches": 2,
    "data__batch_tokens": 1024,
    "data__subword_sampling__src": 0.3,
    "data__subword_sampling__tgt": 0.3,
    "training__dropout__residual": 0.2,
    "training__dropout__attention": 0.1,
    "training__dropout__activation": 0.1,
    "training__lr": 0.01,
    "training__ema": 0.9,
    "training__keep_last": 3,
    "training__keep_best": 2,
}


def start_fit(*command: str, **changes: object) -> "subprocess.Popen[str]":
    """A fit in processes of its own, with everything on that draws random numbers."""
    return subprocess.Popen(
        [sys.executable, *command, "fit", *map(str, settings(**EVERYTHING_ON, **changes))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
    )


def end_of(process: "subprocess.Popen[str]", seconds: int = 300) -> tuple[int, str]:
    """Its exit status, and what it said; of one without an end, where each of its threads is."""
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)
        said, _ = process.communicate()
        pytest.fail(f"it does not end: {said}", pytrace=False)
    return process.returncode, said


def fit(*command: str, **changes: object) -> tuple[int, str]:
    return end_of(start_fit(*command, **changes))


def outcome(run: Path) -> dict[str, Any]:
    """All that decides how training would go on, at the last step, and what it left."""
    state = torch.load(run / f"checkpoints/step={LAST_STEP}.ckpt", weights_only=True)
    callbacks = {
        name: value
        for name, value in state["callbacks"].items()
        if name.startswith(("Patience", "BestModelFolder", "ExponentialMovingAverage"))
    }
    assert len(callbacks) == 3
    checkpoints = [
        {Path(path).name: score for path, score in value["best_k_models"].items()}
        for name, value in state["callbacks"].items()
        if name.startswith("KeptCheckpoints")
    ]
    assert sorted(map(len, checkpoints)) == [2, 3]
    candidates = map(json.loads, (run / "candidates.jsonl").read_text().splitlines())
    kept = ("state_dict", "optimizer_states", "lr_schedulers", "global_step")
    return {
        **{name: state[name] for name in kept},
        "callbacks": callbacks,
        "checkpoints": checkpoints,
        "candidates": {row.pop("model"): row for row in candidates},
        "model": dict(load_model(run).network.named_parameters()),
    }


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    "epochs",
    [
        {"trainer__limit_train_batches": 4},
        {"trainer__limit_train_batches": 0.5, "data__batch_tokens": 2000},
        {
            "data__batch_tokens": 4000,
            "trainer__val_check_interval": 1.0,
            "trainer__check_val_every_n_epoch": 1,
        },
    ],
    ids=["limited", "share", "validated"],
)
def test_a_run_goes_on_exactly_with_epochs_of_other_kinds(
    corpus: Path, run: Run, epochs: dict[str, object]
) -> None:
    def weights(name: str) -> Any:
        return torch.load(f"{name}/checkpoints/step=12.ckpt", weights_only=True)["state_dict"]

    for name, steps in (("whole", (12,)), ("parts", (8, 12))):
        for number, max_steps in enumerate(steps):
            chosen = settings(run=name, trainer__max_steps=max_steps, **epochs)
            assert run("fit", *chosen, *["--ckpt_path", "last"][: 2 * number]) == 0
    assert_same(weights("parts"), weights("whole"))


@pytest.mark.parametrize(("stop", "first", "then"), [(7, 1, 2), (7, 2, 3), (5, 1, 2), (5, 2, 3)])
def test_validations_come_after_the_same_steps_where_a_run_goes_on_with_other_micro_batches(
    corpus: Path, run: Run, stop: int, first: int, then: int
) -> None:
    """It goes on in the midst of an epoch of 5 steps, whose batches make no whole step then, or at
    its end."""
    for steps, accumulated in ((stop, first), (14, then)):
        chosen = settings(
            trainer__max_steps=steps,
            trainer__accumulate_grad_batches=accumulated,
            trainer__limit_train_batches=5 * accumulated,
        )
        assert run("fit", *chosen, *["--ckpt_path", "last"][: 2 * (steps == 14)]) == 0
    assert validated_after() == [8, 12, 14]


@pytest.mark.parametrize("stop", [None, 4], ids=["at its end", "in its midst"])
@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        ("trainer.accumulate_grad_batches", 1, 1),
        ("trainer.accumulate_grad_batches", 1, 3),
        ("trainer.accumulate_grad_batches", 4, 1),
        ("data.batch_tokens", 1000, 400),
    ],
)
def test_an_epoch_goes_on_with_other_batches_after_what_was_seen_of_it(
    corpus: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    first: int,
    then: int,
    stop: int | None,
) -> None:
    seen: dict[int, Counter[int]] = {0: Counter(), 1: Counter()}
    make = TrainingBatches.__getitem__

    def spied(self: TrainingBatches, draws: Sequence[Draw]) -> Any:
        for draw in draws:
            seen[draw.epoch].update(draw.indices)
        return make(self, draws)

    monkeypatch.setattr(TrainingBatches, "__getitem__", spied)

    def fit(epochs: int, value: int, *more: str, steps: int | None = None) -> int:
        chosen = settings(trainer__max_epochs=epochs, trainer__max_steps=steps or -1)
        return run("fit", *chosen, f"--{name}", value, *more, "--trainer.val_check_interval", 99)

    assert fit(1, first, steps=stop) == 0
    assert 0 < len(seen[0]) <= 2000
    assert fit(2, then, "--ckpt_path", "last") == 0
    assert seen[1] == Counter(range(2000)), "each pair once, in the next epoch"
    if stop is None:
        assert seen[0] == seen[1]
    elif name == "data.batch_tokens":  # the pairs of its rest are others, but as many
        assert abs(seen[0].total() - 2000) < 200
    else:
        assert (seen[0] - seen[1]).total() + (seen[1] - seen[0]).total() < 400


def test_epochs_end_a_run_with_their_last_step_and_the_same_weights_wherever_it_stopped(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps an epoch; Ctrl-C comes in the last step of an epoch, and in the next one."""

    def fit_until(asked: int | None, epochs: int = 2, name: str = "run") -> int | str | None:
        chosen = settings(
            run=name,
            trainer__max_steps=-1,
            trainer__max_epochs=epochs,
            trainer__limit_train_batches=4,
            trainer__val_check_interval=100,
            training__schedule="linear",
        )
        go_on = ["--ckpt_path", "last"] if Path(name).exists() else []
        with monkeypatch.context() as patch:
            ctrl_c_in_step(asked, patch)
            try:
                return run("fit", *chosen, *go_on)
            except SystemExit as stopped:
                return stopped.code

    def steps() -> list[int]:
        return sorted(step_of(path) for path in Path("run/checkpoints").glob("step=*.ckpt"))

    for asked in (4, 5):
        assert fit_until(asked) == 128 + signal.SIGINT
        assert steps()[-1] == asked
    for _ in range(2):  # the second one finds nothing to do
        assert fit_until(None) == 0
        assert steps()[-1] == 8
    assert fit_until(None, name="whole") == 0
    state, whole = (
        torch.load(f"{name}/checkpoints/step=8.ckpt", weights_only=True)
        for name in ("run", "whole")
    )
    assert_same(state["state_dict"], whole["state_dict"])
    assert state["optimizer_states"][0]["param_groups"][0]["lr"] == 0
    assert fit_until(None, epochs=3) == 0
    assert steps()[-1] == 12


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("workers", "optimizer"), [(0, "adamw"), (2, "muon")])
def test_a_run_that_was_killed_anywhere_ends_as_one_that_never_was(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, workers: int, optimizer: str, processes: int
) -> None:
    setting: dict[str, object] = {"data__workers": workers, "training__optimizer": optimizer}
    if processes > 1:
        setting |= {"trainer__devices": processes, "trainer__strategy": "ddp"}
    status, said = fit("-m", "seq2seq", run="whole", **setting)
    assert status == 0, said
    expected = outcome(corpus / "whole")

    # Before the first checkpoint, after it, in a validation, in a checkpoint, in the last step.
    for kill_at in ("2/step", "5/step", "8/validation", "8/checkpoint", "13/step"):
        monkeypatch.setenv("KILL_AT", kill_at)
        run = f"killed-{kill_at.replace('/', '-')}"
        status, said = fit(str(KILLED_FIT), run=run, **setting)
        assert status == -signal.SIGKILL, said
        begun = list((corpus / run / "checkpoints").glob("step=*.ckpt"))
        assert bool(begun) == (kill_at != "2/step")
        go_on = "last" if begun else "null"
        status, said = fit("-m", "seq2seq", run=run, ckpt_path=go_on, **setting)
        assert status == 0, said
        assert_same(outcome(corpus / run), expected)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_asked_to_stop_writes_a_checkpoint_and_goes_on_exactly(
    corpus: Path, number: signal.Signals
) -> None:
    """All its processes are asked, as a terminal, Slurm or systemd does."""
    assert fit("-m", "seq2seq", run="whole")[0] == 0
    stopped = start_fit("-m", "seq2seq", run="run", data__workers=2)
    while not list((corpus / "run").glob("logs/*/metrics.csv")):
        assert stopped.poll() is None
        time.sleep(0.01)
    os.killpg(stopped.pid, number)
    status, said = end_of(stopped, 100)
    assert status == 128 + number, said
    assert "Traceback" not in said
    assert find_checkpoint("last", corpus / "run") is not None
    assert not (corpus / f"run/checkpoints/step={LAST_STEP}.ckpt").exists(), "it came too late"
    assert fit("-m", "seq2seq", run="run", ckpt_path="last")[0] == 0
    assert_same(outcome(corpus / "run"), outcome(corpus / "whole"))


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(corpus: Path, run: Run) -> None:
    assert run("fit", *settings()) == 0
    newest = corpus / "run/checkpoints/step=8.ckpt"
    content = newest.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (content[: len(content) // 2], b"", bytes(flipped)):
        newest.write_bytes(damaged)
        with pytest.warns(UserWarning, match=r"step=8\.ckpt is damaged or was cut short"):
            found = find_checkpoint("last", Path("run"))
        assert found == "run/checkpoints/step=4.ckpt"
        with pytest.raises(ConfigError, match=r"step=8\.ckpt is damaged or no checkpoint"):
            find_checkpoint(str(newest), corpus / "run")


def test_a_run_goes_on_in_its_precision_where_none_is_set(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert run("fit", *settings(trainer__precision="bf16-mixed", trainer__max_steps=1)) == 0
    more = settings(trainer__precision="null", trainer__max_steps=2)
    assert run("fit", *more, "--ckpt_path", "last") == 0
    said = [line for line in caplog.messages if line.startswith("training on cpu")]
    assert ["bf16-mixed" in line for line in said] == [True, True]


@pytest.mark.parametrize("stops", [[3], [5], [6], [3, 6, 9]])
def test_epochs_are_validated_and_counted_as_if_a_run_had_never_stopped(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, stops: list[int]
) -> None:
    """Every second one, of three steps, wherever and however often Ctrl-C came."""
    chosen = settings(
        trainer__max_steps=13,
        trainer__limit_train_batches=3,
        trainer__val_check_interval=1.0,
        trainer__check_val_every_n_epoch=2,
    )
    for asked in stops:
        with monkeypatch.context() as patch:
            ctrl_c_in_step(asked, patch)
            with pytest.raises(SystemExit):
                run("fit", *chosen, *["--ckpt_path", "last"][: 2 * (asked != stops[0])])
    assert run("fit", *chosen, "--ckpt_path", "last") == 0
    assert sorted(read_log(Path("run"))["val_bleu"]) == [6, 12, 13]
    state = torch.load("run/checkpoints/step=13.ckpt", weights_only=True)
    counts = {"ready": 5, "started": 5, "processed": 4, "completed": 4}
    assert state["loops"]["fit_loop"]["epoch_progress"] == {"total": counts, "current": counts}


def test_early_stopping_of_ones_own_counts_every_validation_where_a_run_goes_on(
    corpus: Path, run: Run
) -> None:
    """None after the first is better by enough, so the third of those is the last."""
    never = "{class_path: EarlyStopping, init_args: {monitor: val_ppl, min_delta: 1000}}"
    chosen = settings(
        trainer__callbacks=never,
        trainer__limit_train_batches=2,
        trainer__val_check_interval=1.0,
        trainer__check_val_every_n_epoch=1,
    )
    assert run("fit", *chosen, "--trainer.max_steps", 4) == 0
    assert run("fit", *chosen, "--trainer.max_steps", 20, "--ckpt_path", "last") == 0
    assert sorted(read_log(Path("run"))["val_ppl"]) == [2, 4, 6, 8]
