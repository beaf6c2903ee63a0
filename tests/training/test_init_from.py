"""Fine-tuning: a fit that starts from another model, and what the model does not allow."""

from pathlib import Path

import pytest
import torch
import yaml
from small_runs import Run, settings

from seq2seq.model_folder import load_model


def test_a_fit_starts_with_the_weights_subwords_and_languages_of_the_model(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__src_lang="en", data__tgt_lang="de")) == 0
    (corpus / "train.src").write_text("ba de\n" * 50)
    (corpus / "train.tgt").write_text("de ba\n" * 50)
    frozen = settings(
        run="tuned", training__lr=0.0, trainer__max_steps=4, data__tgt_lang="fr", init_from="run"
    )
    assert run("fit", *frozen) == 0
    capsys.readouterr()
    assert run("test", "--config", "tuned/config.yaml") == 0
    assert "tuned/test/small.txt" in capsys.readouterr().out
    first, second = load_model("run"), load_model("tuned")
    assert first.fingerprints == second.fingerprints
    assert (second.src_lang, second.tgt_lang) == ("en", "fr")
    for old, new in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(old, new)


def test_the_configuration_of_a_fit_from_a_model_tells_of_that_model(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    words = settings(run="tuned", init_from="run", trainer__max_steps=1)
    pairs = list(zip(words[::2], words[1::2], strict=True))
    unsaid = ("--model.", "--data.subwords.")
    left = [pair for pair in pairs if not str(pair[0]).startswith(unsaid)]
    assert run("fit", *(part for pair in left for part in pair)) == 0
    first, second = (yaml.safe_load(Path(x, "config.yaml").read_text()) for x in ("run", "tuned"))
    assert second["model"] == first["model"]
    sizes = {f"{side}_vocab_size": len(load_model("run").src_subwords) for side in ("src", "tgt")}
    assert second["data"]["subwords"] == first["data"]["subwords"] | sizes
    again = ("--config", "tuned/config.yaml", "--ckpt_path", "last", "--trainer.max_steps", 2)
    assert run("fit", *again) == 0


def test_another_network_is_trained_with_the_subwords_of_a_model(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    (corpus / "train.src").write_text("ba de\n" * 50)
    (corpus / "train.tgt").write_text("de ba\n" * 50)
    words = settings(run="wide", data__subwords_from="run", model__d_model=64, trainer__max_steps=1)
    pairs = zip(words[::2], words[1::2], strict=True)
    wider = [pair for pair in pairs if not str(pair[0]).startswith("--data.subwords.")]
    assert run("fit", *(part for pair in wider for part in pair)) == 0
    first, second = load_model("run"), load_model("wide")
    assert first.fingerprints == second.fingerprints
    assert second.network.config.d_model == 64
    stored = yaml.safe_load(Path("wide/config.yaml").read_text())["data"]
    assert stored["subwords_from"] == "run"
    assert stored["subwords"]["src_vocab_size"] == len(first.src_subwords)
    again = ("--run", "wide", "--ckpt_path", "last", "--trainer.max_steps", 2)
    assert run("fit", *again) == 0
    capsys.readouterr()
    assert (
        run("fit", *settings(run="bpe", data__subwords_from="run", data__subwords__kind="bpe")) == 2
    )
    assert "data.subwords.kind=bpe differs from unigram in run" in capsys.readouterr().err


def test_the_subwords_of_the_model_that_a_fit_starts_from_win(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    fewer = {f"data__subwords__{side}_vocab_size": 20 for side in ("src", "tgt")}
    assert run("fit", *settings(run="other", trainer__max_steps=1, **fewer)) == 0
    tuned = settings(
        run="tuned", init_from="run", data__subwords_from="other", trainer__max_steps=1
    )
    assert run("fit", *tuned) == 0
    assert load_model("tuned").fingerprints == load_model("run").fingerprints
    assert yaml.safe_load(Path("tuned/config.yaml").read_text())["data"]["subwords_from"] == "run"


def test_what_differs_from_the_model_or_is_missing_there_is_one_line_that_names_it(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0

    def said(**changes: object) -> str:
        assert run("fit", *settings(run="tuned", init_from="run", **changes)) == 2
        (line,) = (x for x in capsys.readouterr().err.splitlines() if x.startswith("error: "))
        return line

    assert "model.norm=post differs from pre in run" in said(model__norm="post")
    assert "model.d_model=64 differs from 32 in run" in said(model__d_model=64)
    fewer = {f"data__subwords__{side}_vocab_size": 20 for side in ("src", "tgt")}
    assert "data.subwords.src_vocab_size=20 differs from 24 in run" in said(**fewer)
    assert "data.subwords.kind=bpe differs from unigram" in said(data__subwords__kind="bpe")
    for name in ("weights.safetensors", "subwords.tgt.model", "config.json"):
        (corpus / "run/model" / name).unlink()
        assert name in said()
