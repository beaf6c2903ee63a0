"""The command line: verbs, help, and one line for every mistake."""

import io
import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from seq2seq.cli import LIGHTNING_VERBS, VERBS, main
from seq2seq.data.corpus import CorpusFiles
from seq2seq.errors import ConfigError

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts").glob("*.py"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120)


def one_line_error(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in {**LIGHTNING_VERBS, **VERBS})


@pytest.mark.parametrize("verb", ["inspect", "clean"])
def test_help_tells_that_languages_choose_from_a_path(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    shown = capsys.readouterr().out
    for flag in ("--src-lang", "--tgt-lang"):
        assert "PATH" in shown.split(f"  {flag} LANG ")[1].split("  --")[0]


def test_version_names_program_and_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("seq2seq 0.")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: seq2seq {verb}" in shown
    placeholders = re.findall(r"^  --([a-z-]+) ([A-Z_]+)", shown, re.MULTILINE)
    its_own_name = [flag for flag, said in placeholders if said == flag.upper().replace("-", "_")]
    assert set(its_own_name) <= {"model"}  # a number is N, not BATCH_TOKENS


@pytest.mark.parametrize(
    "arguments",
    ["translate --help", "distill --none", "score --help", "translate run in --max-length 1"],
)
def test_help_and_mistakes_do_not_wait_for_torch(arguments: str) -> None:
    done = run(sys.executable, "-X", "importtime", "-m", "seq2seq", *arguments.split())
    brought = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "argparse" in brought
    assert "torch" not in brought


def test_an_unknown_verb_is_one_line_that_lists_the_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trnslate"]) == 2
    error = one_line_error(capsys)
    assert "'trnslate'" in error
    assert "translate" in error


def test_flags_may_stand_between_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "none", "--beam", "4", "input", "--device", "cpu"]) == 2
    assert "input does not exist" in one_line_error(capsys)


def test_an_unknown_flag_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["translate", "some-model", "--beem", "4"])
    assert stop.value.code == 2
    assert "--beem" in one_line_error(capsys)


def test_a_missing_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "no-such-model", str(Path(__file__))]) == 2
    assert "no-such-model does not exist" in one_line_error(capsys)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_has_help(script: Path) -> None:
    done = run(sys.executable, str(script), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


@pytest.mark.parametrize("script", ["evaluate.py", "train.py", "translate.py"])
def test_a_worker_process_that_imports_a_script_does_not_run_it(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    path = str(SCRIPTS[0].parent / script)
    runpy.run_path(path, run_name="__mp_main__")  # as multiprocessing does when it spawns
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        runpy.run_path(path, run_name="__main__")
    assert "usage: " in capsys.readouterr().out


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a\n" * 10)
    command = f"{sys.executable} -m seq2seq evaluate {text} {text} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_is_printed_is_utf8_and_a_path_that_is_none_an_escape(
    flags: list[str], encoding: str, tmp_path: Path
) -> None:
    name = os.fsdecode(b"caf\xe9")
    for path in (tmp_path / name, tmp_path / "tea"):
        path.write_text("a\n")
    command = f"evaluate {name} tea --systems tea --resamples 10".split()
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", *command, *flags],
        capture_output=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert r"caf\udce9" in shown
    if flags:
        assert {score["system"] for score in json.loads(shown)} == {name, "tea"}
    else:
        assert " ± " in shown


@pytest.mark.parametrize(("arguments", "status"), [("--version", 0), ("translate none in", 2)])
def test_standard_output_of_a_program_that_calls_main_is_as_before_it(
    arguments: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", errors="replace")
    monkeypatch.setattr(sys, "stdout", ours)
    assert main(arguments.split()) == status
    assert (ours.encoding, ours.errors) == ("latin-1", "replace")


def test_a_mistake_is_told_where_what_was_printed_before_it_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(_: object) -> int:
        print("some")
        raise ConfigError("wrong")

    full = open("/dev/full", "w")  # noqa: SIM115 (to close it fails, too)
    monkeypatch.setattr("seq2seq.cli._command", prints)
    monkeypatch.setattr(sys, "stdout", full)
    assert main([]) == 2
    assert one_line_error(capsys) == "error: wrong\n"
    with pytest.raises(OSError, match="No space left"):
        full.close()


@pytest.mark.parametrize("arguments", ["--help", "--version", "evaluate --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_takes_is_no_traceback(arguments: str, unbuffered: str) -> None:
    command = f"{sys.executable} -m seq2seq {arguments}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for end, lines in ((" | true", 0), (" > /dev/full", 1)):
        done = subprocess.run(
            ["bash", "-c", command + end],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )
        assert done.stderr.startswith("error: ") or not done.stderr
        assert done.stderr.count("\n") <= lines, "argparse says nothing"


def test_a_name_that_is_too_long_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    for arguments in (["info", long], ["plot", long], ["average", long], ["experiment", long]):
        assert main(arguments) == 2
        assert one_line_error(capsys).endswith("File name too long.\n")


@pytest.mark.parametrize("verb", LIGHTNING_VERBS)
def test_help_of_the_lightning_verbs_explains_every_setting_of_ours(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["seq2seq", verb, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    entries = re.split(r"\n  (?=--)", capsys.readouterr().out)
    unexplained = [
        entry
        for entry in entries
        if re.match(r"--(model|training|search|data)\.", entry)
        and re.fullmatch(r"\S+( \S+)?\s+(\(type: .*)?", entry, re.DOTALL)
    ]
    assert len(entries) > 60
    assert not unexplained
    train = next(entry for entry in entries if entry.startswith("--data.train TRAIN"))
    for corpus in fields(CorpusFiles):
        assert re.search(rf"(--data\.train\.|`){corpus.name}\b", train)
    assert "--data.train.help CorpusFiles" in " ".join(train.split())
