"""Each planted defect is found, with its count and its lines, and nothing is found besides."""

import json
import random
from pathlib import Path

import pytest
from toy_corpora import CORPORA, Pairs, latin, write

from seq2seq.config import SubwordConfig
from seq2seq.data.corpus import CorpusFiles, read_pairs
from seq2seq.data.findings import CorpusReport, Finding
from seq2seq.data.inspection import Plan, inspect
from seq2seq.errors import CorpusError
from seq2seq.text.subwords import Subwords, train_subwords

SIZE = 600
HEALTHY = latin(SIZE)
ELSEWHERE = latin(100, 7)


def reports(
    folder: Path, train: Pairs, *evaluation: Pairs, model: Subwords | None = None
) -> list[CorpusReport]:
    files = [
        CorpusFiles(src=src, tgt=tgt)
        for src, tgt in (write(folder, f"{n}", p) for n, p in enumerate([train, *evaluation]))
    ]
    sets = [("test", each) for each in files[1:]]
    subwords = None if model is None else (model, model)
    return inspect(Plan(train=files[0], evaluation=sets, subwords=subwords))


def findings(folder: Path, train: Pairs) -> list[Finding]:
    return reports(folder, train)[0].findings


def lines(finding: Finding) -> list[int]:
    return [example.line for example in finding.examples]


@pytest.mark.parametrize("corpus", CORPORA)
def test_nothing_is_found_in_healthy_corpora(tmp_path: Path, corpus: str) -> None:
    make = CORPORA[corpus]
    found = reports(tmp_path, make(SIZE, 0), make(100, 7), make(100, 8))
    assert [report.findings for report in found] == [[], [], []]
    assert [report.pairs for report in found] == [SIZE, 100, 100]
    assert not any(report.spoilt for report in found)


@pytest.mark.parametrize(
    ("name", "src", "tgt", "severity"),
    [
        ("undecodable", None, "b\udcffd", "spoils"),
        ("empty", "", None, "warns"),
        ("controls", "\u2028", None, "warns"),
        ("script", None, "Все счастливые семьи", "warns"),  # noqa: RUF001
        ("mojibake", None, "grÃ¼n", "warns"),
        ("markup", "<b>", None, "note"),
    ],
)
def test_a_planted_pair_is_found_in_each_of_its_lines(
    tmp_path: Path, name: str, src: str | None, tgt: str | None, severity: str
) -> None:
    def planted(text: str, what: str | None) -> str:
        if not what:
            return text if what is None else ""
        return (what * 20)[: len(text)] if name == "script" else f"{text[:30]}{what} {text[30:]}"

    train = list(HEALTHY)
    for number in (2, 50, 51, 599):
        train[number] = (planted(train[number][0], src), planted(train[number][1], tgt))
    (found,) = findings(tmp_path, train)
    assert (found.name, found.severity, found.count) == (name, severity, 4)
    assert found.share == 4 / SIZE
    assert lines(found) == [3, 51, 52]


def test_identical_sides_are_a_note_where_they_are_few_and_worth_a_look_above_one_percent(
    tmp_path: Path,
) -> None:
    for count, severity in ((6, "note"), (7, "warns")):
        train = [(src, src if n < count else tgt) for n, (src, tgt) in enumerate(HEALTHY)]
        (found,) = findings(tmp_path, train)
        assert (found.name, found.severity, found.count) == ("identical", severity, count)


def test_swapped_pairs_are_found_and_spoil_above_five_percent(tmp_path: Path) -> None:
    for count, severity in ((30, "warns"), (31, "spoils"), (200, "spoils")):
        train = [(tgt, src) if n < count else (src, tgt) for n, (src, tgt) in enumerate(HEALTHY)]
        (found,) = findings(tmp_path, train)
        assert (found.name, found.severity, found.count) == ("swapped", severity, count)
        assert lines(found) == [1, 2, 3]


def test_a_swapped_test_set_is_spoilt_and_train_is_not(tmp_path: Path) -> None:
    train, test = reports(tmp_path, HEALTHY, [(tgt, src) for src, tgt in ELSEWHERE])
    (found,) = test.findings
    assert (found.name, found.severity, found.count) == ("swapped", "spoils", 100)
    assert not train.spoilt


def test_an_outlier_in_length_and_one_in_ratio_are_found(tmp_path: Path) -> None:
    train = list(HEALTHY)
    train[10] = (f"{train[10][0]} " * 60, f"{train[10][1]} " * 60)
    train[20] = (train[20][0], train[20][1][:2])
    found = {finding.name: finding for finding in findings(tmp_path, train)}
    assert found.keys() == {"long", "ratio"}
    assert (lines(found["long"]), lines(found["ratio"])) == ([11], [21])


def test_duplicates_are_counted_after_the_first_and_tell_its_line(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, [*HEALTHY, HEALTHY[4], HEALTHY[4], HEALTHY[9]])
    assert (found.name, found.severity, found.count) == ("duplicate", "note", 3)
    assert [(example.line, example.note) for example in found.examples] == [
        (601, "as line 5"),
        (602, "as line 5"),
        (603, "as line 10"),
    ]


def test_a_source_with_another_translation_is_a_note_and_no_duplicate(tmp_path: Path) -> None:
    other = [(HEALTHY[n][0], ELSEWHERE[n][1]) for n in range(3)]
    found = findings(tmp_path, [*HEALTHY, *other, HEALTHY[0]])
    counts = {finding.name: (finding.severity, finding.count) for finding in found}
    assert counts.pop("duplicate") == ("note", 1)
    assert counts.pop("several-targets") == ("note", 3)
    assert counts.keys() <= {"ratio"}  # unrelated targets may be of any length


def test_of_a_source_with_two_translations_the_second_counts(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, [*HEALTHY, (HEALTHY[0][0], HEALTHY[0][1][:-1] + "o.")])
    assert (found.name, found.count) == ("several-targets", 1)
    assert "before" in found.says  # the first one has another translation, too


@pytest.mark.parametrize(("shared", "severity"), [(1, "warns"), (2, "spoils")])
def test_test_pairs_in_train_spoil_the_test_above_one_percent(
    tmp_path: Path, shared: int, severity: str
) -> None:
    train, test = reports(tmp_path, HEALTHY, [*ELSEWHERE[shared:], *HEALTHY[:shared]])
    assert train.findings == []
    found = {finding.name: finding for finding in test.findings}
    assert found.keys() == {"overlap-pair", "overlap-source", "overlap-target"}
    assert (found["overlap-pair"].severity, found["overlap-pair"].count) == (severity, shared)
    first = found["overlap-pair"].examples[0]
    assert (first.line, first.note) == (101 - shared, "train line 1")


@pytest.mark.parametrize(("shared", "severity"), [(1, "warns"), (25, "warns"), (26, "spoils")])
def test_test_pairs_in_validation_spoil_the_test_above_a_quarter(
    tmp_path: Path, shared: int, severity: str
) -> None:
    hidden = (ELSEWHERE[0][0].upper(), ELSEWHERE[0][1])
    sets = {
        "train": HEALTHY,
        "validation": ELSEWHERE,
        "test": [*latin(99 - shared, 8), *ELSEWHERE[1 : shared + 1], hidden],
    }
    files = {}
    for name, pairs in sets.items():
        src, tgt = write(tmp_path, name, pairs)
        files[name] = CorpusFiles(src=src, tgt=tgt)
    plan = Plan(train=files.pop("train"), evaluation=list(files.items()))
    train, validation, test = inspect(plan)
    assert train.findings == validation.findings == []
    found = {finding.name: finding for finding in test.findings}
    assert found.keys() == {"overlap-validation", "overlap-validation-folded"}
    exact = found["overlap-validation"]
    assert (exact.severity, exact.count) == (severity, shared)
    assert (exact.examples[0].line, exact.examples[0].note) == (100 - shared, "validation line 2")
    folded = found["overlap-validation-folded"]
    assert (folded.severity, folded.count) == ("spoils" if shared >= 25 else "warns", shared + 1)
    assert [(each.line, each.note) for each in folded.examples] == [(100, "validation line 1")]


def test_case_and_punctuation_do_not_hide_an_overlap(tmp_path: Path) -> None:
    hidden = [(src.upper().rstrip("."), f"»{tgt}«") for src, tgt in HEALTHY[:5]]
    _, test = reports(tmp_path, HEALTHY, [*hidden, *ELSEWHERE])
    folded = {f.name: f.count for f in test.findings if f.name.startswith("overlap")}
    assert folded == {
        "overlap-pair-folded": 5,
        "overlap-source-folded": 5,
        "overlap-target-folded": 5,
    }


def test_what_only_folding_finds_is_shown_and_all_is_counted(tmp_path: Path) -> None:
    hidden = [(src.upper(), tgt) for src, tgt in HEALTHY[5:6]]
    _, test = reports(tmp_path, HEALTHY, [*HEALTHY[:5], *hidden, *ELSEWHERE])
    found = {each.name: each for each in test.findings}
    assert (found["overlap-source"].count, found["overlap-source-folded"].count) == (5, 6)
    for name in ("overlap-source-folded", "overlap-pair-folded"):
        assert [(each.line, each.note) for each in found[name].examples] == [(6, "train line 6")]


def test_folding_that_finds_less_is_not_told(tmp_path: Path) -> None:
    """Where there is neither letter nor digit, nothing is left to compare."""
    shared = [HEALTHY[0], ("!!!", "???")]
    _, test = reports(tmp_path, [*HEALTHY, shared[1]], [*shared, *ELSEWHERE])
    found = {f.name: f.count for f in test.findings if f.name.startswith("overlap")}
    assert found == {"overlap-pair": 2, "overlap-source": 2, "overlap-target": 2}


def test_one_side_in_train_is_no_pair_in_train(tmp_path: Path) -> None:
    mixed = [(HEALTHY[n][0], ELSEWHERE[n][1]) for n in range(2)]
    _, test = reports(tmp_path, HEALTHY, [*ELSEWHERE[2:], *mixed])
    names = {finding.name for finding in test.findings}
    assert "overlap-source" in names
    assert "overlap-target" not in names
    assert "overlap-pair" not in names


def test_an_empty_side_spoils_a_test_set_and_not_train(tmp_path: Path) -> None:
    train, test = reports(
        tmp_path, [*HEALTHY[1:], (HEALTHY[0][0], " ")], [*ELSEWHERE[1:], ("", ELSEWHERE[0][1])]
    )
    assert [f.severity for f in train.findings if f.name == "empty"] == ["warns"]
    assert [f.severity for f in test.findings if f.name == "empty"] == ["spoils"]


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.tsv", "no tab"), ("a.jsonl", '{"src": "a"}'), ("a.jsonl", "no JSON"), ("a.jsonl", "")],
)
def test_a_line_with_which_training_would_end_spoils_any_corpus(
    tmp_path: Path, name: str, line: str
) -> None:
    tsv = name.endswith("tsv")
    lines = [f"{s}\t{t}" if tsv else json.dumps({"src": s, "tgt": t}) for s, t in HEALTHY]
    (tmp_path / name).write_text("".join(f"{each}\n" for each in [*lines, line]))
    files = CorpusFiles(path=str(tmp_path / name))
    with pytest.raises(CorpusError, match=f"line {len(lines) + 1}"):
        list(read_pairs(files))
    for report in inspect(Plan(train=files, evaluation=[("test", files)])):
        (found,) = (each for each in report.findings if each.name == "malformed")
        assert (found.severity, found.examples[0].line) == ("spoils", len(lines) + 1)
        assert "empty" not in {each.name for each in report.findings}


@pytest.mark.parametrize("train", [[], [("", ""), (" ", "a")]], ids=["no line", "no pair"])
def test_a_corpus_without_a_pair_is_spoilt(tmp_path: Path, train: Pairs) -> None:
    (report,) = reports(tmp_path, train)
    assert report.spoilt
    assert report.findings[0].name == "no-pairs"


@pytest.mark.parametrize("text", ["", "\t\n", "ka\t \n"])
def test_a_corpus_in_one_file_without_a_pair_is_spoilt_too(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.tsv").write_text(text)
    (report,) = inspect(Plan(train=CorpusFiles(path=str(tmp_path / "train.tsv"))))
    assert report.findings[0].name == "no-pairs"


def test_a_missing_line_is_told_with_both_counts_and_the_place(tmp_path: Path) -> None:
    src, tgt = write(tmp_path, "train", HEALTHY)
    kept = [pair[1] for n, pair in enumerate(HEALTHY) if n != 399]
    Path(tgt).write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    (report,) = inspect(Plan(train=CorpusFiles(src=src, tgt=tgt)))
    (found,) = report.findings
    assert (found.name, found.severity, found.count) == ("line-counts", "spoils", 1)
    assert "600 lines, the target 599" in found.says
    place = int(found.says.split("near line ")[1].split(":")[0])
    assert abs(place - 400) <= 3
    assert report.pairs == place - 1
    assert (report.src.lines, report.tgt.lines) == (600, 599)


def test_sides_that_part_at_the_first_line_are_said_to_do_that_alone(tmp_path: Path) -> None:
    src, tgt = write(tmp_path, "train", HEALTHY)
    text = Path(tgt).read_text(encoding="utf-8")
    Path(tgt).write_text(f"Table of contents\n{text}", encoding="utf-8")
    (report,) = inspect(Plan(train=CorpusFiles(src=src, tgt=tgt)))
    (found,) = report.findings
    assert found.name == "line-counts"
    assert "near line 1:" in found.says


def test_lines_missing_on_both_sides_are_told_with_the_place_and_the_shift(tmp_path: Path) -> None:
    src, tgt = map(list, zip(*latin(2002), strict=True))
    del src[300], tgt[1300]
    pairs = list(zip(src, tgt, strict=True))
    tsv = tmp_path / "train.tsv"
    tsv.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    (of_tsv,) = inspect(Plan(train=CorpusFiles(path=str(tsv))))
    for report in (*reports(tmp_path, latin(300, 7), pairs)[1:], of_tsv):
        found = {finding.name: finding for finding in report.findings}["misaligned"]
        assert (found.severity, found.count) == ("spoils", 1000)
        assert found.says.endswith(
            ": from there on, line n of the source fits line n+1 of the target"
        )
        place = int(found.says.split("near line ")[1].split(":")[0])
        assert abs(place - 301) <= 3
        assert report.pairs == 2001


def test_a_shift_by_one_from_the_first_line_on_is_found(tmp_path: Path) -> None:
    src, tgt = map(list, zip(*HEALTHY, strict=True))
    found = findings(tmp_path, list(zip(src, [*tgt[1:], tgt[0]], strict=True)))
    (shifted,) = (finding for finding in found if finding.name == "misaligned")
    assert (shifted.severity, shifted.count) == ("spoils", SIZE)
    assert "near line 1: " in shifted.says
    assert "line n-1 of the target" in shifted.says


def test_a_shift_of_less_than_a_twentieth_is_worth_a_look(tmp_path: Path) -> None:
    src, tgt = map(list, zip(*latin(1500) * 8, strict=True))
    tgt[5000:5300] = [*tgt[5001:5300], tgt[5000]]
    found = findings(tmp_path, list(zip(src, tgt, strict=True)))
    (shifted,) = (finding for finding in found if finding.name == "misaligned")
    assert (shifted.severity, shifted.count) == ("warns", 500)


@pytest.mark.parametrize(("size", "told"), [(999, []), (1000, [("warns", 1000)])])
def test_a_shuffled_side_is_worth_a_look_from_a_thousand_pairs_on(
    tmp_path: Path, size: int, told: list[tuple[str, int]]
) -> None:
    src, tgt = map(list, zip(*latin(size), strict=True))
    random.Random(0).shuffle(tgt)
    found = findings(tmp_path, list(zip(src, tgt, strict=True)))
    assert "misaligned" not in {finding.name for finding in found}
    assert [(f.severity, f.count) for f in found if f.name == "unrelated"] == told


def test_inspection_goes_on_behind_undecodable_bytes(tmp_path: Path) -> None:
    train = [(f"\udcff{src}", tgt) for src, tgt in HEALTHY[:5]] + HEALTHY[5:] + HEALTHY[5:6]
    found = {finding.name: finding.count for finding in findings(tmp_path, train)}
    assert found == {"undecodable": 5, "duplicate": 1}


def test_lengths_are_those_of_the_words(tmp_path: Path) -> None:
    report = reports(tmp_path, [("a " * n, "b " * n) for n in range(1, 102)])[0]
    side = report.src
    assert (side.unit, side.mean, side.median, side.percentile99, side.longest) == (
        "words",
        51.0,
        51,
        100,
        101,
    )
    assert sum(count for _, count in side.histogram) == 101


@pytest.mark.parametrize("longest", [7, 100, 700])
def test_each_bar_counts_the_lengths_up_to_its_number_that_are_in_none_before_it(
    tmp_path: Path, longest: int
) -> None:
    lengths = [*range(100), longest]
    (report,) = reports(tmp_path, [("a " * n, "b " * n) for n in lengths])
    ends = [end for end, _ in report.tgt.histogram]
    for below, (end, count) in zip([-1, *ends], report.tgt.histogram, strict=False):
        assert count == sum(below < length <= end for length in lengths)


def test_subwords_that_the_model_does_not_know_are_counted(tmp_path: Path) -> None:
    config = SubwordConfig(kind="unigram", byte_fallback=True)
    model = Subwords(train_subwords((text for pair in HEALTHY for text in pair), config, 400))
    strange = [(src, f"{tgt} 猫猫猫猫") for src, tgt in ELSEWHERE]
    train, test = reports(tmp_path, HEALTHY, strange, model=model)
    assert train.tgt.unlearned_share == 0.0
    pieces = [model.encode(tgt) for _, tgt in strange]
    unlearned = sum(piece.startswith("<0x") for ids in pieces for piece in model.pieces(ids))
    assert unlearned == 100 * 4 * 3  # three bytes each
    share = unlearned / sum(map(len, pieces))
    assert test.tgt.unlearned_share == pytest.approx(share)
    (found,) = (f for f in test.findings if f.name.startswith("unlearned"))
    assert (found.name, found.severity, found.count) == ("unlearned-target", "warns", unlearned)


def test_a_tsv_corpus_is_inspected_as_its_two_sides_are(tmp_path: Path) -> None:
    tsv = tmp_path / "train.tsv"
    tsv.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in HEALTHY), encoding="utf-8")
    (report,) = inspect(Plan(train=CorpusFiles(path=str(tsv))))
    assert (report.findings, report.pairs) == ([], SIZE)


def test_text_files_of_one_stem_are_inspected_as_leniently_as_two_that_are_named(
    tmp_path: Path,
) -> None:
    write(tmp_path, "train", [*HEALTHY, ("a\udcff", "b")])
    stem = CorpusFiles(path=str(tmp_path / "train"))
    (report,) = inspect(Plan(train=stem, languages=("src", "tgt")))
    assert [(found.name, found.count) for found in report.findings] == [("undecodable", 1)]
