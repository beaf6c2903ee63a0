"""What `seq2seq export` prints and writes, and what it refuses."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2seq.cli import main
from seq2seq.config import ModelConfig, SubwordConfig
from seq2seq.interop import ctranslate2
from seq2seq.model_folder import SavedModel, load_model, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.provenance import Corpus, Score
from seq2seq.text.subwords import Subwords, train_subwords

LINES = ["kare mino", "", "tosu", "mino & kare tosu", "  "]
REFERENCES = ["mino kare", "", "tosu tosu", "kare tosu & mino", "  "]

needs_library = pytest.mark.export


def save_tiny_model(folder: Path, **settings: Any) -> None:
    """Untrained, but it knows the letters of the lines."""
    subwords = Subwords(train_subwords(LINES, SubwordConfig(byte_fallback=False), 26))
    torch.manual_seed(0)
    small: dict[str, Any] = {"d_model": 16, "heads": 2, "ff_dim": 8, "encoder_layers": 1}
    size = len(subwords)
    config = ModelConfig(src_vocab_size=size, tgt_vocab_size=size, **small | settings)
    network = Transformer(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape) / 2)
    save_model(SavedModel(network, subwords, subwords, "en", "de"), folder)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a model; five lines, two of them blank, and their translations; blank lines."""
    monkeypatch.chdir(tmp_path)
    save_tiny_model(Path("run/model"))
    for name, lines in (("dev.en", LINES), ("dev.de", REFERENCES), ("blank.en", ["", " "])):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong command says."""
    assert main(["export", "run", "--to", "ctranslate2", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said


@needs_library
def test_an_export_is_compared_told_and_translated_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["--check-src", "dev.en", "--check-tgt", "dev.de"]
    assert main(["export", "run", "--to", "ctranslate2", "new/out", *text]) == 0
    said = capsys.readouterr().out
    assert "native" in said
    assert "ctranslate2 fp32" in said
    assert "MB" in said
    assert "sentences/s" in said
    assert "tok:13a" in said
    assert "greedy search: 0 of 3 translations differ" in said
    assert said.endswith("new/out: ctranslate2, fp32\n")
    told = []
    for arguments in (["--engine", "ctranslate2", "new/out"], ["run"]):
        assert main(["translate", "--beam", "1", *arguments, "dev.en"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert {path.name for path in folder.iterdir()} == {
        *("run", "new", "dev.en", "dev.de", "blank.en")
    }
    assert {path.name for path in (folder / "new").iterdir()} == {"out"}


@needs_library
def test_without_a_file_it_is_compared_on_made_up_sentences_and_every_difference_is_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["out", "--check", "20", "--quantize", "int8"]
    assert main(["export", "run", "--to", "ctranslate2", *arguments]) == 0
    said = capsys.readouterr().out
    assert "ctranslate2 int8" in said
    assert "BLEU" not in said
    assert "of 20 translations differ" in said
    (count,) = [line.split()[2] for line in said.splitlines() if line.startswith("beam search:")]
    assert said.count("\n  line ") == int(count) > 0


@needs_library
@pytest.mark.parametrize("quantize", ["int8", "int8_bfloat16"])
def test_columns_stand_apart_and_end_together(
    quantize: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["out", "--check", "1", "--quantize", quantize]
    assert main(["export", "run", "--to", "ctranslate2", *arguments]) == 0
    title, *rows = capsys.readouterr().out.splitlines()[:3]
    assert title.split() == ["native", "ctranslate2", quantize]
    assert {len(row) for row in rows} == {len(title)}


@needs_library
def test_an_export_that_says_other_things_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = ctranslate2.copy
    monkeypatch.setattr(ctranslate2, "copy", lambda parameter: right(parameter) * 1.01)
    assert main(["export", "run", "--to", "ctranslate2", "out"]) == 1
    assert "error: ctranslate2 does not say what run says" in capsys.readouterr().err
    assert not (folder / "out").exists()
    assert main(["export", "run", "--to", "ctranslate2", "out", "--check", "0"]) == 0
    assert (folder / "out").is_dir()


@needs_library
def test_only_an_empty_folder_is_written_into(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    assert main(["export", "run", "--to", "ctranslate2", "out", "--check", "1"]) == 0
    capsys.readouterr()
    assert "out is there already" in error_of(capsys, "out")
    assert "dev.en is there already" in error_of(capsys, "dev.en")
    assert "dev.en/x/y cannot be written: Not a directory." in error_of(capsys, "dev.en/x/y")


@needs_library
def test_a_link_to_an_empty_folder_stays_one() -> None:
    Path("there").mkdir()
    Path("out").symlink_to("there", target_is_directory=True)
    assert main(["export", "run", "--to", "ctranslate2", "out", "--check", "1"]) == 0
    assert Path("out").is_symlink()
    assert main(["translate", "--engine", "ctranslate2", "there", "dev.en"]) == 0


@needs_library
def test_an_export_is_kept_though_nobody_listens_to_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return own.fileno()

    with open("own", "w") as own:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert main(["export", "run", "--to", "ctranslate2", "out", "--check", "1"]) == 1
    assert (Path("out") / "model.bin").is_file()


def test_obstacles_are_one_line_with_all_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny_model(Path("run/model"), encoder_layers=0)
    said = error_of(capsys, "out", "--quantize", "int3")
    assert "model.encoder_layers=0: " in said
    assert "quantize=int3: not known there; use int8 or int8_bfloat16 or float16" in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--check-tgt", "dev.de"], "--check-tgt dev.de translates --check-src"),
        (["--check", "-1"], "--check=-1 is out of range"),
        (["--check-src", "none.en"], "none.en"),
        (["--check-src", "dev.tsv"], "dev.tsv is not a text of one side"),
        (["--check-src", "blank.en"], "blank.en has no line to translate"),
        (["--check-src", "dev.en", "--check-tgt", "blank.en"], "blank.en has 2 lines but dev"),
    ],
)
def test_a_check_that_cannot_be_made_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in error_of(capsys, "out", *arguments)


@needs_library
def test_a_text_without_a_line_that_it_takes_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny_model(Path("run/model"), positions="learned", max_positions=2)
    Path("long.en").write_text("kare mino\nmino & kare tosu\n")
    said = error_of(capsys, "out", "--check-src", "long.en")
    assert "--check-src has no line of less than 2 subwords" in said
    Path("short.en").write_text("kare\nkare\n")
    save_tiny_model(Path("run/model"), positions="learned", max_positions=6)
    assert main(["export", "run", "--to", "ctranslate2", "out", "--check-src", "short.en"]) == 0
    said = error_of(capsys, "new", "--check-src", "short.en", "--check-tgt", "long.en")
    assert "--check-src and --check-tgt have no pair of lines of less than 6 subwords" in said


@needs_library
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_scores_stay_on_the_card_unless_the_weights_are_others(quantize: str | None) -> None:
    score = Score(name="BLEU", value=12.5, signature="nrefs:1")
    data = Corpus(role="test", name="news", pairs=5, files=[], scores=[score])
    saved = load_model("run")
    save_model(replace(saved, provenance={"data": [data]}), Path("run/model"))
    words = [] if quantize is None else ["--quantize", quantize]
    assert main(["export", "run", "--to", "ctranslate2", "out", "--check", "0", *words]) == 0
    card = Path("out/README.md").read_text()
    assert ("12.5" in card) == (quantize is None)
    command = " ".join(["seq2seq export run --to ctranslate2", *words, "out"])
    assert f"{command}\n" in card
