"""The command that reads other toolkits' models; what it reads is tested in tests/interop."""

import json
from pathlib import Path

import pytest
from test_translator import random_network, subwords

from seq2seq.cli import main
from seq2seq.model_folder import SavedModel, load_model, save_model


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of an error."""
    assert main(["convert", *map(str, words)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_cannot_be_converted_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "theirs", tmp_path / "ours"
    assert f"{source} does not exist" in said(capsys, source, output)
    source.mkdir()
    assert f"{source} is in none of the known formats: " in said(capsys, source, output)
    assert "--from=eole is unknown" in said(capsys, source, output, "--from", "eole")
    for name in ("config.json", "config.yaml"):
        (source / name).write_text("{")
        assert f"{source / name} is damaged: " in said(capsys, source, output)
        (source / name).unlink()
    (source / "config.json").write_text(json.dumps({"model_type": "t5"}))
    assert "model_type=t5 cannot be read" in said(capsys, source, output)
    assert not output.exists()
    output.mkdir()
    (output / "note").touch()
    assert f"{output} is there already" in said(capsys, source, output)
    below = output / "note" / "x"
    assert f"{below} cannot be written: Not a directory." in said(capsys, source, below)


def test_a_model_of_ours_need_not_be_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(SavedModel(random_network(), subwords(), subwords()), tmp_path / "run" / "model")
    for place in (tmp_path / "run", tmp_path / "run" / "model"):
        assert f"{place} holds a model of ours already" in said(capsys, place, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_language_that_is_given_replaces_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = SavedModel(random_network(), subwords(), subwords(), "eng", "fra")
    monkeypatch.setattr("seq2seq.interop.sources.read", lambda *_: theirs)
    words = (str(tmp_path / name) for name in ("theirs", "ours"))
    assert main(["convert", *words, "--src-lang", "en"]) == 0
    ours = load_model(tmp_path / "ours")
    assert (ours.src_lang, ours.tgt_lang) == ("en", "fra")
