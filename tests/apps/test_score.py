"""`seq2seq score` prints what the model thinks of each pair, whatever their number."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_plot import save_tiny_model

from seq2seq.apps import score
from seq2seq.cli import main
from seq2seq.translator import Translator

SOURCES = ["kare mino", "", "mino & kare script", "<kare>", "kare"]
TARGETS = ["mino", "kare", "", "script & kare mino", "\u4eca"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in run/, and pairs of which the last one cannot be said."""
    monkeypatch.chdir(tmp_path)
    save_tiny_model(Path("run/model"))
    for name, lines in (("src", SOURCES), ("tgt", TARGETS)):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["score", "run", "src", "tgt", "--device", "cpu", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_each_pair_is_a_line_with_its_log_probability(capsys: pytest.CaptureFixture[str]) -> None:
    scores = Translator.load("run", device="cpu").score(SOURCES, TARGETS)
    rows = rows_of(capsys)
    assert list(map(float, rows)) == pytest.approx([each.total for each in scores], abs=6e-5)
    assert rows[-1] == "-inf"
    for row, each in zip(rows_of(capsys, "--token-scores"), scores, strict=True):
        total, tokens, log_probs = row.split("\t")
        assert float(total) == pytest.approx(each.total, abs=6e-5)
        assert tokens.split(" ") == each.tokens
        found = list(map(float, log_probs.split(" ")))
        assert found == pytest.approx(each.log_probs, abs=6e-5)


@pytest.mark.parametrize(("penalty", "alpha"), [("length", 1.0), ("length", 0.6), ("gnmt", 0.7)])
def test_with_a_length_penalty_scores_are_divided_by_it(
    penalty: str, alpha: float, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = Translator.load("run", device="cpu").score(SOURCES, TARGETS)
    lengths = [
        len(each.tokens) if penalty == "length" else (5 + len(each.tokens)) / 6 for each in scores
    ]
    expected = [s.total / length**alpha for s, length in zip(scores, lengths, strict=True)]
    rows = rows_of(capsys, "--length-penalty", penalty, "--alpha", str(alpha))
    assert list(map(float, rows)) == pytest.approx(expected, abs=6e-5)


def test_objects_hold_the_pair_and_null_for_what_cannot_be_said() -> None:
    command = ["score", "run", "src", "tgt", "--token-scores", "--output", "out.jsonl"]
    assert main([*command, "--device", "cpu"]) == 0
    objects = list(map(json.loads, Path("out.jsonl").read_text(encoding="utf-8").splitlines()))
    assert [(each["src"], each["tgt"]) for each in objects] == [*zip(SOURCES, TARGETS, strict=True)]
    assert objects[0]["score"] == pytest.approx(sum(objects[0]["token_scores"]), abs=1e-5)
    assert objects[0]["tokens"][-1] == "</s>"
    assert objects[-1]["score"] is None
    assert None in objects[-1]["token_scores"]


def test_pairs_are_read_in_blocks_and_stay_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = rows_of(capsys, "--token-scores")
    sizes: list[tuple[int, int, int]] = []
    plain = Translator.score

    def watched(self: Translator, src: Sequence[str], tgt: Sequence[str], first: int) -> object:
        sizes.append((len(src), first, self.batch_tokens))
        return plain(self, src, tgt, first)

    monkeypatch.setattr(score, "BLOCK", 2)
    monkeypatch.setattr(Translator, "score", watched)
    assert rows_of(capsys, "--token-scores", "--batch-tokens", "1") == whole
    assert sizes == [(2, 1, 1), (2, 3, 1), (1, 5, 1)]


def test_resume_goes_on_after_the_pairs_that_are_scored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["score", "run", "src", "tgt", "--device", "cpu", "--output", "out"]
    assert main(command) == 0
    whole = Path("out").read_text()
    firsts: list[int] = []
    plain = Translator.score

    def stopped(self: Translator, src: Sequence[str], tgt: Sequence[str], first: int) -> object:
        firsts.append(first)
        if len(firsts) == 3:
            raise KeyboardInterrupt
        return plain(self, src, tgt, first)

    monkeypatch.setattr(score, "BLOCK", 2)
    monkeypatch.setattr(Translator, "score", stopped)
    Path("out").unlink()
    assert main(command) == 130
    said = capsys.readouterr().err
    assert said.startswith("stopped. Lines finished: 4, in ")
    assert not Path("out").exists()
    texts = [Path(name).read_text() for name in ("src", "tgt")]
    for name, text in zip(("src", "tgt"), texts, strict=True):
        Path(name).write_text(text.splitlines(keepends=True)[0])
    assert main([*command, "--resume"]) == 2
    assert "--resume: the input has 1 lines, but more are finished" in capsys.readouterr().err
    for name, text in zip(("src", "tgt"), texts, strict=True):
        Path(name).write_text(text)
    assert main([*command, "--resume"]) == 0
    assert firsts == [1, 3, 5, 5]
    assert Path("out").read_text() == whole


def test_packed_files_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    plain = rows_of(capsys)
    Path("src.gz").write_bytes(gzip.compress(Path("src").read_bytes()))
    assert main(["score", "run", "src.gz", "tgt", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines() == plain


def test_pairs_without_text_have_rows_where_no_other_pair_has_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    beside = rows_of(capsys)[1]
    for name, lines in (("src", ["", "\t"]), ("tgt", ["kare", "kare"])):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    assert rows_of(capsys) == [beside] * 2
    for name in ("src", "tgt"):
        Path(name).write_text("")
    assert rows_of(capsys) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run src short", "short has 4 lines but src has 5; line n of one must belong"),
        ("run none tgt", "none does not exist"),
        ("none src tgt", "none does not exist; expected a model folder"),
        ("run src tgt --alpha -1", "--alpha=-1.0 is out of range"),
        ("run src tgt --length-penalty gnmt", "gnmt divides nothing without --alpha; add"),
        ("run src tgt --batch-tokens 0", "batch-tokens=0 is out of range"),
        ("run src tgt --device abacus", "device=abacus cannot be used"),
        ("run src tgt --output none/out", "--output none/out cannot be written"),
        ("run src tgt --output ./src", "--output src is read or written already"),
        ("run src tgt --output tgt", "--output tgt is read or written already"),
        ("run src tgt --output out.zst", "name it out, and pack it afterwards"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_file(
    arguments: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short").write_text("a\n" * 4)
    before = set(folder.rglob("*"))
    output = [] if "--output" in arguments else ["--output", "out"]
    assert main(["score", *arguments.split(), *output]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert set(folder.rglob("*")) == before
