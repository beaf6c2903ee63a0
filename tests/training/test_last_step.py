"""Whatever ends a run: its last step is validated and kept."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import Timer
from small_runs import Run, metrics, settings, validated_after

from seq2seq.evaluation.corpus_bleu import CorpusBLEU
from seq2seq.training.checkpoints import step_of
from seq2seq.training.counting import end_of
from seq2seq.training.module import TranslationModule


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({"trainer__max_steps": 5, "trainer__val_check_interval": 3}, [3, 5]),
        ({"trainer__max_steps": 3, "trainer__val_check_interval": 1000}, [3]),
        (
            {
                "trainer__max_steps": 3,
                "trainer__val_check_interval": 2,
                "trainer__accumulate_grad_batches": 2,
            },
            [2, 3],
        ),
    ],
)
def test_the_last_step_is_validated_whatever_the_interval(
    corpus: Path, run: Run, limits: dict[str, int], steps: list[int]
) -> None:
    assert run("fit", *settings(**limits)) == 0
    assert sorted(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == steps
    rows = [json.loads(line) for line in Path("run/candidates.jsonl").read_text().splitlines()]
    assert all(set(row["steps"]) <= set(steps) for row in rows)


def test_the_last_epoch_ends_with_a_validation(corpus: Path, run: Run) -> None:
    epochs = {"trainer__max_steps": -1, "trainer__max_epochs": 2}
    assert run("fit", *settings(**epochs, trainer__val_check_interval=10**6)) == 0
    (only,) = Path("run/checkpoints").glob("step=*.ckpt")
    steps = [int(row["step"]) + 1 for row in metrics(Path("run")) if row["loss"]]
    assert validated_after() == [step_of(only)]
    assert step_of(only) >= max(steps) > 8


def test_the_last_epoch_is_validated_where_only_some_are(corpus: Path, run: Run) -> None:
    some = {"trainer__check_val_every_n_epoch": 2, "trainer__val_check_interval": 1.0}
    some |= {"trainer__limit_train_batches": 4, "trainer__max_epochs": 3, "trainer__max_steps": -1}
    assert run("fit", *settings(**some)) == 0
    assert validated_after() == [8, 12]


@pytest.mark.parametrize("validated", [True, False])
def test_a_run_that_ends_by_its_time_keeps_its_last_step(
    corpus: Path, run: Run, validated: bool
) -> None:
    limited = settings(trainer__max_time="00:00:00:02", trainer__max_steps=10**6)
    rarely = {"check_val_every_n_epoch": 10**6, "val_check_interval": 1.0}
    never = {"limit_val_batches": 0, "val_check_interval": 10**6}
    for name, value in (rarely if validated else never).items():
        limited += [f"--trainer.{name}", value]
    assert run("fit", *limited) == 0
    (kept,) = Path("run/checkpoints").glob("step=*.ckpt")
    assert step_of(kept) > 0
    assert validated_after() == [step_of(kept)] * validated


def test_time_that_is_up_within_a_step_ends_the_run_after_it(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fourth batch is the first of three of the second step."""
    batches = list[int]()
    begin = TranslationModule.on_train_batch_start

    def count(self: TranslationModule, parts: Any, batch_index: int) -> None:
        batches.append(batch_index)
        begin(self, parts, batch_index)

    monkeypatch.setattr(TranslationModule, "on_train_batch_start", count)
    monkeypatch.setattr(Timer, "time_elapsed", lambda *_: 3600.0 if len(batches) >= 4 else 0.0)
    limited = {"trainer__max_time": "00:00:01:00", "trainer__accumulate_grad_batches": 3}
    assert run("fit", *settings(**limited)) == 0
    assert len(batches) == 6
    content = torch.load("run/checkpoints/step=2.ckpt", weights_only=True)
    (place,) = content["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    assert place["batches"] == 6


@pytest.mark.parametrize(
    "limit", [{"trainer__max_steps": 4}, {"trainer__max_epochs": 1, "trainer__max_steps": -1}]
)
def test_a_run_that_begins_where_it_would_end_is_refused(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], limit: dict[str, int]
) -> None:
    epoch = {"trainer__limit_train_batches": 4}
    assert run("fit", *settings(**epoch, trainer__max_steps=4)) == 0
    capsys.readouterr()
    start = "run/checkpoints/step=4.ckpt"
    assert run("fit", *settings(run="other", **epoch, **limit), "--ckpt_path", start) == 2
    said = f"error: ckpt_path={start} is at step 4, so nothing is left to train up to step 4: "
    assert said in capsys.readouterr().err
    assert not Path("other/model").exists()
    quick = settings(run="other", **epoch, **limit, trainer__fast_dev_run=2)
    assert run("fit", *quick, "--ckpt_path", start) == 0


def test_a_run_that_begins_at_a_checkpoint_of_another_has_all_of_its_time(
    corpus: Path, run: Run
) -> None:
    limited = {"trainer__max_time": "00:00:00:02", "trainer__max_steps": 10**6}
    assert run("fit", *settings(**limited)) == 0
    first = max(Path("run/checkpoints").glob("step=*.ckpt"), key=step_of)
    assert run("fit", *settings(run="other", **limited), "--ckpt_path", first) == 0
    assert max(map(step_of, Path("other/checkpoints").glob("step=*.ckpt"))) > step_of(first)


@pytest.mark.parametrize("bounds", [{"trainer__min_epochs": 5}, {"trainer__min_steps": 20}])
def test_the_last_step_is_validated_and_kept_whatever_was_to_be_reached(
    corpus: Path, run: Run, bounds: dict[str, object]
) -> None:
    assert run("fit", *settings(trainer__max_steps=6, **bounds)) == 0
    assert max(step_of(path) for path in Path("run/checkpoints").glob("step=*.ckpt")) == 6
    assert validated_after() == [4, 6]


def test_patience_ends_no_run_before_its_least_steps_nor_one_that_is_better_then(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out after step 4, and again after step 10. Least steps have an epoch at least."""
    scores = iter([3.0, 2.0, 4.0, 5.0, 4.0])
    monkeypatch.setattr(CorpusBLEU, "compute", lambda self: torch.tensor(next(scores, 0.0)))
    bounds = {"training__patience": 1, "trainer__min_steps": 5, "trainer__max_steps": 40}
    bounds["trainer__limit_train_batches"] = 3
    often = {"trainer__val_check_interval": 2, "trainer__log_every_n_steps": 4}
    assert run("fit", *settings(**bounds, **often)) == 0
    assert validated_after() == [2, 4, 6, 8, 10]
    assert [int(row["step"]) + 1 for row in metrics(Path("run")) if row["loss"]] == [4, 8]


def test_time_that_is_up_before_the_least_steps_makes_none_of_them_the_last(
    corpus: Path, run: Run
) -> None:
    bounds = {"trainer__max_time": "00:00:00:00", "trainer__min_steps": 7}
    batches = {"trainer__limit_train_batches": 3, "trainer__limit_val_batches": 0}
    assert run("fit", *settings(**bounds, **batches)) == 0
    assert sorted(map(step_of, Path("run/checkpoints").glob("step=*.ckpt"))) == [4, 7]
    assert [int(row["step"]) + 1 for row in metrics(Path("run"))] == [2, 4, 6, 7]


@pytest.mark.parametrize(
    ("epochs", "most", "end"), [(1, -1, 3), (2, -1, 3), (4, -1, 3 + 20), (4, 11, 11)]
)
def test_epochs_end_with_their_steps_and_fewer_than_there_were_where_the_run_is(
    epochs: int, most: int, end: int
) -> None:
    """After two epochs of other batches, at step 3; now, 20 batches of an epoch are 10 steps."""
    sampler = SimpleNamespace(end=20)
    loader = SimpleNamespace(epoch=2, seen=0, sampler=sampler, load_state_dict=lambda _: None)
    loop = SimpleNamespace(max_epochs=epochs, epoch_loop=SimpleNamespace(max_steps=most))
    trainer: Any = SimpleNamespace(
        fit_loop=loop,
        max_steps=most,
        accumulate_grad_batches=2,
        datamodule=SimpleNamespace(train_dataloader=lambda: loader),
    )
    state: Any = {"fit_loop": {"state_dict": {"combined_loader": [{}]}}}
    end_of(trainer, {"loops": state, "global_step": 3})
    assert loop.epoch_loop.max_steps == end
    assert loop.max_epochs == -1


def test_no_epoch_is_no_step(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__max_steps=-1, trainer__max_epochs=0)) == 0
    assert not list(Path("run").glob("checkpoints/*"))


def test_validation_is_after_whole_steps_where_it_is_told_as_a_share(
    corpus: Path, run: Run
) -> None:
    """A third of an epoch of 12 batches, four of which are a step, is a step; a fifth is, too."""
    epochs = {"trainer__limit_train_batches": 12, "trainer__check_val_every_n_epoch": 1}
    chosen = settings(
        **epochs,
        data__batch_tokens=256,
        trainer__accumulate_grad_batches=4,
        trainer__val_check_interval=0.2,
        trainer__max_steps=3,
    )
    assert run("fit", *chosen) == 0
    assert validated_after() == [1, 2, 3]
