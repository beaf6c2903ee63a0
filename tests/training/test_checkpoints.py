"""The checkpoints of a run are those of one line of steps, wherever its folder lies."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from pytorch_lightning.callbacks import EarlyStopping, Timer
from small_runs import Run, settings, validated_after

from seq2seq.errors import ConfigError
from seq2seq.training.callbacks import Branch, Patience
from seq2seq.training.checkpoints import BEST, LAST, KeptCheckpoints, find_checkpoint, step_of
from seq2seq.training.ema import ExponentialMovingAverage

KEPT = {"training__keep_last": 2, "training__keep_best": 2, "training__lr": 0.01}


def checkpoints(run: str) -> list[str]:
    return sorted(path.name for path in Path(run, "checkpoints").iterdir())


def candidates(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(run, "candidates.jsonl").read_text().splitlines()]


def test_a_run_that_was_moved_goes_on_as_if_it_had_not_been(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(run="here", trainer__max_steps=12, **KEPT)) == 0
    shutil.copytree("here", "there")
    before = checkpoints("here")
    for name in ("there", "here"):
        again = settings(run=name, trainer__max_steps=20, **KEPT)
        assert run("fit", *again, "--ckpt_path", "last") == 0
        if name == "there":
            assert checkpoints("here") == before
    assert checkpoints("there") == checkpoints("here")
    assert candidates("there") == candidates("here")
    weights = (Path(name, "model/weights.safetensors").read_bytes() for name in ("there", "here"))
    assert len(set(weights)) == 1


def test_a_run_may_go_on_with_fewer_checkpoints_to_keep(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__max_steps=12, training__lr=0.0)) == 0
    assert len(checkpoints("run")) == 6
    fewer = settings(
        trainer__max_steps=16, training__lr=0.0, training__keep_last=2, training__keep_best=1
    )
    assert run("fit", *fewer, "--ckpt_path", "last") == 0
    best, *last = checkpoints("run")  # of equal ones the first is best
    assert best.startswith("best-step=4-")
    assert last == ["step=12.ckpt", "step=16.ckpt"]


def test_of_what_a_checkpoint_remembers_the_best_that_are_in_the_folder_are_kept(
    tmp_path: Path,
) -> None:
    scores, module = {1: 3.0, 2: 5.0, 3: 5.0, 4: 4.0, 5: 9.0}, cast(Any, None)
    here = {step: tmp_path / f"step={step}.ckpt" for step in scores}
    for step in (1, 2, 3, 4):
        here[step].touch()
    kept = KeptCheckpoints(tmp_path, LAST, "score", 3)
    state = {"monitor": "score", "dirpath": "there", "best_model_path": "there/step=5.ckpt"}
    remembered = {f"there/step={step}.ckpt": score for step, score in scores.items()}
    trainer: Any = SimpleNamespace(strategy=SimpleNamespace(broadcast=lambda found: found))
    for left in ({2: 5.0, 3: 5.0, 4: 4.0}, {}):
        states: dict[str, Any] = {kept.state_key: {**state, "best_k_models": remembered}}
        kept.on_load_checkpoint(trainer, module, {"callbacks": states})
        expected = {
            "monitor": "score",
            "dirpath": str(tmp_path),
            "best_k_models": {str(here[step]): score for step, score in left.items()},
            "best_model_path": str(here[2]),  # the first of equals
            "best_model_score": 5.0,
            "kth_best_model_path": str(here[4]),
            "kth_value": 4.0,
        }
        assert states == ({kept.state_key: expected} if left else {})
        for path in tmp_path.iterdir():
            path.unlink()


def test_of_equal_bleu_the_lower_perplexity_is_better_for_what_is_kept_and_for_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, patience = KeptCheckpoints(tmp_path, BEST, "val_bleu", 2), Patience(2)
    monkeypatch.setattr(kept, "_save_checkpoint", lambda *_: None)
    monkeypatch.setattr(kept, "_remove_checkpoint", lambda *_: None)
    measured = [(0.0, 50.0), (0.0, 40.0), (0.5, 60.0), (0.0, 30.0), (0.5, 70.0), (0.5, 55.0)]
    trainer: Any = SimpleNamespace(
        current_epoch=0,
        fast_dev_run=False,
        should_stop=False,
        ckpt_path=None,
        strategy=SimpleNamespace(reduce_boolean_decision=lambda decision, all=True: decision),
    )
    waited, stayed = [], []
    for step, (bleu, perplexity) in enumerate(measured):
        trainer.global_step = step
        trainer.callback_metrics = {
            "val_bleu": torch.tensor(bleu),
            "val_ppl": torch.tensor(perplexity),
        }
        kept._save_topk_checkpoint(trainer, kept._monitor_candidates(trainer))
        patience._run_early_stopping_check(trainer)
        waited.append(patience.wait_count)
        stayed.append(sorted(step_of(Path(path)) for path in kept.best_k_models))
    assert stayed == [[0], [0, 1], [1, 2], [2, 3], [2, 4], [2, 5]]
    assert Path(kept.best_model_path).name == "best-step=5-bleu=0.5000.ckpt"
    assert waited == [0, 0, 0, 1, 2, 0]
    assert trainer.should_stop


def test_a_run_that_no_validation_has_judged_may_get_one(corpus: Path, run: Run) -> None:
    blind = settings(trainer__max_steps=2, trainer__limit_val_batches=0)
    assert run("fit", *blind) == 0
    changed = settings(trainer__max_steps=4, trainer__limit_val_batches=1.0, search__beam=3)
    assert run("fit", *changed, "--ckpt_path", "last") == 0
    assert validated_after() == [4]


def test_what_was_written_for_a_stop_is_removed_when_the_run_goes_on(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(**KEPT)) == 0
    folder = Path("run/checkpoints")
    for name in ("step=2.ckpt", "step=2-mine.ckpt", "mine.ckpt"):
        shutil.copy(folder / "step=8.ckpt", folder / name)
    elsewhere = shutil.copy(folder / "step=8.ckpt", "elsewhere.ckpt")
    (folder / "step=9.ckpt").symlink_to(Path(elsewhere).resolve())
    for name in (".step=9.ckpt.unfinished", ".mine.unfinished"):
        (folder / name).write_bytes(b"killed")
    (folder / "step=3.ckpt").symlink_to("nowhere")
    stops = {"step=2.ckpt", "step=9.ckpt"}
    for steps, left in ((12, {"step=9.ckpt"}), (16, set[str]())):  # first from the one of a stop
        more = settings(trainer__max_steps=steps, **KEPT)
        assert run("fit", *more, "--ckpt_path", "last") == 0
        assert stops & set(checkpoints("run")) == left
    assert {"mine.ckpt", "step=2-mine.ckpt", ".mine.unfinished"} <= set(checkpoints("run"))
    assert ".step=9.ckpt.unfinished" not in checkpoints("run")


def test_a_checkpoint_of_another_version_is_one_line_for_every_command(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(**KEPT)) == 0
    path = Path("run/checkpoints/step=8.ckpt")
    content = torch.load(path, weights_only=True)
    torch.save({**content, "format_version": 7}, path)
    before, more = checkpoints("run"), settings(trainer__max_steps=12, **KEPT)
    for command in (
        ["fit", *more, "--ckpt_path", "last"],
        ["fit", *more, "--ckpt_path", "last", "--trainer.precision", "32-true"],
        ["fit", *more, "--run", "other", "--ckpt_path", str(path)],
        ["test", "--run", "run", "--ckpt_path", "last"],
        ["average", "run", "--last", "1"],
    ):
        capsys.readouterr()
        assert run(*command) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert f"{path} has format_version=7; this seq2seq reads 1. " in line
        assert checkpoints("run") == before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda content: {"a": 1}, "is not a checkpoint of seq2seq"),
        (lambda content: torch.ones(3), "is not a checkpoint of seq2seq"),
        (lambda content: {**content, "a": Path("a")}, "is not a checkpoint of seq2seq"),
        (lambda content: {"state_dict": content["state_dict"]}, "is not a checkpoint of seq2seq"),
        (lambda content: content.pop("optimizer_states") and content, "has weights alone"),
    ],
    ids=["dict", "tensor", "code", "foreign", "weights"],
)
def test_what_is_no_checkpoint_to_go_on_from_is_one_line(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Any], object],
    said: str,
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    content = torch.load("run/checkpoints/step=4.ckpt", weights_only=True)
    torch.save(spoil(content), "odd.ckpt")
    capsys.readouterr()
    assert run("fit", *settings(run="other"), "--ckpt_path", "odd.ckpt") == 2
    (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
    assert line.startswith("error: ckpt_path=odd.ckpt ")
    assert said in line


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a name may not be given")
def test_a_checkpoint_whose_name_pytorch_does_not_take_is_told(tmp_path: Path) -> None:
    path = tmp_path / "m\udce4rz.ckpt"
    path.touch()
    with pytest.raises(ConfigError, match=rf"^ckpt_path={path} is not UTF-8"):
        find_checkpoint(str(path), tmp_path)


@pytest.mark.parametrize("wanted", ["best", "last", "run/checkpoints/step=8.ckpt"])
def test_of_one_step_it_does_not_matter_which_checkpoint_a_run_goes_on_from(
    corpus: Path, run: Run, wanted: str
) -> None:
    assert run("fit", *settings(**KEPT)) == 0
    (best,) = Path("run/checkpoints").glob("best-step=8-*")
    best.rename(best.with_name("best-step=8-bleu=99.00.ckpt"))
    real = Path("run/checkpoints/step=8.ckpt").rename("elsewhere.ckpt")  # as data managers do
    Path("run/checkpoints/step=8.ckpt").symlink_to(real.resolve())
    assert run("fit", *settings(trainer__max_steps=12, **KEPT), "--ckpt_path", wanted) == 0
    assert [name for name in checkpoints("run") if name.startswith("step")] == [
        "step=12.ckpt",
        "step=8.ckpt",
    ]
    assert candidates("run")[1]["steps"] == [8, 12]


def test_patience_is_that_of_this_session_with_all_that_was_seen_and_says_that_it_ended_the_run(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def ends(step: int) -> bool:
        """Whether the last session says so, with its patience."""
        said, waited = caplog.text, step // 4 - 1
        caplog.clear()
        count = f"no better validation in {waited} in a row (training.patience={waited})"
        return f"stopped at step {step}: {count}" in said

    # The first validation is the best.
    caplog.set_level("INFO")
    still = {"training__lr": 0.0, "trainer__max_steps": 40}
    assert run("fit", *settings(**still, training__patience=1)) == 0
    assert "step=8.ckpt" in checkpoints("run")
    assert ends(8)
    assert run("fit", *settings(**still, training__patience=1), "--ckpt_path", "last") == 0
    assert "step=12.ckpt" not in checkpoints("run")
    assert ends(8)
    assert run("fit", *settings(**still, training__patience=2), "--ckpt_path", "last") == 0
    assert "step=12.ckpt" in checkpoints("run")
    assert "step=16.ckpt" not in checkpoints("run")
    assert ends(12)
    # Another run begins to wait anew.
    other = settings(**still, run="other", training__patience=1)
    assert run("fit", *other, "--ckpt_path", "run/checkpoints/step=12.ckpt") == 0
    assert checkpoints("other")[-2:] == ["step=16.ckpt", "step=20.ckpt"]


def test_a_checkpoint_is_not_written_again_between_the_batches_of_the_next_step(
    corpus: Path, run: Run
) -> None:
    unvalidated = {"trainer__limit_val_batches": 0, "trainer__accumulate_grad_batches": 2}
    assert run("fit", *settings(**unvalidated)) == 0
    kept = Path("run/checkpoints/step=8.ckpt")
    before = kept.read_bytes()
    more = settings(**unvalidated, trainer__max_steps=12)
    assert run("fit", *more, "--ckpt_path", "last") == 0
    assert kept.read_bytes() == before
    assert Path("run/checkpoints/step=12.ckpt").exists()


@pytest.mark.parametrize("name", ["step=4.ckpt", "best-step=4-*.ckpt"])
def test_a_run_does_not_go_back_in_its_own_folder(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run("fit", *settings(trainer__max_steps=8, training__lr=0.0)) == 0
    before = checkpoints("run")
    (earlier,) = map(str, Path("run/checkpoints").glob(name))
    capsys.readouterr()
    assert run("fit", *settings(), "--ckpt_path", earlier) == 2
    said = capsys.readouterr().err
    assert f"ckpt_path={earlier}: run=run has gone on since, to step 8" in said
    assert "begin another --run with --ckpt_path run/checkpoints/" in said
    assert checkpoints("run") == before


def test_a_run_goes_on_with_the_validation_that_its_best_model_was_chosen_by(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(**KEPT)) == 0
    before = checkpoints("run")
    Path("other.tgt").write_text(Path("test.tgt").read_text())
    others = {
        "data__validation__tgt": "other.tgt",
        "data__tgt_lang": "zh",
        "search__beam": 3,
        "trainer__limit_val_batches": 0,
    }
    for name, value in others.items():
        changed = settings(**KEPT, trainer__max_steps=12, **{name: value})
        capsys.readouterr()
        assert run("fit", *changed, "--ckpt_path", "last") == 2
        setting = name.replace("__", ".").removesuffix(".tgt")
        (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
        assert line.startswith(f"error: {setting} is not what it was")
        assert "begin another --run with --ckpt_path run/checkpoints/step=8.ckpt" in line
        assert checkpoints("run") == before
    # The same text elsewhere is no change; a run of its own begins with what it likes.
    shutil.copy("valid.tgt", "moved.tgt")
    moved = settings(**KEPT, trainer__max_steps=12, data__validation__tgt="moved.tgt")
    assert run("fit", *moved, "--ckpt_path", "last") == 0
    changed = settings(run="other", trainer__max_steps=12, search__beam=3)
    assert run("fit", *changed, "--ckpt_path", "run/checkpoints/step=8.ckpt") == 0


def test_a_run_that_begins_at_a_checkpoint_of_another_has_all_but_what_is_of_a_run_alone(
    tmp_path: Path,
) -> None:
    own, average, timer = Patience(3), ExponentialMovingAverage(0.9), Timer("00:01:00:00")
    added = EarlyStopping("val_ppl")
    trainer: Any = SimpleNamespace(callbacks=[own, average, timer, added], max_steps=-1)
    for path, left in (("run/checkpoints", trainer.callbacks), ("other", [average])):
        trainer.ckpt_path = tmp_path / path / "step=4.ckpt"
        states = {each.state_key: {"step": 4} for each in trainer.callbacks}
        branch, module = Branch(tmp_path / "run/checkpoints", [own]), cast(Any, None)
        branch.on_load_checkpoint(trainer, module, {"callbacks": states, "global_step": 4})
        assert list(states) == [each.state_key for each in left]


def test_a_run_that_validates_some_batches_goes_on_with_those(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    some = {"data__batch_tokens": 64, "trainer__limit_val_batches": 2}
    assert run("fit", *settings(**KEPT, **some)) == 0
    larger = settings(**KEPT, **{**some, "data__batch_tokens": 128}, trainer__max_steps=12)
    assert run("fit", *larger, "--ckpt_path", "last") == 2
    assert "error: data.batch_tokens is not what it was" in capsys.readouterr().err
    assert run("fit", *settings(**KEPT, **some, trainer__max_steps=12), "--ckpt_path", "last") == 0
    path = Path("run/checkpoints/step=12.ckpt")
    content = torch.load(path, weights_only=True)
    content["yardstick"]["the number of processes"] = 2
    torch.save(content, path)
    assert run("fit", *settings(**KEPT, **some, trainer__max_steps=16), "--ckpt_path", "last") == 2
    assert "error: the number of processes is not what it was" in capsys.readouterr().err
    # Of all batches the budget has no say.
    assert run("fit", *settings(**KEPT, run="all")) == 0
    larger = settings(**KEPT, run="all", data__batch_tokens=1024, trainer__max_steps=12)
    assert run("fit", *larger, "--ckpt_path", "last") == 0


def test_another_run_goes_on_from_a_checkpoint_and_chooses_from_its_own(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=12, **KEPT)) == 0
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    # Equal validations: none is better than the best until then.
    other = settings(run="other", trainer__max_steps=16, **{**KEPT, "training__lr": 0.0})
    assert run("fit", *other, "--ckpt_path", "run/checkpoints/step=8.ckpt") == 0
    assert [name for name in checkpoints("other") if name.startswith("s")] == [
        "step=12.ckpt",
        "step=16.ckpt",
    ]
    assert [row["steps"] for row in candidates("other")] == [[12], [12, 16]]
    assert Path("other/model/weights.safetensors").is_file()
    assert before == {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    # One that holds another run already is none to begin in.
    capsys.readouterr()
    assert run("fit", *other, "--ckpt_path", "run/checkpoints/step=12.ckpt") == 2
    assert "run=other already holds a run" in capsys.readouterr().err
