"""The command's output, its files and its exit status."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from toy_corpora import latin, write

from seq2seq.cli import main

TRAIN, DEV, TEST = latin(300), latin(60, 7), latin(60, 8)
COMMAND = (
    "inspect --train train.src train.tgt --validation dev.src dev.tgt --test test.src test.tgt"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, pairs in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        write(tmp_path, name, pairs)
    return tmp_path


def test_healthy_data_exits_with_0_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND.split()) == 0
    said = capsys.readouterr().out
    assert said.count("nothing was found") == 3
    assert said.endswith("Nothing spoils this data.\n")


def test_warnings_are_pointed_at_where_nothing_spoils_the_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "test", [*TEST, DEV[0]])
    assert main(COMMAND.split()) == 0
    said = capsys.readouterr().out
    assert "warns  overlap-validation " in said
    assert said.endswith("Nothing spoils this data, but see the warnings.\n")


def test_what_spoils_a_set_exits_with_1_and_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "test", [*TEST[:30], *TRAIN[:30]])
    assert main(COMMAND.split()) == 1
    said = capsys.readouterr().out
    assert "SPOILS overlap-pair                  30  50.00%  pairs that are in train\n" in said
    assert f"line 31 (train line 1): {TRAIN[0][0][:60]}" in said
    assert said.endswith("Spoilt: test (test.src and test.tgt).\n")


def test_what_is_worth_a_look_exits_with_0(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "train", [*TRAIN, ("a\u2028b \x1b[31m", "c")])
    assert main(COMMAND.split()) == 0
    said = capsys.readouterr().out
    assert "  warns  controls                       1   0.33%  " in said
    assert "\x1b" not in said
    assert "\u2028" not in said


def test_json_alone_on_standard_output_holds_what_the_report_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "train", [*TRAIN, ("", "leer")])
    assert main([*COMMAND.split(), "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["spoilt"] is False
    train, dev, _ = report["corpora"]
    (finding,) = train["findings"]
    assert (finding["name"], finding["severity"], finding["count"]) == ("empty", "warns", 1)
    assert finding["examples"] == [{"line": 301, "src": "", "tgt": "leer", "note": ""}]
    assert (train["pairs"], dev["role"], dev["files"]) == (301, "validation", "dev.src and dev.tgt")


def test_the_page_is_well_formed_needs_no_network_and_escapes_the_corpus(folder: Path) -> None:
    write(folder, "train", [*TRAIN, ("<script>alert(1)</script> & a", "\udcff\x00 b]]>")])
    assert main([*COMMAND.split(), "--html", "page.html", "--json", "report.json"]) == 1
    page = Path("page.html").read_text(encoding="utf-8")
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert len(list(tree.iter("h2"))) == 3
    assert len(list(tree.iter("svg"))) == 6
    assert "script" not in {element.tag for element in tree.iter()}
    assert "<script>alert(1)</script> & a" in "".join(tree.itertext())
    assert "<script>alert(1)</script> & a" in [each.text for each in tree.iter("bdi")]
    assert not {"src", "href"} & {name for element in tree.iter() for name in element.attrib}
    assert json.loads(Path("report.json").read_text(encoding="utf-8"))["spoilt"] is True


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_files_are_written_before_standard_output_which_they_do_not_stop(folder: Path) -> None:
    command = f"{sys.executable} -um seq2seq {COMMAND} --json r.json --html"
    for html, end in (("page.html", "> /dev/full"), (f"{'x' * 300}.html", "> said")):
        done = subprocess.run(["bash", "-c", f"{command} {html} {end}"], timeout=120)
        assert done.returncode == 2
        assert json.loads(Path("r.json").read_text())["spoilt"] is False
        Path("r.json").unlink()
    assert Path("page.html").exists()
    assert "Nothing spoils this data." in Path("said").read_text()


def test_a_path_that_is_no_utf8_is_told_as_an_escape(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"caf\xe9")
    (folder / "train.src").rename(name)
    command = ["inspect", "--train", name, "train.tgt"]
    assert main([*command, "--json", "report.json"]) == 0
    assert r"train: caf\udce9 and train.tgt" in capsys.readouterr().out
    assert main([*command, "--json", "-"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["corpora"][0]["files"] == f"{name} and train.tgt"
    assert shown == Path("report.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--train train.src none.tgt", "none.tgt does not exist"),
        ("--train train.src train.tgt dev.src", "--train train.src train.tgt dev.src: expected"),
        ("--train train.src train.tgt --train dev.src dev.tgt", "--train is given 2 times"),
        ("--validation dev.src dev.tgt", "--train is given 0 times"),
        ("--train train.src train.tgt --max-words 0", "max-words=0"),
        (
            "--train train.src train.tgt --max-ratio 0.5",
            "--max-ratio 0.5 must be at least 1, which",
        ),
        ("--train train.src train.tgt --model none", "none does not exist"),
        ("--train train.src train.tgt --html none/page.html", "--html none/page.html cannot be"),
        ("--train train.src train.tgt --json ./train.src", "--json train.src is read or written"),
        (
            "--train train.src train.tgt --test dev.src dev.tgt --html dev.tgt",
            "--html dev.tgt is read or written already",
        ),
        ("--train train.src train.tgt --json a --html a", "--html a is read or written already"),
        ("--train train", "train.tgt: set --src-lang and --tgt-lang, which are '' and ''."),
        ("--train one.tmx", "set --src-lang and --tgt-lang, which are '' and ''."),
        ("--train one.tmx --src-lang a --tgt-lang b", "both --src-lang=a and --tgt-lang=b; its"),
        ("--train one.jsonl --src-field a.b", "has no field --src-field=a.b; its"),
        ("--train pipe train.tgt", "pipe is a pipe"),
        ("--train pipe.tsv", "pipe.tsv is a pipe"),
        ("--train train --src-lang src --tgt-lang tgt --html train.src", "train.src is read"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    os.mkfifo("pipe.tsv")
    Path("one.jsonl").write_text('{"src": "a", "tgt": "b"}\n')
    Path("one.tmx").write_text('<tmx><tu><tuv xml:lang="x"><seg>a</seg></tuv></tu></tmx>')
    assert main(["inspect", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
