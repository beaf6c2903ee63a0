"""Every command of docs/evaluate.md runs, and between them they show every flag."""

import random
import shlex
import sys
from pathlib import Path

import pytest
from command_flags import flags_of
from pages import commands_in, page

from seq2seq.apps import trials
from seq2seq.cli import main

FILES = "test.de", "test2.de", "test.en", "train.de"
GUIDE = page("docs/evaluate.md")


def commands(verb: str) -> list[list[str]]:
    """Of the guide, split into words."""
    found = map(shlex.split, commands_in(GUIDE))
    return [words for words in found if words[:2] == ["seq2seq", verb]]


@pytest.mark.parametrize("verb", ["evaluate", "experiment"])
def test_every_flag_is_in_a_command(verb: str) -> None:
    assert flags_of(verb) <= {word for words in commands(verb) for word in words}


def test_every_evaluation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    for name in (*FILES, "out.de", "old.de", "new.de", "newer.de"):
        lines = [" ".join(rng.choices("abcdef", k=rng.randint(4, 9))) for _ in range(30)]
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    assert commands("evaluate")
    for words in commands("evaluate"):
        monkeypatch.setattr(sys, "argv", words)
        assert main() == 0, capsys.readouterr().err
        assert "BLEU" in capsys.readouterr().out
    assert Path("report.html").is_file()


def make_run(command: list[str]) -> int:
    """Instead of a training."""
    if "--run" in command:
        Path(command[command.index("--run") + 1]).mkdir(exist_ok=True)
    return 0


def test_every_experiment_is_planned_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without training: tests/apps/test_experiment.py does that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trials, "_child", make_run)
    monkeypatch.setattr(trials, "test_sets", lambda config: {})
    for name in ("base.yaml", "wide.yaml"):
        Path(name).write_text("# a configuration\n")
    for words in commands("experiment"):
        assert main(words[1:]) == 0
    assert Path("runs/experiment/base/seed-3/test.done").is_file()
    assert Path("runs/wide/report.html").is_file()
