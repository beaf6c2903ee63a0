"""What a run leaves behind, and how it goes on."""

import fcntl
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
import torch
from small_runs import Run, metrics, settings

from seq2seq.apps.train_callbacks import LOGGED
from seq2seq.apps.train_parser import with_settings_of_run
from seq2seq.cli import main
from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.errors import ConfigError
from seq2seq.evaluation.metrics import bleu
from seq2seq.model_folder import load_model, save_model
from seq2seq.training import progress, throughput
from seq2seq.training.callbacks import Alone
from seq2seq.training.checkpoints import AtomicCheckpointIO
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.module import TranslationModule
from seq2seq.training.progress import ProgressBar, ProgressLines
from seq2seq.training.recipe import Recipe
from seq2seq.translator import Translator


def test_fit_leaves_config_logs_checkpoints_and_the_best_model(corpus: Path, run: Run) -> None:
    assert run("fit", *settings()) == 0
    folder = corpus / "run"
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml",
        "logs",
        "checkpoints",
        "model",
        "samples.txt",
        "candidates.jsonl",
        ".lock",
    }
    names = [path.name for path in (folder / "checkpoints").iterdir()]
    assert {"step=4.ckpt", "step=8.ckpt"} < set(names)
    assert any(name.startswith("best-step=") for name in names)
    logged = metrics(folder)
    for column in LOGGED:
        assert any(row[column] for row in logged), column
    assert logged[0].keys() == {*LOGGED, "epoch", "step"}
    assert list((folder / "logs" / "version_0").glob("events.out.tfevents.*"))
    load_model(folder)


def test_a_run_folder_has_one_fit_at_a_time(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def checkpoints() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (corpus / "run/checkpoints").iterdir()}

    assert run("fit", *settings(trainer__max_steps=4)) == 0
    before = checkpoints()
    lock = "f = open('run/.lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    code = f"import fcntl, sys; {lock}; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert run("fit", *settings(), "--ckpt_path", "last") == 2
        shutil.rmtree("run/model")  # with nothing left to train, a fit would choose one
        assert run("fit", *settings(trainer__max_steps=4), "--ckpt_path", "last") == 2
        assert not Path("run/model").exists()
        other.communicate()
    said = "error: run=run is being trained by another process; wait for it, or choose another"
    assert said in capsys.readouterr().err
    assert checkpoints() == before
    assert run("fit", *settings(), "--ckpt_path", "last") == 0


@pytest.mark.parametrize(
    ("error", "taken"),
    [(BlockingIOError(), True), (PermissionError(), True), (OSError("no locks"), False)],
)
def test_a_lock_of_another_keeps_all_processes_out_and_a_file_system_without_locks_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, taken: bool
) -> None:
    asked, said = list[TextIO](), list[bool]()
    module: Any = None

    def locked(file: TextIO, operation: int) -> None:
        asked.append(file)
        raise error

    def first_of_all(mine: bool) -> bool:
        said.append(mine)
        return said[0]

    monkeypatch.setattr(fcntl, "lockf", locked)
    for rank in (0, 1):
        alone = Alone(tmp_path / "runs/new")
        strategy = SimpleNamespace(broadcast=first_of_all)
        trainer: Any = SimpleNamespace(is_global_zero=rank == 0, strategy=strategy)
        with pytest.raises(ConfigError, match="runs/new is") if taken else nullcontext():
            alone.on_fit_start(trainer, module)
        if taken:
            alone.on_exception(trainer, module, ConfigError())
        else:
            alone.teardown(trainer, module, "fit")
    assert [file.closed for file in asked] == [True], "the first process asks for all"
    assert said == [taken, False]


def test_validate_tells_the_score_of_the_model_with_its_signature(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    assert run("fit", *settings(training__lr=0.01, trainer__max_steps=40)) == 0
    caplog.set_level("INFO")
    caplog.clear()
    assert run("validate", "--config", "run/config.yaml") == 0
    translator = Translator.load("run", SearchConfig(beam=2), device="cpu")
    lines, references = (Path(f"valid.{side}").read_text().splitlines() for side in ("src", "tgt"))
    score = bleu(translator.translate(lines), [references])
    assert score.value > 1
    said = re.search(r"^.*validation BLEU .*$", caplog.text, re.MULTILINE)
    assert said is not None
    assert f"validation BLEU {score.value:.2f}, perplexity " in said[0]
    assert "of a part" not in said[0]
    assert said[0].endswith(f"; BLEU {score.signature}")


def test_scores_of_test_and_lines_of_predict_and_translate_agree(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("fit", *settings()) == 0
    capsys.readouterr()
    lightning = logging.getLogger("pytorch_lightning")
    monkeypatch.setattr(lightning, "handlers", [*lightning.handlers, caplog.handler])
    assert run("test", "--config", "run/config.yaml") == 0
    assert "GPU available" in caplog.text
    assert "Tip" not in caplog.text  # Lightning advertises a library here
    assert "TPU" not in caplog.text
    shown = capsys.readouterr().out
    hypotheses = (corpus / "run/test/small.txt").read_text().splitlines()
    references = (corpus / "test.tgt").read_text().splitlines()
    assert f"small: {bleu(hypotheses, [references])}" in shown
    assert re.search(r"small: chrF2 \d+\.\d\d  nrefs:1\|case:mixed", shown)

    assert run("predict", "--run", "run") == 2
    assert "data.predict is not set; give --data.predict FILE" in capsys.readouterr().err
    assert run("predict", "--run", "run", "--data.predict", "rows.jsonl") == 2
    assert "rows.jsonl is not a text of one side" in capsys.readouterr().err
    assert run("predict", "--run=run", "--data.predict", "test.src") == 0
    rows = [
        json.loads(line) for line in (corpus / "run/predictions.jsonl").read_text().splitlines()
    ]
    assert [row["index"] for row in rows] == list(range(40))
    assert [row["translation"] for row in rows] == hypotheses
    assert all(row["score"] < 0 for row in rows)

    assert main(["translate", "run", "test.src", "--beam", "2", "--output", "out"]) == 0
    assert (corpus / "out").read_text().splitlines() == hypotheses

    Path("long.src").write_text("ba de\n" + "ba de gi fo. " * 100 + "\n")
    assert run("predict", "--config", "run/config.yaml", "--data.predict", "long.src") == 0
    assert "more than 256 subwords, which were split: 1" in caplog.text
    lines = (corpus / "run/predictions.jsonl").read_text().splitlines()
    assert main(["translate", "run", "long.src", "--beam", "2", "--output", "long"]) == 0
    said = [json.loads(line)["translation"] for line in lines]
    assert (corpus / "long").read_text().splitlines() == said

    drawn = ("--data.predict", "test.src", "--search.sampling.seed", "5")
    assert run("predict", "--config", "run/config.yaml", *drawn) == 0
    lines = (corpus / "run/predictions.jsonl").read_text().splitlines()
    samples = [json.loads(line)["translation"] for line in lines]
    assert samples != hypotheses
    assert main(["translate", "run", "test.src", "--sample", "--seed", "5", "--output", "out"]) == 0
    assert (corpus / "out").read_text().splitlines() == samples


def test_a_score_that_is_no_number_is_null_as_in_what_translate_writes(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    model = load_model("run")
    with torch.no_grad():
        model.network.output.weight.fill_(torch.finfo().max)  # too large to compute with
    save_model(model, Path("run/model"))
    assert run("predict", "--run", "run", "--data.predict", "test.src") == 0
    assert main(["translate", "run", "test.src", "--beam", "2", "--output", "out.jsonl"]) == 0
    for path in ("run/predictions.jsonl", "out.jsonl"):
        lines = Path(path).read_text().splitlines()
        rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
        assert [row["score"] for row in rows] == [None] * 40


def test_scores_are_those_of_translate_also_where_the_training_is_in_half_precision(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__precision="bf16-mixed")) == 0
    assert run("predict", "--run", "run", "--data.predict", "test.src") == 0
    rows = map(json.loads, Path("run/predictions.jsonl").read_text().splitlines())
    translator = Translator.load("run", SearchConfig(beam=2), device="cpu")
    found = translator.n_best(Path("test.src").read_text().splitlines())
    expected = [each.score for each, *_ in found]
    assert [row["score"] for row in rows] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_log_file_gets_lines_instead_of_a_bar(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    monkeypatch.setattr(ProgressLines, "SECONDS", seconds)
    assert run("fit", *settings(trainer__enable_progress_bar="true")) == 0
    steps = re.findall(r"step (\d+) of 8: loss \d+\.\d+, grad_norm .*, lr ", caplog.text)
    assert steps == ([] if seconds else [str(step) for step in range(1, 9)])
    assert "\r" not in capsys.readouterr().err


def test_a_bar_of_the_user_takes_the_place_of_ours(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgressLines, "SECONDS", 0)
    wanted = {"trainer__enable_progress_bar": "true", "trainer__callbacks": "[TQDMProgressBar]"}
    assert run("fit", *settings(**wanted)) == 0
    assert "of 8: loss" not in caplog.text


@pytest.mark.parametrize(("end", "where"), [(8, " of 8"), (-1, "")])
def test_a_line_a_minute_says_how_far_the_run_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: int, where: str
) -> None:
    caplog.set_level("INFO")
    seconds, module = 0, TranslationModule(ModelConfig(), Recipe(), SearchConfig())
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: seconds))
    trainer: Any = SimpleNamespace(max_steps=end)
    known = {"val_bleu": 7.5, "loss": 9.5, "grad_norm": 2e15, "lr": 1 / 3000}
    known["tokens_per_second"] = 123456.7
    trainer.callback_metrics = {name: torch.tensor(value) for name, value in known.items()}
    module.step_numbers = {"loss": torch.tensor(2.5)}
    lines = ProgressLines()
    lines.on_train_start(trainer, module)
    for step in range(1, 9):
        seconds, trainer.global_step = 25 * step, step
        lines.on_train_batch_end(trainer, module, None, None, step - 1)
    # After 75 seconds, and after the first step at 135 seconds or later.
    said = "loss 2.5, grad_norm 2e+15, lr 0.0003333, tokens_per_second 123,457"
    assert caplog.messages == [f"step {step}{where}: {said}" for step in (3, 6)]


def test_the_bar_shows_as_numbers_what_is_known() -> None:
    known = {"val_bleu": torch.tensor(7.5), "x": torch.tensor(1.0), "loss": torch.tensor(9.5)}
    trainer: Any = SimpleNamespace(callback_metrics=known)
    module = TranslationModule(ModelConfig(), Recipe(), SearchConfig())
    module.step_numbers = {"loss": torch.tensor(2.5)}
    shown = ProgressBar().get_metrics(trainer, module)
    assert str(shown) == "{'loss': 2.5, 'val_bleu': 7.5}"


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        ("test --run run", ["--config=run/config.yaml"]),
        ("validate --search.beam 3 --run=run", ["--config=run/config.yaml"]),
        ("test --run=-run", ["--config=-run/config.yaml"]),  # no flag of its own
        ("test --run run --config mine.yaml", []),
        ("test --run run -c mine.yaml", []),
        ("test --run none", []),
        ("test --run", []),
        ("test", []),
        ("fit --run run", []),
        ("fit --run run --ckpt_path last", ["--config=run/config.yaml"]),
        ("fit --run new --ckpt_path run/checkpoints/step=4.ckpt", []),
    ],
)
def test_a_run_that_is_named_brings_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, config: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path("run"), Path("-run")):
        folder.mkdir()
        (folder / "config.yaml").touch()
    verb, *rest = arguments.split()
    assert with_settings_of_run([verb, *rest]) == [verb, *config, *rest]


def test_a_fit_does_not_overwrite_a_run(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings()) == 0
    assert run("fit", *settings()) == 2
    assert "run=run already holds a run" in capsys.readouterr().err


def test_a_resumed_run_ends_with_the_weights_of_one_that_never_stopped(
    corpus: Path, run: Run
) -> None:
    carried = {
        "training__dropout__residual": 0.2,
        "training__dropout__attention": 0.2,
        "training__ema": 0.9,
    }
    assert run("fit", *settings(run="whole", **carried)) == 0
    assert run("fit", *settings(run="parts", trainer__max_steps=4, **carried)) == 0
    assert run("fit", *settings(run="parts", **carried), "--ckpt_path", "last") == 0
    whole, parts = (
        torch.load(corpus / name / "checkpoints/step=8.ckpt", weights_only=True)
        for name in ("whole", "parts")
    )
    average = "ExponentialMovingAverage"
    torch.testing.assert_close(whole["state_dict"], parts["state_dict"], rtol=0, atol=0)
    averages = whole["callbacks"][average], parts["callbacks"][average]
    torch.testing.assert_close(*averages, rtol=0, atol=0)
    for name in ("candidates.jsonl", "model/weights.safetensors"):
        assert (corpus / "whole" / name).read_bytes() == (corpus / "parts" / name).read_bytes()


def test_settings_win_over_the_checkpoints(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    changed = settings(training__lr=0.5, training__warmup_steps=0, training__schedule="linear")
    assert run("fit", *changed, "--ckpt_path", "last") == 0
    # Steps are counted from 1: at the sixth of eight, 2 / 8 of the peak are left.
    assert next(float(row["lr"]) for row in metrics(corpus / "run") if row["lr"]) == 0.125


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_first_step_after_a_change_has_the_new_rate(
    corpus: Path, run: Run, optimizer: str
) -> None:
    each = {"trainer__log_every_n_steps": 1, "training__optimizer": optimizer}
    assert run("fit", *settings(trainer__max_steps=4, training__lr=0.5, **each)) == 0
    changed = settings(training__lr=0.01, training__schedule="linear", **each)
    assert run("fit", *changed, "--ckpt_path", "last") == 0
    rates = [float(row["lr"]) for row in metrics(corpus / "run") if row["lr"]]
    assert rates == pytest.approx([0.01 * left / 4 for left in (3, 2, 1, 0)])


def test_a_run_without_validation_has_checkpoints_and_is_not_overwritten(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = ["--trainer.limit_val_batches", 0]
    blind = [*settings(trainer__max_steps=6), "--data.validation", "null", *limit]
    assert run("fit", *blind) == 0
    names = sorted(path.name for path in (corpus / "run/checkpoints").iterdir())
    assert names == ["step=4.ckpt", "step=6.ckpt"]
    assert run("fit", *blind, "--trainer.max_steps", 12, "--ckpt_path", "last") == 0
    validate = ["validate", "--run", "run", "--data.validation.src", "valid.src"]
    validate += ["--data.validation.tgt", "valid.tgt"]
    assert run(*validate) == 2
    assert "trainer.limit_val_batches=0, perhaps of the run" in capsys.readouterr().err
    assert run(*validate, "--trainer.limit_val_batches", "1.0") == 0
    for path in (corpus / "run/checkpoints").iterdir():
        path.unlink()
    assert run("fit", *blind) == 2
    assert "run=run already holds a model; choose another --run." in capsys.readouterr().err


def test_a_try_of_one_batch_leaves_the_run_folder_free(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__fast_dev_run="true")) == 0
    assert [path.name for path in Path("run").iterdir()] == [".lock"]
    assert run("fit", *settings(trainer__max_steps=1)) == 0


def test_dropped_pairs_are_counted_in_the_log(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with (corpus / "train.src").open("a") as src, (corpus / "train.tgt").open("a") as tgt:
        src.write("\nba\n" + "ba " * 30 + "\n")
        tgt.write("ba\n\n" + "ba " * 30 + "\n")
    with caplog.at_level("INFO"):
        assert run("fit", *settings(data__max_length=20, trainer__max_steps=1)) == 0
    assert "2000 of 2003 pairs; dropped 2 with an empty side and 1 longer" in caplog.text


def test_a_configuration_may_name_several_corpora_and_their_weights(
    corpus: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    (corpus / "small.tsv").write_text("ba de\tde ba\n" * 40)
    (corpus / "two.yaml").write_text("""
data:
  train:
    large: {src: train.src, tgt: train.tgt, weight: 1}
    small: {path: small.tsv, weight: 3}
""")
    others = settings(trainer__max_steps=1)
    for flag in ("--data.train.src", "--data.train.tgt"):
        place = others.index(flag)
        del others[place : place + 2]
    with caplog.at_level("INFO"):
        assert run("fit", "--config", "two.yaml", *others) == 0
    for name, pairs in (("large", 2000), ("small", 40)):
        assert f"training corpus {name}: {pairs} of {pairs} pairs" in caplog.text


def test_folded_and_fast_attention_learn_the_reverse_task_to_the_same_result(
    corpus: Path, run: Run
) -> None:
    sources = (corpus / "test.src").read_text().splitlines()
    references = (corpus / "test.tgt").read_text().splitlines()
    losses, scores = [], []
    for form in ("folded", "fast"):
        learned = settings(
            run=form,
            training__attention=form,
            training__lr=0.005,
            training__dropout__residual=0.0,
            training__warmup_steps=40,
            training__schedule="linear",
            model__d_model=64,
            model__ff_dim=128,
            trainer__max_steps=800,
            trainer__val_check_interval=800,
            trainer__precision="32-true",
            trainer__log_every_n_steps=10,
        )
        assert run("fit", *learned) == 0
        losses.append([float(row["loss"]) for row in metrics(corpus / form) if row["loss"]])
        hypotheses = Translator.load(form).translate(sources)
        scores.append(bleu(hypotheses, [references]).value)
    assert losses[0][:5] == pytest.approx(losses[1][:5], rel=1e-3)
    assert min(scores) > 95


def test_ctrl_c_before_the_first_step_has_its_status_and_claims_no_model(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: CorpusDataModule) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CorpusDataModule, "prepare_data", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        assert run("fit", *settings()) == 130
    finally:
        signal.signal(signal.SIGINT, before)  # Lightning ignores it from then on
    assert "interrupted after 0 steps" in caplog.text
    assert "model:" not in caplog.text
    assert capsys.readouterr().err.endswith("stopped.\n")


def test_ctrl_c_leaves_a_usable_model(corpus: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "seq2seq",
        "fit",
        *map(str, settings(trainer__max_steps=10**6)),
    ]
    fit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 100
    while not (corpus / "run/checkpoints/step=8.ckpt").exists():
        assert fit.poll() is None, fit.stdout and fit.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(fit.pid, signal.SIGINT)
    said, _ = fit.communicate(timeout=60)
    assert "Traceback" not in said
    assert "interrupted after" in said
    assert len(Translator.load("run").translate(["ba de", ""])) == 2


@pytest.mark.slow
def test_a_compiled_network_learns_the_same_from_one_graph_for_all_shapes(corpus: Path) -> None:
    """A graph for each kind of layer. The second one also tries the longest batch first, and a
    batch of one pair, which has graphs of its own; the third draws dropout in them."""
    same = {"trainer__precision": "32-true", "model__bias": "false", "model__heads": 16}
    weights = []
    for name, compiled, rate in (("a", "false", 0), ("b", "true", 0), ("c", "true", 0.1)):
        changes = {"run": name, "training__compile": compiled, "training__dropout__residual": rate}
        program = [str(Path(__file__).parent / "tried_first_fit.py")]
        begin = program if name == "b" else ["-m", "seq2seq"]
        command = [sys.executable, *begin, "fit", *map(str, settings(**same, **changes))]
        environment = {**os.environ, "TORCH_LOGS": "recompiles,graph_breaks"}
        said = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=600, env=environment
        )
        assert ("compiled" in said.stderr) == (compiled == "true")
        assert said.stderr.count("Recompiling") == 2 * (name == "b")
        assert "Graph break" not in said.stderr
        checkpoint = torch.load(f"{name}/checkpoints/step=8.ckpt", weights_only=True)
        weights.append(checkpoint["state_dict"])
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-3, atol=1e-4)


def test_a_reference_may_be_longer_than_the_positions_that_are_learned(
    corpus: Path, run: Run
) -> None:
    learned = settings(model__positions="learned", model__max_positions=40, trainer__max_steps=2)
    assert run("fit", *learned) == 0
    for side in ("src", "tgt"):
        Path(f"test.{side}").write_text("ba de " * 60 + "\n")
    assert run("test", "--config", "run/config.yaml") == 0


def test_the_rate_counts_no_time_in_which_a_run_begins_or_a_checkpoint_is_written(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes a second here, the beginning and a checkpoint an hour, all else no time."""
    clock = 0.0
    setup, step = TranslationModule.setup, TranslationModule.training_step
    save = AtomicCheckpointIO.save_checkpoint

    def slow_setup(self: TranslationModule, stage: str) -> None:
        nonlocal clock
        clock += 3600
        setup(self, stage)

    def slow_step(self: TranslationModule, *arguments: Any) -> Any:
        nonlocal clock
        clock += 1
        return step(self, *arguments)

    def slow_save(self: AtomicCheckpointIO, *arguments: Any, **named: Any) -> None:
        nonlocal clock
        clock += 3600
        save(self, *arguments, **named)

    monkeypatch.setattr(TranslationModule, "setup", slow_setup)
    monkeypatch.setattr(TranslationModule, "training_step", slow_step)
    monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", slow_save)
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock))
    assert run("fit", *settings(trainer__accumulate_grad_batches=2)) == 0
    rates = [
        float(row["tokens_per_second"]) for row in metrics(Path("run")) if row["tokens_per_second"]
    ]
    assert len(rates) == 4, "one for each interval of two steps"
    assert min(rates) > 0.5 * max(rates)


def test_some_batches_are_tested_and_predicted_on_their_own_lines(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__batch_tokens=64)) == 0
    capsys.readouterr()
    assert run("test", "--config", "run/config.yaml", "--trainer.limit_test_batches", "2") == 0
    told = json.loads(Path("run/test/small.json").read_text())
    assert 0 < len(told["references"]) < 40
    lines = Path("test.tgt").read_text().splitlines()
    assert set(told["references"]) <= set(lines)
    card = json.loads(Path("run/model/provenance.json").read_text())
    assert "test" not in {corpus["role"] for corpus in card["data"]}
    bleu_of_these = bleu(told["translations"], [told["references"]])
    assert f"small: {bleu_of_these}" in capsys.readouterr().out
    limit = ["--trainer.limit_predict_batches", "2"]
    assert run("predict", "--config", "run/config.yaml", "--data.predict", "test.src", *limit) == 0
    sources = Path("test.src").read_text().splitlines()
    rows = [json.loads(r) for r in Path("run/predictions.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < 40
    assert all(row["src"] == sources[row["index"]] for row in rows)
