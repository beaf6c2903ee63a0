"""What a run leaves behind, and how it goes on."""

import csv
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_runs import Run, settings
from torch import Tensor

from seq2seq.apps.train_parser import with_settings_of_run
from seq2seq.cli import main
from seq2seq.config import SearchConfig
from seq2seq.data.batch import Batch
from seq2seq.evaluation.metrics import bleu
from seq2seq.model_folder import load_model
from seq2seq.training import module, throughput
from seq2seq.training.callbacks import ProgressLines
from seq2seq.training.checkpoints import AtomicCheckpointIO, step_of
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.module import TranslationModule
from seq2seq.training.parts import positions
from seq2seq.translator import Translator


def metrics(run: Path) -> list[dict[str, str]]:
    """All rows of the newest CSV log."""
    newest = max((run / "logs").glob("version_*"), key=lambda path: int(path.name[8:]))
    with (newest / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


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
    for column in ("loss", "lr", "grad_norm", "tokens_per_second", "val_bleu", "val_ppl"):
        assert any(row[column] for row in logged), column
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
        other.communicate()
    said = "error: run=run is being trained by another process; wait for it, or choose another"
    assert said in capsys.readouterr().err
    assert checkpoints() == before
    assert run("fit", *settings(), "--ckpt_path", "last") == 0


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


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        ("test --run run", ["run/config.yaml"]),
        ("validate --search.beam 3 --run=run", ["run/config.yaml"]),
        ("test --run run --config mine.yaml", ["mine.yaml"]),
        ("test --run run -c mine.yaml", []),
        ("test --run none", []),
        ("test --run", []),
        ("test", []),
        ("fit --run run", []),
        ("fit --run run --ckpt_path last", ["run/config.yaml"]),
        ("fit --run new --ckpt_path run/checkpoints/step=4.ckpt", []),
    ],
)
def test_a_run_that_is_named_brings_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, config: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run/config.yaml").touch()
    words = with_settings_of_run(arguments.split())
    assert [words[i + 1] for i, word in enumerate(words) if word == "--config"] == config
    assert [word for word in words if word not in ("--config", *config)] == [
        word for word in arguments.split() if word not in ("--config", *config)
    ]


def test_a_test_set_without_spaces_and_without_a_tokenizer_is_warned_of(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    Path("test.tgt").write_text("彼は毎朝公園を走っています。\n" * 40)
    with pytest.warns(
        UserWarning, match=r"data\.test\.small: there are no spaces between the words"
    ):
        assert run("test", "--config", "run/config.yaml") == 0


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
    for path in (corpus / "run/checkpoints").iterdir():
        path.unlink()
    assert run("fit", *blind) == 2
    assert "run=run already holds a model; choose another --run." in capsys.readouterr().err


def test_a_changed_architecture_is_an_error_that_names_the_field(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    before = Path("run/config.yaml").read_text()
    assert run("fit", *settings(model__ff_dim=96), "--ckpt_path", "last") == 2
    assert "model.ff_dim=96 differs from 64" in capsys.readouterr().err
    assert Path("run/config.yaml").read_text() == before


def test_other_subwords_are_an_error_however_many_they_are(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    texts = [(corpus / name, (corpus / name).read_text()) for name in ("train.src", "train.tgt")]
    for letters in ("k", "zzz"):  # as many subwords, and more
        for path, text in texts:
            path.write_text(text.replace("b", letters))
        assert run("fit", *settings(), "--ckpt_path", "last") == 2
        assert "the subwords differ from the checkpoint's: data.train" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__d_model": 33}, "model.d_model=33 cannot be split into model.heads=2"),
        ({"training__schedule": "fast"}, "fast"),
        ({"model__colour": "red"}, "model.colour"),
        ({"data__train__src": "missing.src"}, "missing.src does not exist"),
        ({"data__train__src": "valid.src"}, "train.tgt has 2000 lines but valid.src has 40"),
        ({"data__cache": "train.src"}, "data.cache: train.src/digests cannot be written to"),
        ({"data__tgt_lang": "ja"}, "seq2seq-lightning[ja]"),
        ({"data__subwords__src_vocab_size": 70}, "data.subwords.src_vocab_size=70"),
        ({"model__positions": "learned", "model__max_positions": 4}, "model.max_positions=4"),
        ({"ckpt_path": "last"}, "ckpt_path=last"),
        ({"init_from": "nowhere"}, "nowhere does not exist"),
        ({"data__subwords_from": "nowhere"}, "nowhere does not exist"),
        ({"training__schedule": "linear", "trainer__max_steps": -1}, "trainer.max_steps=-1"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_one_line_that_names_it(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    message: str,
) -> None:
    # As without the extra [ja], also where it is installed.
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    try:
        status: object = run("fit", *settings(**changes))
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_what_is_wrong_with_the_validation_set_is_told_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__validation__src="missing.src")) == 2
    assert "missing.src does not exist" in capsys.readouterr().err
    assert not Path("cache").exists()


@pytest.mark.parametrize("missing", ["train", "validation"])
def test_a_corpus_that_is_not_given_is_named(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    (given,) = {"train", "validation"} - {missing}
    files = f"--data.{given}.src=train.src", f"--data.{given}.tgt=train.tgt"
    assert run("fit", *files, "--data.cache", "cache") == 2
    assert f"data.{missing} is not set; give --data.{missing}.src FILE" in capsys.readouterr().err


def test_a_configuration_that_is_no_text_is_one_line(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.yaml").write_bytes("run: français\n".encode("latin-1"))
    assert run("fit", "--config", "latin.yaml") == 2
    assert capsys.readouterr().err == (
        "error: latin.yaml is no UTF-8 text; expected YAML in UTF-8.\n"
    )


def test_a_mistake_in_a_configuration_is_told_with_its_file(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fine.yaml").write_text("training: {lr: 0.001}")
    for content, said in (
        ("data:\n  train: {src: [", "while parsing a flow node"),
        ("training: {lr: fast}", "training.lr"),
        ("nonsense", "nonsense"),
    ):
        Path("wrong.yaml").write_text(content)
        with pytest.raises(SystemExit, match="2"):
            run("fit", "--config", "fine.yaml", "--config", "wrong.yaml")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: wrong.yaml: ")
        assert said in line
        assert "unicode string" not in line


def test_one_matrix_for_two_vocabularies_is_refused_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__subwords__joint=False, model__tie="all")) == 2
    assert "model.tie=all shares one matrix" in capsys.readouterr().err
    assert not Path("cache").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("training: {dropout: 0.3}", "training.dropout=0.3 is no group of settings"),
        ("training: 3", "training=3 is no group of settings; expected e.g. training.lr: 0.001"),
        ("data: {subwords: 8000}", "data.subwords=8000 is no group"),
        ("data: {subword_sampling: 0.2}", "data.subword_sampling=0.2 is no group"),
        ("search: {diversity: 2}", "search.diversity=2 is no group"),
        ("model: 3", "model=3 is no group"),
    ],
)
def test_a_group_of_settings_that_is_one_value_is_named(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    Path("wrong.yaml").write_text(content)
    assert run("fit", "--config", "wrong.yaml") == 2
    assert f"error: {said}" in capsys.readouterr().err


def test_an_error_does_not_quote_a_whole_file(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("fit", "--data.train", "train.src")
    assert len(capsys.readouterr().err) < 800


HALF = "a corpus is src and tgt, or path alone; got src=a.en, tgt=None, path=None"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit --data.train.src a.en", f"data.train: {HALF}."),
        ("fit --data.validation.src a.en", f"data.validation: {HALF}."),
        ("fit --config half.yaml", f"data.train: {HALF}."),
        ("fit --config named.yaml", f"data.train.small: {HALF}."),
        (
            "fit --config whole.yaml --data.train.weight -1",
            "data.train: weight=-1.0 is no share; use a number above 0.",
        ),
        (
            "fit --config whole.yaml --data.train.path d.tsv",
            "data.train: a corpus is src and tgt, or path alone; got src=a.en, tgt=a.de, "
            "path=d.tsv; for a path instead of src and tgt set both to null.",
        ),
        (
            "fit --config whole.yaml --data.train.path d.tsv "
            "--data.train.src null --data.train.tgt null --trainer.limit_val_batches 0",
            "d.tsv does not exist.",
        ),
        (
            "test --data.test.x.src a.en",
            "--data.test.x.src alone is no corpus; give it as a whole: "
            "--data.test.x '{src: FILE, tgt: FILE}' (see: seq2seq test --help)",
        ),
        ("fit --search.sampling.temperature -1", "search.sampling.temperature=-1.0 is out of"),
        ("fit --model.deep 3", "(see: seq2seq fit --help)"),
    ],
)
def test_a_mistake_inside_a_setting_is_told_as_if_it_stood_alone(
    tmp_path: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, train in (
        ("half", "{src: a.en}"),
        ("named", "{large: {src: a.en, tgt: a.de}, small: {src: a.en}}"),
        ("whole", "{src: a.en, tgt: a.de}"),
    ):
        Path(f"{name}.yaml").write_text(f"data:\n  train: {train}\n")
    try:
        status: object = run(*arguments.split())
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line[:6] == "error:"]
    assert message in error


def test_the_suggested_form_of_a_named_corpus_works(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    suggested = ["--data.test.x", "{src: test.src, tgt: test.tgt}"]
    with pytest.raises(SystemExit) as stop:
        run("fit", *settings(), *suggested, "--print_config")
    assert stop.value.code == 0
    assert "src: test.src" in capsys.readouterr().out.split("\n    x:\n")[1].split("weight")[0]


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
def test_two_processes_train_together_and_test_like_one(corpus: Path) -> None:
    command = [sys.executable, "-m", "seq2seq"]
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    fit = [*command, "fit", *map(str, settings(**ddp))]
    subprocess.run(fit, check=True, capture_output=True, timeout=300)
    test = [*command, "test", "--config", "run/config.yaml"]
    alone = ["--trainer.devices", "1", "--trainer.strategy", "auto"]
    together = subprocess.run(test, check=True, capture_output=True, text=True, timeout=300).stdout
    single = subprocess.run(
        [*test, *alone], check=True, capture_output=True, text=True, timeout=300
    )
    scores = [line for line in together.splitlines() if line.startswith("small: ")]
    assert len(scores) == 2
    assert scores == [line for line in single.stdout.splitlines() if line.startswith("small: ")]


@pytest.mark.slow
def test_two_processes_learn_what_one_does_in_two_micro_batches_also_with_little_memory(
    corpus: Path,
) -> None:
    tight_fit = [str(Path(__file__).with_name("tight_fit.py"))]
    ways: dict[str, tuple[list[str], dict[str, object]]] = {
        "one": (["-m", "seq2seq"], {"trainer__accumulate_grad_batches": 2}),
        "two": (["-m", "seq2seq"], {"trainer__devices": 2, "trainer__strategy": "ddp"}),
        "tight": (tight_fit, {"trainer__devices": 2, "trainer__strategy": "ddp"}),
    }
    weights = {}
    for name, (program, changes) in ways.items():
        same = {"run": name, "training__dropout__residual": 0, "trainer__precision": "32-true"}
        same["model__bias"] = "false"  # that of keys has no gradient but rounding errors
        command = [sys.executable, *program, "fit", *map(str, settings(**changes, **same))]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        assert ("out of memory" in said.stderr) == (name == "tight")
        checkpoint = torch.load(f"{name}/checkpoints/step=8.ckpt", weights_only=True)
        weights[name] = checkpoint["state_dict"]
    for name in ("two", "tight"):
        torch.testing.assert_close(weights[name], weights["one"], rtol=1e-4, atol=1e-5)


def test_no_two_micro_batches_of_a_run_draw_alike(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = list[int]()
    step = TranslationModule.training_step

    def watched(self: TranslationModule, *arguments: Any) -> Tensor:
        loss = step(self, *arguments)
        draws.append(torch.initial_seed())
        return loss

    monkeypatch.setattr(TranslationModule, "training_step", watched)
    for rank in range(2):  # as processes of one run know themselves
        monkeypatch.setattr(TranslationModule, "global_rank", rank)
        fit = settings(run=f"rank{rank}", trainer__accumulate_grad_batches=2, trainer__max_steps=3)
        assert run("fit", *fit) == 0
    assert len(draws) == 12
    assert len(set(draws)) == 12


def test_a_step_in_micro_batches_is_that_of_one_batch(corpus: Path, run: Run) -> None:
    """Every target token has the same weight, however many are in its micro-batch."""
    weights, norms = [], []
    for name, accumulated in (("whole", 1), ("halves", 2)):  # short sentences, and long ones
        same = {"data__batch_tokens": 10**6, "training__dropout__residual": 0, "run": name}
        same |= {"trainer__precision": "32-true", "trainer__max_steps": 3, "model__bias": "false"}
        same |= {"trainer__log_every_n_steps": 1, "data__batch_pairs": 4096}
        fit = settings(**same, trainer__accumulate_grad_batches=accumulated)
        assert run("fit", *fit) == 0
        checkpoint = torch.load(f"{name}/checkpoints/step=3.ckpt", weights_only=True)
        weights.append(checkpoint["state_dict"])
        logged = metrics(corpus / name)
        norms.append(
            {
                (name, row["step"]): float(row[name])
                for row in logged
                for name in ("loss", "grad_norm")
                if row[name]
            }
        )
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)
    assert len(norms[0]) == 6
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


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
    found = sorted(int(path.stem[5:]) for path in Path("run/checkpoints").glob("step=*.ckpt"))
    assert found == steps
    rows = [json.loads(line) for line in Path("run/candidates.jsonl").read_text().splitlines()]
    assert all(set(row["steps"]) <= set(steps) for row in rows)


def test_the_last_epoch_ends_with_a_validation(corpus: Path, run: Run) -> None:
    epochs = {"trainer__max_steps": -1, "trainer__max_epochs": 2}
    assert run("fit", *settings(**epochs, trainer__val_check_interval=10**6)) == 0
    (only,) = Path("run/checkpoints").glob("step=*.ckpt")
    steps = [int(row["step"]) for row in metrics(Path("run")) if row["loss"]]
    assert int(only.stem[5:]) >= max(steps) > 8


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


@pytest.mark.parametrize("room", [3_000, 30_000, 100_000])
def test_a_full_disk_is_one_line(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], room: int
) -> None:
    """No file may be larger than `room` bytes: that of the subwords, a checkpoint, the model."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        status = run("fit", *settings())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert status == 2
    assert re.search(r"^error: .*File too large.*$", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training__betas": "[0.9,1.0]"}, r"training\.betas=\[0\.9, 1\.0\] are no decay rates"),
        ({"seed_everything": -5}, r"seed_everything=-5"),
        ({"trainer__val_check_interval": 0.5}, r"val_check_interval"),
        ({"trainer__strategy": "nonsense"}, r"nonsense"),
        ({"seed_everything": 2**32}, r"seed_everything=4294967296"),
        ({"trainer__log_every_n_steps": 0}, r"trainer\.log_every_n_steps=0"),
        ({"trainer__accumulate_grad_batches": 0}, r"trainer\.accumulate_grad_batches=0"),
        ({"trainer__val_check_interval": 0}, r"trainer\.val_check_interval=0"),
        ({"trainer__val_check_interval": "00:00:00:01"}, r"trainer\.val_check_interval=.* steps"),
        ({"trainer__overfit_batches": 2}, r"trainer\.overfit_batches=2"),
        ({"trainer__precision": "bf16-true"}, r"trainer\.precision=bf16-true .*use bf16-mixed"),
        ({"trainer__precision": "16-true"}, r"trainer\.precision=16-true .*use 16-mixed"),
        ({"trainer__reload_dataloaders_every_n_epochs": 1}, r"reload_dataloaders_every_n_epochs=1"),
        (
            {"training__ema": 0.9, "trainer__limit_val_batches": 0},
            r"training\.ema=0\.9 .*limit_val_batches=0",
        ),
        ({"trainer__gradient_clip_val": -1}, r"trainer\.gradient_clip_val=-1"),
        ({"trainer__gradient_clip_algorithm": "value"}, r"gradient_clip_algorithm=value"),
        ({"run": "train.src"}, r"train\.src"),
        ({"run": ""}, r"run='' is empty"),
        (
            {"data__subwords__joint": "false"},
            r"model\.tie=all .* data\.subwords\.joint=true, or model\.tie=target-output",
        ),
        (
            {"trainer__limit_train_batches": 5, "trainer__accumulate_grad_batches": 2},
            r"limit_train_batches=5 .*accumulate_grad_batches=2",
        ),
        (
            {"trainer__limit_train_batches": 0.5, "trainer__accumulate_grad_batches": 2},
            r"limit_train_batches=0\.5 .*accumulate_grad_batches=2",
        ),
        ({"run": "train.src/x"}, r"train\.src"),
        (
            {"trainer__max_time": "00:00:01:00", "trainer__accumulate_grad_batches": 2},
            r"trainer\.max_time=.* trainer\.accumulate_grad_batches=2",
        ),
        (
            {"trainer__check_val_every_n_epoch": 1, "trainer__val_check_interval": 300},
            r"val_check_interval=300 counts steps; .*n_epoch=1 it is a share",
        ),
        ({"trainer__use_distributed_sampler": "true"}, r"use_distributed_sampler=True"),
        ({"trainer__devices": "5,6"}, r"devices"),
        ({"data__test": "{a/b: {src: test.src, tgt: test.tgt}}"}, r"data\.test\.a/b: .* slash"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_one_line(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    said: str,
) -> None:
    assert run("fit", *settings(**changes)) == 2
    error = capsys.readouterr().err
    assert re.search(rf"(?m)^error: .*{said}", error)
    assert "Traceback" not in error


def test_a_reference_may_be_longer_than_the_positions_that_are_learned(
    corpus: Path, run: Run
) -> None:
    learned = settings(model__positions="learned", model__max_positions=40, trainer__max_steps=2)
    assert run("fit", *learned) == 0
    for side in ("src", "tgt"):
        Path(f"test.{side}").write_text("ba de " * 60 + "\n")
    assert run("test", "--config", "run/config.yaml") == 0


def test_the_rate_counts_no_time_in_which_a_checkpoint_is_written(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes a second here, a checkpoint an hour, and everything else no time."""
    clock = 0.0
    step, save = TranslationModule.training_step, AtomicCheckpointIO.save_checkpoint

    def slow_step(self: TranslationModule, *arguments: Any) -> Any:
        nonlocal clock
        clock += 1
        return step(self, *arguments)

    def slow_save(self: AtomicCheckpointIO, *arguments: Any, **named: Any) -> None:
        nonlocal clock
        clock += 3600
        save(self, *arguments, **named)

    monkeypatch.setattr(TranslationModule, "training_step", slow_step)
    monkeypatch.setattr(AtomicCheckpointIO, "save_checkpoint", slow_save)
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock))
    assert run("fit", *settings(trainer__accumulate_grad_batches=2)) == 0
    rates = [
        float(row["tokens_per_second"]) for row in metrics(Path("run")) if row["tokens_per_second"]
    ]
    assert len(rates) == 4, "one for each interval of two steps"
    assert min(rates) > 0.5 * max(rates)


def test_a_validation_batch_beyond_the_memory_is_halved_until_it_fits(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = TranslationModule._whole_validation_loss

    def tight(self: TranslationModule, batch: Batch) -> Tensor:
        if len(batch.src) > 9:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, batch)

    assert run("fit", *settings(run="free")) == 0
    monkeypatch.setattr(TranslationModule, "_whole_validation_loss", tight)
    assert run("fit", *settings(run="tight")) == 0
    free, halved = (
        [float(row["val_ppl"]) for row in metrics(Path(name)) if row.get("val_ppl")]
        for name in ("free", "tight")
    )
    assert halved == pytest.approx(free, rel=1e-5)
    monkeypatch.setattr(TranslationModule, "_whole_validation_loss", no_memory)
    assert run("fit", *settings(run="none")) == 2


@pytest.mark.filterwarnings("ignore:out of memory")
def test_what_fits_is_found_out_before_the_first_step_on_a_gpu(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, step, loss = (
        TranslationModule.on_train_start,
        TranslationModule.training_step,
        TranslationModule._training_loss,
    )
    limits: list[int | None] = []

    def on_train_start(self: TranslationModule) -> None:
        begin(self)
        self._try_longest()
        assert all(parameter.grad is None for parameter in self.parameters())

    def training_step(self: TranslationModule, *arguments: Any) -> Tensor:
        limits.append(self.parts.limit)
        return step(self, *arguments)

    def tight(self: TranslationModule, batch: Batch, unit: float = 1.0) -> Tensor:
        if positions(batch) > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(self, batch, unit)

    for name, patched in (
        ("on_train_start", on_train_start),
        ("training_step", training_step),
        ("_training_loss", tight),
    ):
        monkeypatch.setattr(TranslationModule, name, patched)
    assert run("fit", *settings()) == 0
    assert len(set(limits)) == 1, "and no step ran out of memory"
    assert limits[0] is not None
    assert 50 < limits[0] <= 100


def no_memory(*_: object) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory")


def validated_after(run: str = "run") -> list[int]:
    """So many steps; the log counts them from 0."""
    return [int(row["step"]) + 1 for row in metrics(Path(run)) if row.get("val_bleu")]


@pytest.mark.parametrize("bounds", [{"trainer__min_epochs": 5}, {"trainer__min_steps": 20}])
def test_the_last_step_is_validated_and_kept_whatever_was_to_be_reached(
    corpus: Path, run: Run, bounds: dict[str, object]
) -> None:
    assert run("fit", *settings(trainer__max_steps=6, **bounds)) == 0
    assert max(step_of(path) for path in Path("run/checkpoints").glob("step=*.ckpt")) == 6
    assert validated_after() == [4, 6]


def test_a_try_of_one_batch_leaves_the_run_folder_free(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__fast_dev_run="true")) == 0
    assert not Path("run/model").exists()
    assert run("fit", *settings(trainer__max_steps=1)) == 0


def test_no_epoch_is_no_step(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__max_steps=-1, trainer__max_epochs=0)) == 0
    assert not list(Path("run").glob("checkpoints/*"))


@pytest.mark.slow
def test_one_device_learns_the_same_with_a_strategy_for_several(corpus: Path) -> None:
    weights = []
    for strategy in ("auto", "ddp"):
        chosen = settings(run=strategy, trainer__strategy=strategy, trainer__devices=1)
        command = [sys.executable, "-m", "seq2seq", "fit", *map(str, chosen)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        checkpoint = torch.load(f"{strategy}/checkpoints/step=8.ckpt", weights_only=True)
        weights.append(checkpoint["state_dict"])
    torch.testing.assert_close(weights[1], weights[0], rtol=0, atol=0)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"data__train__src": "missing.src"}, "missing.src does not exist"),
        ({"data__subwords__src_vocab_size": 3}, "data.subwords"),
    ],
)
def test_a_mistake_that_one_of_two_processes_finds_is_told_without_a_traceback(
    corpus: Path, wrong: dict[str, object], said: str
) -> None:
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    fit = [sys.executable, "-m", "seq2seq", "fit", *map(str, settings(**ddp, **wrong))]
    done = subprocess.run(fit, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_processes_that_choose_unlike_precisions_are_told_to_be_given_one(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "gathered", lambda own: [own, "bf16-mixed"])
    assert run("fit", *settings(trainer__precision="bf16-mixed", trainer__max_steps=1)) == 0
    assert run("fit", *settings(trainer__precision="32-true", run="other")) == 2
    said = "the processes have chosen 32-true and bf16-mixed"
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_sentence_that_only_one_of_two_processes_sees_may_be_of_any_length(corpus: Path) -> None:
    for side in ("src", "tgt"):
        for name in ("train", "valid"):
            with Path(f"{name}.{side}").open("a") as file:
                file.write(" ".join(["ba", "de"] * 150) + "\n")
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp", "trainer__max_steps": 30}
    long = {"data__max_length": 400, "trainer__val_check_interval": 5}
    fit = [sys.executable, "-m", "seq2seq", "fit", *map(str, settings(**ddp, **long))]
    done = subprocess.run(fit, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.filterwarnings("ignore:.*pin_memory")
@pytest.mark.parametrize(("positions", "status"), [(8, 0), (7, 2)])
def test_learned_positions_must_hold_what_batches_are_filled_up_to(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    positions: int,
    status: int,
) -> None:
    monkeypatch.setattr(CorpusDataModule, "_on_gpu", property(lambda self: True))
    learned = {"model__positions": "learned", "model__max_positions": positions}
    words = {"data__subwords__src_vocab_size": 400, "data__subwords__tgt_vocab_size": 400}
    changes = {**learned, **words, "trainer__max_steps": 2, "data__workers": 0}
    assert run("fit", *settings(**changes)) == status
    if status:
        assert "of 8 subwords" in capsys.readouterr().err
