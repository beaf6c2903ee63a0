"""The model that a finished run keeps is the best of its candidates."""

import json
import math
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_runs import Run, settings
from torch import Tensor

from seq2seq.cli import main
from seq2seq.config import SearchConfig
from seq2seq.evaluation.metrics import bleu
from seq2seq.model_folder import CONFIG, load_model, save_model
from seq2seq.sentence import Sentence
from seq2seq.training.callbacks import BestModelFolder
from seq2seq.training.checkpoints import FOLDER
from seq2seq.training.choice import ModelChoice
from seq2seq.training.module import TranslationModule
from seq2seq.training.quality import Quality
from seq2seq.translator import Translator

Weights = dict[str, Tensor]
STILL = {  # every validation gives the same BLEU: the first two are the best, the last two the last
    "training__lr": 0.0,
    "training__ema": 0.9,
    "training__keep_last": 2,
    "training__keep_best": 2,
    "trainer__max_steps": 12,
}


def table(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "candidates.jsonl").read_text().splitlines()]


def weights_of(model: str | Path) -> Weights:
    return {n: p.detach().clone() for n, p in load_model(model).network.named_parameters()}


def measured(model: str | Path) -> float:
    """Validation BLEU of a model folder, from its text."""
    translator = Translator.load(model, SearchConfig(beam=2), device="cpu")
    hypotheses = translator.translate(Path("valid.src").read_text().splitlines())
    return bleu(hypotheses, [Path("valid.tgt").read_text().splitlines()]).value


def apart(weights: Weights, sign: int, seed: int = 1) -> Weights:
    """Far from `weights`; those of sign 1 and of sign -1 have them as their mean."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: each + sign * torch.randn(each.shape, generator=generator)
        for name, each in weights.items()
    }


def plant(path: Path, chosen: Weights, **states: Any) -> None:
    """Other weights in a checkpoint, and other values in the states of its callbacks; what it was
    validated on is not known any more."""
    content = torch.load(path, weights_only=True)
    content["yardstick"] = {}
    tied = chosen["src_embedding.weight"]
    for name in content["state_dict"]:
        content["state_dict"][name] = chosen.get(name.removeprefix("network."), tied)
    for state in content["callbacks"].values():
        state.update({name: value for name, value in states.items() if name in state})
        if state.get("monitor") == "val_bleu":
            state["best_k_models"] = {
                name: states.get("best_model_score", score)
                for name, score in state["best_k_models"].items()
            }
    torch.save(content, path)


class Watched(BestModelFolder):
    """Tells when it would write the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, cast(Any, None))
        self.saved = list[tuple[int, Quality | None]]()

    def _save(self, trainer: Any, module: Any) -> None:
        self.saved.append((trainer.global_step, self.best))


def test_the_folder_is_written_at_each_validation_that_is_better_than_all_before(
    tmp_path: Path,
) -> None:
    stored, module = Watched(tmp_path), cast(Any, None)
    measured = [(9, 8), (0, 50), (0, 40), (3, 20), (3, 20), (3, math.nan), (2, 8), (3, 9), (4, 90)]
    for step, (score, perplexity) in enumerate(measured):
        trainer: Any = SimpleNamespace(
            sanity_checking=step == 0,  # before the training
            global_step=step,
            callback_metrics={
                "val_bleu": torch.tensor(float(score)),
                "val_ppl": torch.tensor(float(perplexity)),
            },
        )
        stored.on_validation_end(trainer, module)
    assert stored.saved == [(step, measured[step]) for step in (1, 2, 3, 7, 8)]


@pytest.mark.parametrize(
    ("error", "bleu", "step", "written"),
    [
        (None, None, 1, True),
        (None, 2.5, 9, False),
        (KeyboardInterrupt(), None, 1, True),
        (SystemExit(143), None, 1, True),
        (KeyboardInterrupt(), None, 0, False),
        (KeyboardInterrupt(), 2.5, 9, False),
        (ValueError(), None, 1, False),
    ],
)
def test_where_no_validation_has_chosen_a_model_that_of_the_last_step_is_written(
    tmp_path: Path, error: BaseException | None, bleu: float | None, step: int, written: bool
) -> None:
    stored, module = Watched(tmp_path), cast(Any, None)
    stored.best = best = None if bleu is None else Quality(bleu, 9.0)
    trainer: Any = SimpleNamespace(global_step=step)
    if error is None:
        stored.on_fit_end(trainer, module)
    else:
        stored.on_exception(trainer, module, error)
    assert stored.saved == [(step, best)] * written


PLACES = {
    "best checkpoint": [4],
    "mean of the last 2 checkpoints": [8, 12],
    "mean of the best 2 checkpoints": [4, 8],
    "moving average": [12],
}


def test_the_best_of_the_candidates_is_kept_whichever_it_is(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(**STILL)) == 0
    good = weights_of("run")
    bad, plus, minus = apart(good, 1, seed=2), apart(good, 1), apart(good, -1)
    translator = Translator.load("run", SearchConfig(beam=2), device="cpu")
    lines = translator.translate(Path("valid.src").read_text().splitlines())
    Path("valid.tgt").write_text("".join(f"{line}\n" for line in lines))
    first, second = sorted(Path("run/checkpoints").glob("best-*.ckpt"))
    third, fourth = (Path(f"run/checkpoints/step={step}.ckpt") for step in (8, 12))

    for winner in PLACES:
        single, last, best, averaged = (name == winner for name in PLACES)
        plant(first, good if single else plus if best else bad)
        plant(second, minus if best else bad)
        plant(third, plus if last else bad)
        known = 100.0 if single else 1.0
        plant(
            fourth,
            minus if last else bad,
            weights=good if averaged else bad,
            best=known,  # of BestModelFolder
            perplexity=math.inf,
            best_model_score=torch.tensor(known),  # of the best checkpoints
        )
        planted = {path: path.read_bytes() for path in Path("run/checkpoints").iterdir()}
        assert main(["average", "run", "--checkpoints", str(third), "--output", "other"]) == 0
        shutil.rmtree("run/model")
        shutil.move("other", "run/model")
        worse = {"model": "of an earlier session", "steps": [], "val_bleu": 50.0, "kept": True}
        Path("run/candidates.jsonl").write_text(json.dumps(worse))

        # Nothing is left to train, only to choose.
        assert run("fit", *settings(**STILL), "--ckpt_path", "last") == 0
        rows = table(corpus / "run")
        assert {row["model"]: row["steps"] for row in rows} == PLACES
        assert [row["model"] for row in rows if row["kept"]] == [winner]
        assert max(rows, key=lambda row: row["val_bleu"])["model"] == winner
        torch.testing.assert_close(weights_of("run"), good)
        assert measured("run") == pytest.approx(100)
        assert planted == {path: path.read_bytes() for path in Path("run/checkpoints").iterdir()}


@pytest.mark.parametrize(("score", "stays"), [(50.0, True), (-0.5, False)])
def test_a_run_that_goes_on_after_its_end_has_the_model_that_it_kept_until_there_is_a_better_one(
    corpus: Path, run: Run, score: float, stays: bool
) -> None:
    """What it goes on with is no good, but better than all checkpoints before."""
    assert run("fit", *settings(**STILL)) == 0
    kept = {**table(corpus / "run")[1], "val_bleu": score, "kept": True}
    Path("run/candidates.jsonl").write_text(json.dumps(kept))
    good, none = weights_of("run"), torch.tensor(-1.0)
    plant(
        Path("run/checkpoints/step=12.ckpt"),
        apart(good, 1),
        best=-1.0,
        perplexity=math.inf,
        best_model_score=none,
    )
    more = settings(**{**STILL, "trainer__max_steps": 16})
    assert run("fit", *more, "--ckpt_path", "last") == 0
    rows = [row for row in table(corpus / "run") if row["steps"] == kept["steps"]]
    assert rows == ([kept] if stays else [])
    assert all(each.equal(good[name]) == stays for name, each in weights_of("run").items())


@pytest.mark.parametrize(("kept", "saved"), [(None, True), (0.5, True), (2.0, False)])
def test_a_run_that_goes_on_writes_each_model_that_is_better_than_the_one_that_it_kept(
    tmp_path: Path, kept: float | None, saved: bool
) -> None:
    stored, none = Watched(tmp_path / "model"), cast(Any, None)
    table = tmp_path / "candidates.jsonl"
    if kept is not None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / CONFIG).touch()
        rows = [(9.0, False), (kept, True)]
        named = [
            {"model": "a", "steps": [], "val_bleu": bleu, "kept": is_it} for bleu, is_it in rows
        ]
        table.write_text("\n".join(map(json.dumps, named)))
    trainer: Any = SimpleNamespace(
        ckpt_path=tmp_path / FOLDER / "step=4.ckpt",
        strategy=SimpleNamespace(broadcast=lambda known: known),
        is_global_zero=True,
        sanity_checking=False,
        global_step=5,
        callback_metrics={"val_bleu": torch.tensor(1.0), "val_ppl": torch.tensor(9.0)},
    )
    choice, checkpoint = ModelChoice(table, stored, none, none, None), {"global_step": 4}
    choice.on_load_checkpoint(trainer, none, checkpoint)
    stored.on_validation_end(trainer, none)
    assert stored.saved == [(5, (1.0, 9.0))] * saved


def test_a_model_that_was_taken_away_is_chosen_anew(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(**STILL)) == 0
    kept = {**table(corpus / "run")[1], "val_bleu": 50.0, "kept": True}
    Path("run/candidates.jsonl").write_text(json.dumps(kept))
    shutil.rmtree("run/model")
    more = settings(**{**STILL, "trainer__max_steps": 16})
    assert run("fit", *more, "--ckpt_path", "last") == 0
    assert weights_of("run")
    assert kept not in table(corpus / "run")


def test_the_table_holds_what_the_models_score_and_the_best_of_them_is_the_model(
    corpus: Path, run: Run
) -> None:
    learned = settings(
        training__lr=0.01,
        training__ema=0.9,
        training__keep_best=2,
        training__warmup_steps=20,
        trainer__max_steps=90,
        trainer__val_check_interval=30,
        trainer__precision="32-true",
    )
    assert run("fit", *learned) == 0
    rows = table(corpus / "run")
    for arguments in (["--best", "1"], ["--last", "3"], ["--best", "2"]):
        assert main(["average", "run", *arguments, "--output", "".join(arguments)[2:]]) == 0
    model = load_model("run")
    average = torch.load("run/checkpoints/step=90.ckpt", weights_only=True)["callbacks"]
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            parameter.copy_(average["ExponentialMovingAverage"]["weights"][name])
    save_model(model, Path("moving"))
    models = ["best1", "last3", "best2", "moving"]
    scores = [measured(model) for model in models]
    assert [row["val_bleu"] for row in rows] == pytest.approx(scores, abs=1e-4)
    assert len(set(scores)) == 4
    kept = scores.index(max(scores))
    assert [row["kept"] for row in rows] == [place == kept for place in range(4)]
    assert_same(weights_of("run"), weights_of(models[kept]))


def test_a_best_model_whose_checkpoint_is_damaged_or_gone_stays_in_its_folder(
    corpus: Path, run: Run
) -> None:
    def model() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in Path("run/model").iterdir()}

    assert run("fit", *settings(**STILL)) == 0
    before, known = model(), table(corpus / "run")[0]
    best = next(Path("run/checkpoints").glob("best-step=4-*.ckpt"))
    best.write_bytes(b"cut short")
    for score in (known["val_bleu"], known["val_bleu"] + 1):
        assert run("fit", *settings(**STILL), "--ckpt_path", "last") == 0
        first, *_ = table(corpus / "run")
        assert first == {
            "model": "best checkpoint",
            "steps": [],
            "val_bleu": score,
            "val_ppl": known["val_ppl"],
            "kept": True,
        }
        assert model() == before
        # That of step 8 is whole, but not as good.
        best.unlink(missing_ok=True)
        better = known["val_bleu"] + 1
        plant(Path("run/checkpoints/step=12.ckpt"), weights_of("run"), best=better)


@pytest.mark.parametrize("limit", [2, 0.5])
def test_candidates_are_scored_as_in_a_validation_of_some_batches_and_low_precision(
    corpus: Path, run: Run, limit: float, caplog: pytest.LogCaptureFixture
) -> None:
    part = {"data__batch_tokens": 64, "trainer__limit_val_batches": limit}
    assert run("fit", *settings(**STILL, **part, trainer__precision="bf16-mixed")) == 0
    validations = re.findall("^.*validation BLEU .*perplexity.*$", caplog.text, re.MULTILINE)
    assert validations
    assert all(said.endswith(", of a part of the set") for said in validations)
    rows = table(corpus / "run")  # the first is that of a validation
    scores, perplexities = ([row[name] for row in rows] for name in ("val_bleu", "val_ppl"))
    assert scores == [scores[0]] * 4
    assert perplexities == pytest.approx([perplexities[0]] * 4)
    assert scores[0] > 0
    assert measured("run") != pytest.approx(scores[0], rel=1e-3)


def test_candidates_are_translated_as_in_a_validation(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its precision, and by the lines that samples are drawn for."""
    seen, translate = [], Translator.translate

    def noted(self: Translator, sentences: list[Sentence]) -> list[str]:
        seen.append((torch.is_autocast_enabled("cpu"), [each.number for each in sentences]))
        return translate(self, sentences)

    monkeypatch.setattr(Translator, "translate", noted)
    part = {"data__batch_tokens": 64, "trainer__limit_val_batches": 2}
    assert run("fit", *settings(**STILL, **part, trainer__precision="bf16-mixed")) == 0
    *validations, a, b, c, d, e, f = seen  # of three candidates
    assert [a, b] == [c, d] == [e, f] == validations[:2]
    assert a[0]
    assert {*a[1], *b[1]} < set(range(40))


def test_same_models_are_scored_once_damaged_ones_never_and_an_average_may_begin_later(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    assert [row["model"] for row in table(corpus / "run")] == ["best checkpoint"]
    # No step is left, and an average that has seen none is no candidate.
    again = settings(trainer__max_steps=4, training__ema=0.9)
    assert run("fit", *again, "--ckpt_path", "last") == 0
    assert [row["model"] for row in table(corpus / "run")] == ["best checkpoint"]
    # Now the last two are the best two.
    assert run("fit", *settings(training__ema=0.9), "--ckpt_path", "last") == 0
    names = ["best checkpoint", "mean of the last 2 checkpoints", "moving average"]
    assert [row["model"] for row in table(corpus / "run")] == names
    newest = torch.load("run/checkpoints/step=8.ckpt", weights_only=True)
    assert newest["callbacks"]["ExponentialMovingAverage"]["steps"] == 4
    # Of the last two one is no more, so the best two are scored.
    Path("run/checkpoints/step=4.ckpt").write_bytes(b"cut short")
    assert run("fit", *settings(training__ema=0.9), "--ckpt_path", "last") == 0
    names[1] = "mean of the best 2 checkpoints"
    assert [row["model"] for row in table(corpus / "run")] == names


def test_candidates_are_scored_as_in_a_validation_also_on_lines_that_are_split(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(run="learned", training__lr=0.01, trainer__max_steps=40)) == 0
    words = random.Random(1).choices(Path("valid.src").read_text().split(), k=300)
    for side, order in (("src", 1), ("tgt", -1)):
        with Path(f"valid.{side}").open("a") as file:
            file.write(" ".join(words[::order]) + "\n")
    assert run("fit", *settings(**STILL, init_from="learned")) == 0
    known, *others = (row["val_bleu"] for row in table(corpus / "run"))
    assert known > 0.5
    assert others == pytest.approx([known] * 3)


def test_a_mean_is_of_the_checkpoints_that_are_left(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = TranslationModule.on_validation_start

    def deleting(self: TranslationModule) -> None:
        begin(self)
        if self.global_step == 12:
            Path("run/checkpoints/step=4.ckpt").unlink()
            Path("run/checkpoints/step=8.ckpt").unlink()

    monkeypatch.setattr(TranslationModule, "on_validation_start", deleting)
    assert run("fit", *settings(trainer__max_steps=16)) == 0
    rows = {row["model"]: row["steps"] for row in table(corpus / "run")}
    assert rows["mean of the last 2 checkpoints"] == [12, 16]


def test_a_run_that_finds_nothing_left_to_do_scores_nothing_again(
    corpus: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert run("fit", *settings(**STILL)) == 0
    files = Path("run/candidates.jsonl"), Path("run/model/weights.safetensors")
    kept = [path.read_bytes() for path in files]
    chosen = caplog.messages[-1]
    assert chosen.startswith("model: run/model (best checkpoint, ")
    monkeypatch.setattr(Translator, "translate", None)
    assert run("fit", *settings(**STILL), "--ckpt_path", "last") == 0
    assert caplog.messages.count(chosen) == 2
    assert [path.read_bytes() for path in files] == kept


@pytest.mark.slow
def test_two_processes_score_as_one_where_the_first_alone_has_the_checkpoints(
    corpus: Path,
) -> None:
    chosen = settings(
        training__lr=0.01, training__ema=0.9, trainer__max_steps=40, trainer__precision="32-true"
    )
    script = Path(__file__).with_name("fit_of_two_machines.py")
    fit = ["fit", *map(str, chosen)]
    two = [sys.executable, str(script), *fit, "--trainer.devices", "2", "--trainer.strategy", "ddp"]
    subprocess.run(two, check=True, capture_output=True, timeout=300)
    together, kept = table(corpus / "run"), weights_of("run")
    Path("run/candidates.jsonl").unlink()  # so that they are scored again
    one = [sys.executable, "-m", "seq2seq", *fit, "--ckpt_path", "last"]
    subprocess.run(one, check=True, capture_output=True, timeout=300)
    assert table(corpus / "run") == together
    assert len(together) > 2
    assert_same(weights_of("run"), kept)


def assert_same(one: Weights, other: Weights) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0)
