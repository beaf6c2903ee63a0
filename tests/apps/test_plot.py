"""What `seq2seq plot` writes, where, and what it says when it cannot."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seq2seq.apps.attention import MOST_SENTENCES, draw_attention, examples_of
from seq2seq.cli import main
from seq2seq.config import ModelConfig, SubwordConfig
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.reports.heat_maps import Example
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.translator import Translator

SENTENCES = ["kare <script>", "", "mino & kare"]
LAYERS, HEADS = 2, 3


def save_tiny_model(folder: Path) -> None:
    """Untrained, but it knows the letters of the sentences."""
    config = SubwordConfig(byte_fallback=False)
    subwords = Subwords(train_subwords(SENTENCES, config, 30))
    torch.manual_seed(0)
    network = Transformer(
        ModelConfig(
            src_vocab_size=len(subwords),
            tgt_vocab_size=len(subwords),
            d_model=12,
            heads=HEADS,
            ff_dim=8,
            encoder_layers=1,
            decoder_layers=LAYERS,
        )
    )
    save_model(SavedModel(network, subwords, subwords), folder)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs with logs, the first with a model; three lines, one of them blank."""
    monkeypatch.chdir(tmp_path)
    for name, best in (("first", 31.5), ("second", 42.25)):
        log = Path(name, "logs/version_0/metrics.csv")
        log.parent.mkdir(parents=True)
        log.write_text(f"epoch,loss,step,val_bleu\n0,6.5,49,\n0,5.5,99,\n0,,99,{best}\n")
    save_tiny_model(Path("first/model"))
    Path("sentences.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    return tmp_path


def written(folder: Path) -> set[str]:
    files = (path.relative_to(folder) for path in folder.rglob("*"))
    return {str(path) for path in files if path.suffix in (".html", ".png")}


def tree_of(page: str) -> ElementTree.Element:
    document = Path(page).read_text(encoding="utf-8")
    return ElementTree.fromstring(document.removeprefix("<!DOCTYPE html>"))


def text_of(page: str) -> str:
    return "".join(tree_of(page).itertext())


def test_curves_of_a_run_become_a_page_and_a_picture_in_its_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", "first"]) == 0
    assert written(folder) == {"first/curves.html", "first/curves.png"}
    assert capsys.readouterr().out == "first/curves.html\nfirst/curves.png\n"
    assert Path("first/curves.png").read_bytes().startswith(b"\x89PNG")
    text = text_of("first/curves.html")
    assert "5.5 to 6.5; 5.5 at step 100" in text
    assert "31.5 at step 100" in text


def test_several_runs_share_the_diagrams_of_one_figure(folder: Path) -> None:
    assert main(["plot", "first", "second"]) == 0
    assert written(folder) == {"curves.html", "curves.png"}
    text = text_of("curves.html")
    assert text.count("Training loss") == 2  # heading, and name of the diagram
    assert "first: 31.5 to 31.5" in text
    assert "second: 42.25 to 42.25" in text


def test_runs_of_one_name_are_told_apart_by_their_paths(folder: Path) -> None:
    Path("old").mkdir()
    Path("second").rename("old/first")
    assert main(["plot", "first", "old/first", "--output", "both.html"]) == 0
    assert written(folder) == {"both.html"}
    assert "old/first: 42.25" in text_of("both.html")


def test_heat_maps_are_of_the_translations_that_the_model_would_give(folder: Path) -> None:
    command = ["plot", "first/model", "--attention", "sentences.txt", "--output", "maps.html"]
    assert main(command) == 0
    assert written(folder) == {"maps.html"}
    page = Path("maps.html").read_text(encoding="utf-8")
    assert page.count("<table") == 2 * (1 + LAYERS * HEADS)
    assert "<script" not in page
    text = text_of("maps.html")
    said = Translator.load("first", device="cpu").translate([SENTENCES[0], SENTENCES[2]])
    assert f"1. {SENTENCES[0]}\n{said[0]}\n" in text
    assert f"2. {SENTENCES[2]}\n{said[1]}\n" in text


def test_heat_maps_of_given_translations(folder: Path) -> None:
    Path("said.txt").write_text("mino\nblank, like its sentence\nkare mino\n")
    command = "plot first --attention sentences.txt --translations said.txt"
    assert main(command.split()) == 0
    assert written(folder) == {"first/attention.html", "first/attention.png"}
    text = text_of("first/attention.html")
    assert f"1. {SENTENCES[0]}\nmino\n" in text
    assert f"2. {SENTENCES[2]}\nkare mino\n" in text
    (expected,) = Translator.load("first", device="cpu").attention(SENTENCES[2:], ["kare mino"])
    mean = expected.weights.mean(dim=(0, 1))
    table = list(tree_of("first/attention.html").iter("table"))[1 + LAYERS * HEADS]
    shown = [float(cell.get("title", "0")) for cell in table.iter("td")]
    assert shown == pytest.approx(mean.flatten().tolist(), abs=0.00501)


def test_heat_maps_take_no_more_threads_than_there_are_cores(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("seq2seq.cores.cores", lambda: 3)
    torch.set_num_threads(4)
    try:
        assert main(["plot", "first", "--attention", "sentences.txt"]) == 0
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_sentence_with_controls_has_a_page_that_can_be_read(tmp_path: Path) -> None:
    seen: Any = SimpleNamespace(
        translation="b", src=["a"], tgt=["b"], weights=torch.ones(1, 1, 1, 1)
    )
    page = draw_attention(examples_of(["a\x0b\x1b mat"], [seen]), tmp_path / "a.html")
    assert isinstance(page, str)
    (heading,) = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>")).iter("h2")
    assert "".join(heading.itertext()) == "1. a   mat"


def test_letters_that_no_font_has_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for letter, said in (("a", ""), ("\U000f0000", "a.png: no installed font has \U000f0000;")):
        draw_attention([Example("a", "b", [letter], ["</s>"], [[[[1.0]]]])], Path("a.png"))
        error = capsys.readouterr().err
        assert error.startswith(said) if said else not error


def test_without_matplotlib_there_is_a_page_and_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in [name for name in sys.modules if name.startswith("seq2seq.reports.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", "first"]) == 0
    assert written(folder) == {"first/curves.html"}
    said = capsys.readouterr()
    assert said.out == "first/curves.html\n"
    assert re.match(r"first/curves\.png needs.* pip install 'seq2seq-lightning\[plots\]'", said.err)
    assert main(["plot", "first", "--output", "a.png"]) == 2
    assert "pip install 'seq2seq-lightning[plots]'" in capsys.readouterr().err
    assert main(["plot", "first", "--attention", "sentences.txt", "--output", "a.html"]) == 0
    assert written(folder) == {"first/curves.html", "a.html"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("none", "none does not exist; expected the folder of a run"),
        ("first none", "none does not exist"),
        ("empty", "empty has no logs/version_*/metrics.csv"),
        ("first ./empty/../first", "RUN first empty/../first has the same folder twice"),
        ("first --output a.jpg", "--output a.jpg must end in .html or .png"),
        ("first --output none/a.html", "--output none/a.html cannot be written"),
        ("first --attention a.html --output a.html", "--output a.html is read or written already"),
        ("first --translations sentences.txt", "--translations sentences.txt needs --attention"),
        ("first second --attention sentences.txt", "--attention is of one RUN, but 2 are given"),
        ("second --attention sentences.txt", "second has no config.json"),
        ("first --attention none.txt", "none.txt does not exist"),
        ("first --attention rows.jsonl", "rows.jsonl is not a text of one side"),
        ("first --attention blank.txt", "--attention blank.txt has 0 sentences"),
        ("first --attention many.txt", f"has {MOST_SENTENCES + 1} sentences; choose 1 to"),
        (
            "first --attention sentences.txt --translations many.txt",
            f"many.txt has {MOST_SENTENCES + 1} lines but sentences.txt has 3",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    arguments: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    Path("blank.txt").write_text("\n \n")
    Path("many.txt").write_text("kare\n" * (MOST_SENTENCES + 1))
    assert main(["plot", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert written(folder) == set()
