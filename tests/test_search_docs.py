"""The commands of docs/search.md run as written, on tiny models, and do what is said of them."""

import argparse
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from pages import commands_in, page
from test_translator import TEXTS, random_network, subwords

from seq2seq.apps.search_flags import add_search_flags
from seq2seq.cli import main
from seq2seq.config import Diversity, Sampling, SearchConfig
from seq2seq.model_folder import SavedModel, save_model

DOCUMENT = page("docs/search.md")
COMMANDS = commands_in(DOCUMENT)
LINES = TEXTS[10:16]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `runs/mine` is a model, and `test.en` a text."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("mine", "second", "third", "back")):
        saved = SavedModel(random_network(seed), subwords(), subwords())
        save_model(saved, Path("runs") / name / "model")
    Path("test.en").write_text("".join(f"{line}\n" for line in LINES))
    Path("begin.de").write_text("".join(f"{line}\n" for line in ["tosu mi", *[""] * 5]))
    return tmp_path


def translated(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    """The lines that `seq2seq translate runs/mine test.en FLAGS` prints."""
    assert main(["translate", "runs/mine", "test.en", "--device", "cpu", *flags]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_flag_of_a_search_is_in_a_command() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_search_flags(parser)
    flags = re.findall(r"^  (--[a-z-]+)", parser.format_help(), re.MULTILINE)
    assert len(flags) > 10
    for flag in [*flags, "--prefix", "--ensemble", "--rerank", "--rerank-weight"]:
        assert any(f" {flag} " in command for command in COMMANDS), flag


def test_every_search_setting_is_a_flag() -> None:
    parser = argparse.ArgumentParser()
    add_search_flags(parser)
    flags = vars(parser.parse_args(["--sample"])).keys()
    kinds = SearchConfig, Diversity, Sampling
    names = {field.name for kind in kinds for field in fields(kind)}
    assert names - {"diversity", "sampling"} <= flags


@pytest.mark.parametrize("command", COMMANDS, ids=lambda line: line.partition("test.en ")[2])
def test_every_command_runs_as_written(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *words = shlex.split(command)
    assert program == "seq2seq"
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    if "--output" in words:
        assert len((folder / "out.de").read_text().splitlines()) == len(LINES)
    else:
        rows = [row.split("\t") for row in printed]
        assert [int(index) for index, _, _ in rows] == sorted(int(index) for index, _, _ in rows)
        assert {int(index) for index, _, _ in rows} == set(range(len(LINES)))


@pytest.mark.usefixtures("folder")
def test_the_flags_do_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    def lengths(*flags: str) -> list[int]:
        return [len(subwords().encode(line)) for line in translated(capsys, *flags)]

    plain = translated(capsys)
    assert translated(capsys, "--beam", "5", "--alpha", "1.0", "--n-best", "1") == plain
    assert max(lengths("--max-target-length", "4")) <= 4
    assert min(lengths("--min-target-length", "9")) >= 8  # the same text may have shorter subwords
    assert translated(capsys, "--prefix", "begin.de")[0].startswith("tosu mi")
    assert translated(capsys, "--prefix", "begin.de")[1:] == plain[1:]
    assert translated(capsys, "--ensemble", "runs/mine") == plain
    assert translated(capsys, "--ensemble", "runs/second", "runs/third") != plain
    greedy = translated(capsys, "--beam", "1")
    assert translated(capsys, "--sample", "--temperature", "1e-3") == greedy
    assert translated(capsys, "--sample", "--top-k", "1", "--seed", "7") == greedy
    hot = ("--sample", "--temperature", "5")
    assert translated(capsys, *hot) == translated(capsys, *hot, "--batch-tokens", "1")
    assert translated(capsys, *hot) != translated(capsys, *hot, "--seed", "2")
    assert translated(capsys, *hot, "--verify", "6") == translated(capsys, *hot)
    assert len(translated(capsys, *hot, "--mbr", "chrf", "--candidates", "8")) == len(LINES)
    diverse = ("--n-best", "6", "--beam", "6", "--diversity-groups", "6")
    firsts = [
        {row.split("\t")[2].split(" ")[0] for row in translated(capsys, *diverse, *strength)}
        for strength in (("--diversity-strength", "0"), ("--diversity-strength", "50"))
    ]
    assert len(firsts[0]) < len(firsts[1])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--top-k", "4"], "--top-k 4 is for random draws; add --sample"),
        (["--seed", "0"], "--seed 0 is for random draws"),
        (["--diversity-strength", "0.2"], "--diversity-strength 0.2 is between groups; add"),
        (["--diversity-groups", "2"], "--beam=5 .* --diversity-groups=2 .* e.g. 6"),
        (["--sample", "--top-p", "2"], "--top-p=2.0 "),
        (["--sample", "--diversity-groups", "2"], "--diversity-groups=2 .* but --sample has none"),
        (
            ["--engine", "huggingface", "--coverage-penalty", "1"],
            ".* --coverage-penalty=1.0: not known there; use 0.0",
        ),
        (["--no-repeat-ngram", "-1"], "--no-repeat-ngram=-1 is out of range; "),
        (["--prefix", "test.en"], "test.en has 6 lines but .*begin.de has 7; line n of one must"),
        (["--prefix", "nowhere.de"], "nowhere.de does not exist"),
        (["--ensemble", "runs/fourth"], "runs/fourth does not exist"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(
    flags: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "test.en"
    if flags[1] == "test.en":
        source = "begin.de"
        Path(source).write_text("kare\n" * 7)
    assert main(["translate", "runs/mine", source, *flags]) == 2
    told = capsys.readouterr().err
    assert re.match(f"error: {error}", told)
    assert told.count("\n") == 1
