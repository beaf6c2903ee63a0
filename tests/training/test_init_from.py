"""Fine-tuning: a fit that starts from another model, and what the model does not allow."""

import re
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentencepiece
import torch
import yaml
from small_runs import Run, settings

from seq2seq.apps.train_settings import warn_of_other_languages
from seq2seq.config import ModelConfig, SubwordConfig
from seq2seq.model_facts import load_provenance
from seq2seq.model_folder import SavedModel, load_model, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.text.piece_order import SPECIAL
from seq2seq.text.subwords import SPACE, Subwords, train_subwords
from seq2seq.training.module import TranslationModule


def without(group: str, words: list[object]) -> list[object]:
    """The command line without the settings of a group."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return [part for pair in pairs if not str(pair[0]).startswith(group) for part in pair]


def test_a_fit_starts_with_the_weights_subwords_and_languages_of_the_model(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And runs with the dropout and the attention of its own recipe."""
    assert run("fit", *settings(data__src_lang="en", data__tgt_lang="de")) == 0
    begin = TranslationModule.on_train_start

    def look(self: TranslationModule) -> None:
        begin(self)
        assert (self.network.rate, self.network.attention) == (0.25, "fast")

    monkeypatch.setattr(TranslationModule, "on_train_start", look)
    (corpus / "train.src").write_text("ba de\n" * 50)
    (corpus / "train.tgt").write_text("de ba\n" * 50)
    frozen = settings(
        run="tuned",
        training__lr=0.0,
        training__dropout__residual=0.25,
        training__attention="fast",
        trainer__max_steps=4,
        data__tgt_lang="fr",
        init_from="run",
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


@pytest.mark.parametrize(
    ("joint", "languages", "warned"),
    [
        (False, ("de", "en"), True),
        (False, ("en-GB", "de"), False),
        (False, ("en", ""), False),
        (False, ("eng", "deu"), False),  # who knows
        (True, ("de", "en"), False),
    ],
)
def test_subwords_of_each_language_alone_that_get_another_language_are_warned_of(
    tmp_path: Path, joint: bool, languages: tuple[str, str], warned: bool
) -> None:
    lines = ["a small house", "the cat sat there", "on this mat"]
    src, tgt = (
        Subwords(train_subwords(text, SubwordConfig(byte_fallback=False), 30))
        for text in (lines, lines if joint else [line[::-1] for line in lines])
    )
    sizes: dict[str, Any] = {"src_vocab_size": len(src), "tgt_vocab_size": len(tgt)}
    network = Transformer(ModelConfig(**sizes, d_model=8, heads=2, tie="none"))
    save_model(SavedModel(network, src, tgt, "en", "de"), tmp_path)
    names = dict(zip(("src_lang", "tgt_lang"), languages, strict=True))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        data: Any = SimpleNamespace(**names, subwords_from=str(tmp_path))
        warn_of_other_languages(data, ("en", "de"), "old")
    said = "init_from=old was trained from en to de, .* for de to en, "
    assert [bool(re.match(said, str(each.message))) for each in seen] == [True] * warned


def test_the_configuration_of_a_fit_from_a_model_tells_of_that_model(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    tuned = settings(run="tuned", init_from="run", trainer__max_steps=1)
    assert run("fit", *without("--model.", without("--data.subwords.", tuned))) == 0
    first, second = (yaml.safe_load(Path(x, "config.yaml").read_text()) for x in ("run", "tuned"))
    assert second["model"] == first["model"]
    sizes = {f"{side}_vocab_size": len(load_model("run").src_subwords) for side in ("src", "tgt")}
    assert second["data"]["subwords"] == first["data"]["subwords"] | sizes
    again = ("--config", "tuned/config.yaml", "--ckpt_path", "last", "--trainer.max_steps", 2)
    assert run("fit", *again) == 0


def test_a_run_goes_on_without_the_model_that_it_began_with_and_keeps_it_as_its_parent(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the run has been moved since."""
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    tuned = settings(run="tuned", init_from="run", trainer__max_steps=4)
    assert run("fit", *tuned) == 0
    parent = load_provenance("tuned")["parent"]
    shutil.rmtree("run")
    again = ("--run", "tuned", "--ckpt_path", "last", "--trainer.max_steps", 8)
    assert run("fit", *again, "--init_from", "another") == 2
    assert "init_from: another does not exist" in capsys.readouterr().err
    for steps, (before, now) in {8: ("tuned", "tuned"), 12: ("tuned", "moved")}.items():
        Path(before).rename(now)
        again = ("--run", now, "--ckpt_path", "last", "--trainer.max_steps", steps)
        assert run("fit", *again) == 0
        assert load_provenance(now)["parent"] == parent
        recorded = yaml.safe_load(Path(now, "config.yaml").read_text())
        assert recorded["init_from"] == recorded["data"]["subwords_from"] == "run"


def test_another_network_is_trained_with_the_subwords_of_a_model(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    (corpus / "train.src").write_text("ba de\n" * 50)
    (corpus / "train.tgt").write_text("de ba\n" * 50)
    wide = settings(run="wide", data__subwords_from="run", model__d_model=64, trainer__max_steps=1)
    assert run("fit", *without("--data.subwords.", wide)) == 0
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


def own_subwords(path: str, *corpora: str, size: int = 20) -> list[str]:
    """Train SentencePiece as it is, with its own ids -> all pieces that text can become."""
    text = [line for corpus in corpora for line in Path(corpus).read_text().splitlines()]
    with Path(path).open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(text), model_writer=file, vocab_size=size, minloglevel=2
        )
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    return [model.IdToPiece(i) for i in range(3, len(model))]


def test_a_network_is_trained_with_a_sentencepiece_model_of_ones_own(
    corpus: Path, run: Run
) -> None:
    pieces = own_subwords("own.model", "train.src", "train.tgt")
    own = settings(data__subwords_from="own.model", trainer__max_steps=1)
    assert run("fit", *without("--data.subwords.", own)) == 0
    model = load_model("run")
    assert model.src_subwords.pieces(range(len(model.src_subwords))) == [*SPECIAL, *pieces]
    assert model.fingerprints[0] == model.fingerprints[1]
    stored = yaml.safe_load(Path("run/config.yaml").read_text())["data"]
    assert stored["subwords_from"] == "own.model"
    assert stored["subwords"]["src_vocab_size"] == len(pieces) + 4
    assert run("fit", "--run", "run", "--ckpt_path", "last", "--trainer.max_steps", 2) == 0
    Path("own.model").unlink()
    assert run("test", "--run", "run") == 0


def test_a_network_is_trained_with_a_sentencepiece_model_for_each_language(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "train.tgt").write_text((corpus / "train.tgt").read_text().upper())
    sides = [
        own_subwords("source.spm", "train.src"),
        own_subwords("target.spm", "train.tgt", size=22),
    ]
    assert not set(sides[0]) & set(sides[1]) - {SPACE}
    own = without("--data.subwords.", settings(data__subwords_from=".", trainer__max_steps=1))
    assert run("fit", *own) == 2
    assert "model.tie" in capsys.readouterr().err
    assert run("fit", *own, "--model.tie", "target-output") == 0
    model = load_model("run")
    for subwords, pieces in zip((model.src_subwords, model.tgt_subwords), sides, strict=True):
        assert subwords.pieces(range(len(subwords))) == [*SPECIAL, *pieces]
    Path("target.spm").unlink()
    assert run("fit", *own, "--run", "other", "--model.tie", "none") == 2
    assert "target.spm does not exist" in capsys.readouterr().err


def test_other_subwords_than_those_of_the_model_that_a_fit_starts_from_are_refused(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    fewer = {f"data__subwords__{side}_vocab_size": 20 for side in ("src", "tgt")}
    assert run("fit", *settings(run="other", trainer__max_steps=1, **fewer)) == 0

    def tuned(subwords: str) -> list[object]:
        return settings(
            run="tuned", init_from="run", data__subwords_from=subwords, trainer__max_steps=1
        )

    assert run("fit", *tuned("other")) == 2
    said = "data.subwords_from=other holds other subwords than init_from=run"
    assert said in capsys.readouterr().err
    assert run("fit", *tuned("none")) == 2
    assert "data.subwords_from: none does not exist" in capsys.readouterr().err
    assert run("fit", *tuned("run/model")) == 0
    assert load_model("tuned").fingerprints == load_model("run").fingerprints
    assert yaml.safe_load(Path("tuned/config.yaml").read_text())["data"]["subwords_from"] == "run"
    assert run("fit", *tuned("run"), "--ckpt_path", "last") == 0


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
