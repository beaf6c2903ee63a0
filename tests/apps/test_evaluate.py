"""The command reads files as they are and prints sacreBLEU's numbers."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from seq2seq.cli import main

HYPOTHESES = ["the small cat sat on the mat.", "it\u2028rains\x85today", "", "we saw them leave."]
REFERENCES = ["the little cat sat on the mat.", "it rains today", "Go on!", "We saw them leave."]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, now the current one, with hyp.de and ref.de."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "hyp.de", HYPOTHESES)
    write(tmp_path / "ref.de", REFERENCES)
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def test_the_scores_are_sacrebleus_though_lines_hold_other_separators(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "hyp.de", "ref.de", "--target-lang", "de", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert [(score["name"], score["value"]) for score in scores] == [
        ("BLEU", sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score),
        ("chrF2", sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score),
        ("TER", sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score),
    ]
    assert all(score["signature"].startswith("nrefs:1|case:") for score in scores)


def test_each_metric_asked_for_is_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp.de", "ref.de", "ref.de", "--metrics", "chrf", "bleu"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    value = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES, REFERENCES]).score
    assert first.startswith(f"chrF2 {value:.2f}  nrefs:2|")
    assert second.startswith("BLEU ")


def test_gz_files_and_a_missing_final_newline_change_nothing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "hyp.de.gz").write_bytes(gzip.compress("\n".join(HYPOTHESES).encode()))
    assert main(["evaluate", "hyp.de", "ref.de"]) == 0
    plain = capsys.readouterr().out
    assert main(["evaluate", "hyp.de.gz", "ref.de"]) == 0
    assert capsys.readouterr().out == plain


def test_the_target_language_chooses_the_tokenizer(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "hyp.de", "ref.de", "--target-lang", "zh-TW", "--metrics", "bleu"]
    assert main(arguments) == 0
    assert "|tok:zh|" in capsys.readouterr().out


def test_different_line_counts_name_both_files_and_both_numbers(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(files / "short.de", REFERENCES[:3])
    assert main(["evaluate", "hyp.de", "ref.de", "short.de"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: hyp.de has 4 lines but short.de has 3; line n of one must")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "bad.de does not exist"),
        (b"good\nb\xe4d\n", "bad.de line 2: byte 0xe4"),
        (b"", "hyp.de has 4 lines but bad.de has 0"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    files: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, expected: str
) -> None:
    if content is not None:
        (files / "bad.de").write_bytes(content)
    assert main(["evaluate", "hyp.de", "bad.de"]) == 2
    assert expected in capsys.readouterr().err


def test_empty_files_are_nothing_to_score(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(files / "empty.de", [])
    assert main(["evaluate", "empty.de", "empty.de"]) == 2
    assert "error: empty.de has 0 lines" in capsys.readouterr().err


def test_an_unknown_metric_lists_the_choices(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "hyp.de", "ref.de", "--metrics", "rouge"])
    assert "'rouge' (choose from " in capsys.readouterr().err


def test_the_script_is_the_command_and_needs_no_torch(files: Path) -> None:
    root = Path(__file__).parents[2]
    without_torch = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:];"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    script = [sys.executable, "-c", without_torch, str(root / "scripts" / "evaluate.py")]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [*script, "hyp.de", "ref.de"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("BLEU ")
