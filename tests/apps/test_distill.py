"""The command: what its rows are, that they are a corpus, and how it goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu
from test_translate import KILLED, interrupted_at, plant
from test_translator import LINES, TEXTS, random_network, subwords

from seq2seq.cli import main
from seq2seq.config import SearchConfig
from seq2seq.data.corpus import CorpusFiles, stream_pairs
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.text.normalize import clean
from seq2seq.text.repetition import repeats
from seq2seq.translator import Translator

# The last source has no reference.
SEARCH = ["--device", "cpu", "--beam", "3", "--max-target-length", "9"]
SOURCES = [*LINES, "kare\ttosu", "mino 12"]
REFERENCES = [f"ref{n} of {clean(text)}" for n, text in enumerate(SOURCES[:-1])] + [" "]
Row = tuple[str, str, int, str]
"""Source, translation, line, score."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with teacher/, train.en and train.de, which is where we are."""
    saved = SavedModel(random_network(), subwords(), subwords(), "en", "de")
    save_model(saved, tmp_path / "teacher")
    for name, side in (("train.en", SOURCES), ("train.de", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side), newline="\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def distill(*words: str) -> int:
    return main(["distill", "teacher", *words, *SEARCH])


def rows(path: str = "out.tsv") -> list[Row]:
    """Scores with two digits: the last ones may depend on the batch."""
    lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    columns = [line.split("\t") for line in lines]
    return [
        (src, tgt, int(n), re.sub(r"(\.\d\d)\d+$", r"\1", score)) for src, tgt, n, score in columns
    ]


def distilled(*words: str) -> list[Row]:
    assert distill(*words, "--output", "out.tsv") == 0
    return rows()


def sound(src: str, n_best: int) -> list[tuple[str, float]]:
    """What the teacher says, without the faults that a network without sense has."""
    config = SearchConfig(beam=3, n_best=n_best, max_target_length=9)
    (found,) = Translator.load("teacher", config, device="cpu").n_best([src])
    longest = min(9, 2 * len(subwords().encode(src)) + 9)
    return [
        (each.text, each.score)
        for each in found
        if each.tokens is not None
        and len(each.tokens) < longest
        and each.text.strip()
        and not repeats(each.text)
    ]


@pytest.mark.parametrize("n_best", [1, 3])
def test_rows_are_the_reference_and_below_it_what_the_teacher_says(
    n_best: int, capsys: pytest.CaptureFixture[str]
) -> None:
    expected: list[Row] = []
    said = 0
    for line, (src, reference) in enumerate(zip(SOURCES, REFERENCES, strict=True)):
        if not clean(src):
            continue
        if reference.strip():
            expected.append((clean(src), reference, line, ""))
        for text, score in sound(src, n_best):
            expected.append((clean(src), text, line, re.sub(r"\d\d$", "", f"{score:.4f}")))
            said += 1
    assert said > 5
    assert distilled("train.en", "train.de", "--n-best", str(n_best)) == expected
    counted = capsys.readouterr().err
    references = len(expected) - said
    start = f"{len(SOURCES)} lines: {references} references, {said} translations; left out: "
    assert counted.startswith(start)
    left_out = sum(map(int, re.findall(r"(\d+) [a-z]", counted.removeprefix(start))))
    assert left_out > 5
    assert left_out + said == n_best * sum(bool(clean(src)) for src in SOURCES)
    assert counted.count("\n") == 1


def test_it_is_a_corpus_to_train_on() -> None:
    found = distilled("train.en", "train.de")
    pairs = list(stream_pairs(CorpusFiles(path="out.tsv")))
    assert [tuple(pair) for pair in pairs] == [row[:2] for row in found]


@pytest.mark.filterwarnings("ignore:rerank=teacher was trained from en to de")
def test_the_terms_of_corpus_and_models_go_with_it_also_from_hand_to_hand(here: Path) -> None:
    (here / "data").mkdir()
    for name in ("train.en", "train.de"):
        (here / name).rename(here / "data" / name)
    (here / "data/SOURCE.md").write_text("# words\n\n**Licence**: CC BY 2.0\n")
    distilled("data/train", "--teacher-only")
    first = Path("out.tsv.SOURCE.md").read_text()
    assert first == (
        "What `seq2seq distill` made of `data/train` with `teacher`.\n\n"
        "`data/SOURCE.md` says:\n\n> # words\n>\n> **Licence**: CC BY 2.0\n"
    )
    shutil.copytree("teacher", "other")
    (here / "other/README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    words = ["--ensemble", "other", "--rerank", "teacher", "--output", "more.tsv"]
    assert distill("out.tsv", *words) == 0
    second = Path("more.tsv.SOURCE.md").read_text()
    assert second.startswith(
        "What `seq2seq distill` made of `out.tsv` with `teacher` and `other` (licence: cc-by-4.0) "
        "and `teacher`.\n\n`out.tsv.SOURCE.md` says:"
    )
    assert "\n> > **Licence**: CC BY 2.0\n" in second
    assert distill("data/train.en", "--output", "sources.tsv") == 0
    assert "> **Licence**: CC BY 2.0\n" in Path("sources.tsv.SOURCE.md").read_text()


def test_without_references_are_the_rows_with_scores() -> None:
    found = [row for row in distilled("train.en", "train.de") if row[3]]
    assert distilled("train.en", "train.de", "--teacher-only") == found
    assert distilled("train.en") == found


def test_the_corpus_may_have_any_format_and_languages_are_the_teachers(here: Path) -> None:
    expected = distilled("train.en", "train.de")
    Path("train.fr").write_text("un\n")
    assert distilled("train") == expected
    pairs = zip(SOURCES, REFERENCES, strict=True)
    objects = [json.dumps({"src": src, "tgt": tgt}) + "\n" for src, tgt in pairs]
    Path("train.jsonl").write_text("".join(objects))
    assert distilled("train.jsonl") == expected
    renamed = [line.replace('"tgt"', '"translation"') for line in objects]
    Path("train.jsonl").write_text("".join(renamed))
    assert distilled("train.jsonl", "--tgt-field", "translation") == expected


def test_the_closest_is_the_one_that_sacrebleu_likes_best() -> None:
    by_line: dict[int, list[Row]] = {}
    for row in distilled("train.en", "train.de", "--n-best", "3", "--teacher-only"):
        by_line.setdefault(row[2], []).append(row)
    # As references what the teacher says second, or what nobody says.
    wanted = [by_line.get(line, [])[1:2] for line in range(len(SOURCES))]
    references = [row[0][1] if row else "nobody" for row in wanted]
    Path("like.de").write_text("".join(f"{text}\n" for text in references))
    flags = ["--n-best", "3", "--closest", "chrf", "--teacher-only"]
    closest = distilled("train.en", "like.de", *flags)
    expected = [
        max(found, key=lambda row: sacrebleu.sentence_chrf(row[1], [references[line]]).score)
        for line, found in by_line.items()
    ]
    assert closest == expected
    assert any(row != found[0] for row, found in zip(closest, by_line.values(), strict=True))


def test_minimum_bayes_risk_chooses_as_it_does_for_translate() -> None:
    flags = ["--mbr", "chrf", *SEARCH]
    assert main(["translate", "teacher", "train.en", "--output", "chosen", *flags]) == 0
    chosen = Path("chosen").read_text().split("\n")
    found = distilled("train.en", "--mbr", "chrf")
    assert found
    assert all(text == chosen[line] for _, text, line, _ in found)
    assert found != distilled("train.en")


def test_after_ctrl_c_the_same_command_with_resume_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train.en", "train.de", "--n-best", "3", "--output", "out.tsv"]
    assert distill(*words) == 0
    expected = rows()
    Path("out.tsv").unlink()
    with monkeypatch.context() as patch:
        plant(patch, interrupted_at(SOURCES[-2]))
        capsys.readouterr()
        assert distill(*words, "--batch-tokens", "1") == 130
    said = capsys.readouterr().err
    assert said.startswith("stopped. Lines finished: ")
    unfinished = rows(".out.tsv.unfinished")
    assert 0 < len(unfinished) < len(expected)
    assert unfinished == expected[: len(unfinished)]
    assert distill(*words, "--resume", "--alpha", "0.5") == 2
    assert "begun with --alpha None, not 0.5" in capsys.readouterr().err
    assert distill("train.de", *words[2:], "--resume") == 2
    assert "begun with SRC " in capsys.readouterr().err
    assert distill(*words, "--resume", "--batch-tokens", "64") == 0
    lines = len(SOURCES) - unfinished[-1][2]
    assert capsys.readouterr().err.startswith(f"{lines} lines: ")
    assert rows() == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_distillation_killed_in_the_middle_goes_on_to_the_same_rows(
    here: Path, workers: str
) -> None:
    for name in ("train.en", "train.de"):
        Path(name).write_text("".join(f"{text}\n" for text in TEXTS * 4))
    expected = distilled("train.en", "train.de", "--n-best", "3")
    Path("out.tsv").unlink()
    words = ["distill", "teacher", "train.en", "train.de", *SEARCH, "--n-best", "3", "--resume"]
    words += ["--output", "out.tsv", "--batch-tokens", "16", "--workers", workers]
    for line in ("100", "300"):
        done = subprocess.run(
            [sys.executable, str(KILLED), *words],
            env={**os.environ, "KILL_AT": line},
            timeout=300,
            capture_output=True,
        )
        assert done.returncode == -signal.SIGKILL
        unfinished = rows(".out.tsv.unfinished")
        assert unfinished == expected[: len(unfinished)]
        assert unfinished[-1][2] >= int(line) - 9
    assert main(words) == 0
    assert rows() == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.en", "short.de"], "short.de has 1 lines but train.en has"),
        (["bad.en", "train.de"], "bad.en line 1: byte 0xff at column 1 is not UTF-8"),
        (["none.en", "train.de"], "none.en does not exist"),
        (["train.en", "train.de", "short.de"], "CORPUS train.en train.de short.de: expected SRC"),
        (["train.en", "--output", "out.de"], "--output out.de must end in .tsv: "),
        (["old.tsv", "--output", "old.tsv"], "--output old.tsv is read or written already"),
        (["train.en", "--resume"], "--resume goes on with a file: name it with --output"),
        (["train.en", "train.de", "--closest", "bleu"], "--closest bleu needs a choice"),
        (["train.en", "--closest", "bleu", "--n-best", "2"], "--closest bleu needs references"),
        (["train.en", "--n-best", "4"], "--n-best=4 is more than --beam=3"),
        (["pipe"], "pipe is a pipe; it is read twice, so write it to a file first"),
        (["train.en", "--batch-tokens", "0"], "--batch-tokens=0 is out of range"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_a_mistake_is_one_line_before_anything_is_translated(
    here: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    Path("short.de").write_text("eins\n")
    Path("bad.en").write_bytes(b"\xff\n" * len(SOURCES))
    Path("old.tsv").write_text("kare\tmino\n")
    before = set(here.rglob("*"))
    output = [] if "--output" in words or "--resume" in words else ["--output", "out.tsv"]
    assert distill(*words, *output) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {said}")
    assert told.count("\n") == 1
    assert set(here.rglob("*")) == before


def test_a_line_that_is_too_long_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of the fifth line may lack some, for all that --resume can see."""
    Path("long.en").write_text("kare\n" * 5 + "kare tosu mino " * 9 + "\n")
    flags = ["--max-length", "20", "--too-long", "error", "--output", "out.tsv"]
    assert distill("long.en", *flags) == 2
    said = capsys.readouterr().err
    assert re.match(r"error: line 6 has .*; shorten or split it\. Lines finished: 4, in", said)
