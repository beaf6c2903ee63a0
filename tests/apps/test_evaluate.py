"""The command reads files as they are and prints, and draws, sacreBLEU's numbers."""

import gzip
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import sacrebleu

from seq2seq.apps.evaluate import names
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
    assert all(score["signature"].startswith("nrefs:1|bs:1000|seed:") for score in scores)


def test_each_metric_asked_for_is_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp.de", "ref.de", "ref.de", "--metrics", "chrf", "bleu"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    value = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES, REFERENCES]).score
    assert re.match(rf"chrF2 {value:.2f} ± \d+\.\d\d  nrefs:2\|bs:1000\|", first)
    assert second.startswith("BLEU ")


def test_of_json_lines_translation_and_tgt_are_compared(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "hyp.de", "ref.de"]) == 0
    expected = capsys.readouterr().out
    pairs = list(zip(HYPOTHESES, REFERENCES, strict=True))
    rows = [{"src": "", "tgt": ref, "text": "", "translation": hyp} for hyp, ref in pairs]
    write(files / "out.jsonl", [json.dumps(row) for row in rows])
    for arguments in (["out.jsonl", "out.jsonl"], ["out.jsonl"]):
        assert main(["evaluate", *arguments]) == 0
        assert capsys.readouterr().out == expected
    assert main(["evaluate", "hyp.de"]) == 2
    assert "hyp.de is to be scored against REF" in capsys.readouterr().err
    write(files / "numbers.jsonl", [json.dumps({"id": 1})])
    assert main(["evaluate", "out.jsonl", "numbers.jsonl"]) == 2
    said = 'numbers.jsonl line 1 has no field "tgt"; its fields are "id".'
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("field", ["translation", "tgt"])
def test_half_a_surrogate_pair_of_json_is_one_line_whatever_the_tokenizer(
    files: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    row = {"translation": "a", "tgt": "a", field: "ab\ud83d"}
    write(files / "half.jsonl", [json.dumps({"translation": "a", "tgt": "a"}), json.dumps(row)])
    assert main(["evaluate", "half.jsonl"]) == 2
    said = "half.jsonl line 2 holds \\ud83d, half of a surrogate pair, as its character 3; mend"
    assert said in capsys.readouterr().err


def test_gz_files_and_a_missing_final_newline_change_nothing(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "hyp.de.gz").write_bytes(gzip.compress("\n".join(HYPOTHESES).encode()))
    assert main(["evaluate", "hyp.de", "ref.de"]) == 0
    plain = capsys.readouterr().out
    assert main(["evaluate", "hyp.de.gz", "ref.de"]) == 0
    assert capsys.readouterr().out == plain


@pytest.mark.parametrize("name", ["bom.de", "bom.de.gz", "bom.jsonl"])
def test_a_byte_order_mark_is_no_text(
    files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"translation": line}) for line in REFERENCES]
    lines = rows if name.endswith(".jsonl") else REFERENCES
    content = "".join(f"{line}\n" for line in lines).encode("utf-8-sig")
    (files / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    told = ["--resamples", "0", "--json"]
    assert main(["evaluate", "ref.de", "ref.de", *told]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main(["evaluate", name, "ref.de", *told, "--names", "ref.de"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


def test_the_target_language_chooses_the_tokenizer(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "hyp.de", "ref.de", "--target-lang", "zh-TW", "--metrics", "bleu"]
    assert main(arguments) == 0
    assert "|tok:zh|" in capsys.readouterr().out


@pytest.mark.parametrize(("lang", "warned"), [("jp", True), ("", True), ("zho_Hant", False)])
def test_texts_without_spaces_need_a_tokenizer_of_their_own(
    files: Path, capsys: pytest.CaptureFixture[str], lang: str, warned: bool
) -> None:
    write(files / "together", ["彼は毎朝公園を走っています。"] * 4)
    write(files / "apart", ["彼 は 毎朝 公園 を 走って います 。"] * 4)
    for name in ("together", "apart", "ref.de"):
        assert main(["evaluate", name, name, "--target-lang", lang, "--resamples", "0"]) == 0
        said = capsys.readouterr().err
        assert ("BLEU takes a whole sentence for a word" in said) == (warned and name == "together")


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


# -- several systems


@pytest.fixture
def other(files: Path) -> Path:
    """A second system, better than the first."""
    write(files / "new.de", [*REFERENCES[:3], HYPOTHESES[3]])
    return files


def test_other_systems_are_compared_with_the_first(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "hyp.de", "ref.de", "--systems", "new.de", "--metrics", "ter", "bleu"]
    assert main([*command, "--resamples", "20", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    found = [(score["system"], score["name"]) for score in scores]
    assert found == [(system, name) for name in ("TER", "BLEU") for system in ("hyp.de", "new.de")]
    assert [score["p_value"] is None for score in scores] == [True, False] * 2
    assert all({"value", "mean", "interval", "signature"} <= score.keys() for score in scores)

    assert main([*command, "--resamples", "20"]) == 0
    ter, first, second, bleu, *_ = capsys.readouterr().out.splitlines()
    assert ter == f"TER  {scores[0]['signature']}"
    assert bleu.startswith("BLEU  nrefs:1|bs:20|")
    before, after = scores[:2]
    assert first == f"  hyp.de  {before['value']:.2f} ± {before['interval']:.2f}  baseline"
    change = after["value"] - before["value"]
    assert change < 0
    assert second == (
        f"  new.de  {after['value']:.2f} ± {after['interval']:.2f}  {change:+.2f}  "
        f"p = {after['p_value']:.4f}"
    )


def test_no_chance_is_told_as_zero(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(files / "base", ["x"] * 30)
    write(files / "good", ["a b c"] * 30)
    command = ["evaluate", "base", "good", "--systems", "good", "--metrics", "ter"]
    assert main([*command, "--resamples", "20000"]) == 0
    assert capsys.readouterr().out.endswith("  -100.00  p < 0.0001\n")


def test_without_resamples_the_signature_is_that_of_published_scores(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "hyp.de", "ref.de", "--lowercase", "--metrics", "bleu"]
    assert main([*command, "--resamples", "0", "--systems", "new.de"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "±" not in first + second
    assert "p =" not in second
    assert main([*command, "--resamples", "0"]) == 0
    metric = sacrebleu.BLEU(lowercase=True)
    score = metric.corpus_score(HYPOTHESES, [REFERENCES])
    assert capsys.readouterr().out == f"BLEU {score.score:.2f}  {metric.get_signature()}\n"


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/old.de", "b/new.de"], ["old.de", "new.de"]),
        (["runs/a/test/x.txt", "runs/b/test/x.txt"], ["a", "b"]),
        (["runs/x.txt", "runs/b/x.txt"], [".", "b"]),
        (["one/a/x", "one/b/x", "one/b/y/x"], ["a", "b", "b/y"]),
        (["only.de"], ["only.de"]),
        (["a/x", os.path.abspath("b/x")], ["a", "b"]),
    ],
)
def test_systems_are_called_by_what_tells_their_files_apart(
    paths: list[str], expected: list[str]
) -> None:
    assert names(paths) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--systems", "new.de", "./hyp.de"], "hyp.de new.de ./hyp.de has the same file twice"),
        (["--systems", "new.de", "--names", "a"], "--names a: 2 systems need as many names"),
        (["--systems", "new.de", "--names", "a", "a"], "all different"),
        (["--systems", "rows.tsv"], "rows.tsv is not a text of one side"),
        (["--systems", "ref1.de"], "hyp.de has 4 lines but ref1.de has 1;"),
        (["--html", "x.html", "--source", "ref1.de"], "hyp.de has 4 lines but ref1.de has 1;"),
        (["--source", "ref.de"], "--source ref.de is for --html FILE"),
        (["--train", "ref.de"], "--train ref.de is for --html FILE"),
        (["--html", "no/x.html"], "--html no/x.html cannot be written: no is not a folder"),
        (["--html", "."], "--html . cannot be written: it is a folder"),
        (["--html", "./hyp.de"], "--html hyp.de is read or written already"),
        (["--html", "ref.de"], "--html ref.de is read or written already"),
        (["--html", "new.de", "--systems", "new.de"], "--html new.de is read or written already"),
        (["--html", "src", "--source", "src"], "--html src is read or written already"),
        (["--html", "train", "--train", "train"], "--html train is read or written already"),
        (["--resamples", "-1"], "resamples=-1"),
        (["--resamples", "10000000"], "resamples=10000000 of 4 lines"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    other: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    write(other / "ref1.de", REFERENCES[:1])
    write(other / "rows.tsv", [f"-1.5\t{line}" for line in REFERENCES])
    assert main(["evaluate", "hyp.de", "ref.de", *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_a_page_that_cannot_be_written_loses_no_score(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "hyp.de", "ref.de", "--resamples", "20"]
    assert main(command) == 0
    scores = capsys.readouterr().out
    assert main([*command, "--html", f"{'x' * 300}.html"]) == 2  # a disk may be full, as well
    assert capsys.readouterr().out == scores


def test_the_page_has_all_systems_and_the_terminal_still_has_the_scores(
    other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(other / "src.en", ["one", "two", "<three>", "four"])
    command = ["evaluate", "hyp.de", "ref.de", "--systems", "new.de", "--names", "old & <b>", "new"]
    more = ["--source", "src.en", "--train", "ref.de", "--html", "page.html", "--resamples", "20"]
    assert main([*command, *more]) == 0
    assert "old & <b>" in capsys.readouterr().out
    text = (other / "page.html").read_text(encoding="utf-8")
    body = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    assert "new against old & <b>" in "".join(body.itertext())
    assert "<three>" in "".join(body.itertext())


def test_references_without_a_word_have_a_page(files: Path) -> None:
    for name in ("blank.hyp", "blank.ref"):
        write(files / name, ["", ""])
    assert main(["evaluate", "blank.hyp", "blank.ref", "--html", "page.html"]) == 0
    text = (files / "page.html").read_text(encoding="utf-8")
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))


def test_of_json_lines_the_page_shows_the_sentence_that_was_translated(other: Path) -> None:
    sources = ["one", "two", "<three>", "four"]
    rows = [{"src": "en", "text": text, "tgt": "zzz"} for text in sources]
    write(other / "out.jsonl", [json.dumps(row) for row in rows])
    told = ["--source", "out.jsonl", "--train", "out.jsonl", "--html", "page.html"]
    more = ["--systems", "new.de", *told, "--resamples", "20"]
    assert main(["evaluate", "hyp.de", "ref.de", *more]) == 0
    from_lines = (other / "page.html").read_text(encoding="utf-8")
    write(other / "src.en", sources)
    write(other / "train.de", ["zzz"] * 4)
    told = ["--source", "src.en", "--train", "train.de", "--html", "page.html"]
    more = ["--systems", "new.de", *told, "--resamples", "20"]
    assert main(["evaluate", "hyp.de", "ref.de", *more]) == 0
    assert (other / "page.html").read_text(encoding="utf-8") == from_lines
    assert "&lt;three&gt;" in from_lines


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
