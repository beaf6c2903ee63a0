"""Kept and rejected pairs together are the corpus, in order, byte for byte."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_corpora import Pairs, latin, write

from seq2seq.cli import main
from seq2seq.data.cleaning import NAMES
from seq2seq.data.lines import read_lines
from seq2seq.data.output import replacing

OUTPUTS = ["--output", "out.src", "out.tgt", "--rejected", "rejected.tsv"]
COMMAND = ["clean", "in.src", "in.tgt", *OUTPUTS]
HEALTHY = latin(300)

PLANTED = {
    "undecodable": ("a\udcff", "b"),
    "empty": ("a", " "),
    "controls": (HEALTHY[0][0] + "\tx", HEALTHY[0][1] + "\\t"),
    "mojibake": (HEALTHY[1][0], HEALTHY[1][1] + " Ã¼"),
    "script": (HEALTHY[2][0], "Все счастливые семьи похожи друг на друга, каждая"),  # noqa: RUF001
    "identical": (HEALTHY[3][0], HEALTHY[3][0]),
    "swapped": (HEALTHY[4][1], HEALTHY[4][0]),
    "untranslated": (HEALTHY[5][0], HEALTHY[6][0]),
    "long": (HEALTHY[7][0] * 40, HEALTHY[7][1] * 40),
    "ratio": (HEALTHY[8][0], "ja"),
    "duplicate": HEALTHY[9],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(name: str) -> list[bytes]:
    return Path(name).read_bytes().split(b"\n")[:-1]


def kept() -> list[tuple[bytes, bytes]]:
    return list(zip(lines("out.src"), lines("out.tgt"), strict=True))


def rejected() -> list[tuple[str, int, tuple[bytes, bytes]]]:
    """(rule, line, pair), escapes undone."""

    def plain(text: bytes) -> bytes:
        signs = {b"t": b"\t", b"r": b"\r", b"n": b"\n", b"\\": b"\\"}
        return re.sub(rb"\\(.)", lambda match: signs[match[1]], text)

    rows = [line.split(b"\t") for line in lines("rejected.tsv")]
    return [(rule.decode(), int(line), (plain(s), plain(t))) for rule, line, s, t in rows]


def as_bytes(pairs: Pairs) -> list[tuple[bytes, bytes]]:
    return [
        (s.encode(errors="surrogateescape"), t.encode(errors="surrogateescape")) for s, t in pairs
    ]


def test_a_healthy_corpus_stays_whole(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    write(folder, "in", HEALTHY)
    assert main(COMMAND) == 0
    assert kept() == as_bytes(HEALTHY)
    assert rejected() == []
    assert capsys.readouterr().err == "kept               300 of 300\n"


def test_each_planted_pair_is_rejected_by_its_rule_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "in", [*HEALTHY, *PLANTED.values()])
    assert main(COMMAND) == 0
    expected = zip(PLANTED, range(301, 400), as_bytes(list(PLANTED.values())), strict=False)
    assert rejected() == list(expected)
    assert kept() == as_bytes(HEALTHY)
    told = dict(line.split()[:2] for line in capsys.readouterr().err.splitlines())
    assert told == {**dict.fromkeys(PLANTED, "1"), "kept": "300"}


@pytest.mark.parametrize("name", [name for name in NAMES if name in PLANTED])
def test_a_rule_chosen_alone_rejects_its_pair_alone(folder: Path, name: str) -> None:
    others = [pair for rule, pair in PLANTED.items() if rule == name]
    write(folder, "in", [*HEALTHY, *others])
    assert main([*COMMAND, "--rules", name]) == 0
    assert [rule for rule, *_ in rejected()] == [name]
    other_rules = [rule for rule in NAMES if rule not in (name, "overlap")]
    assert main([*COMMAND, "--rules", *other_rules]) == 0
    assert [rule for rule, *_ in rejected()] in ([], ["ratio"])


@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_kept_and_rejected_are_the_corpus_whatever_it_holds(
    data: st.DataObject, folder: Path
) -> None:
    side = st.one_of(
        st.sampled_from(["", " ", "a", "a.", "\\t", "\t", "\r", "x\\", "a\u2028b", "Ã¼", "да"]),
        st.binary(max_size=5)
        .map(lambda b: b.replace(b"\n", b""))
        .map(lambda b: b.decode(errors="surrogateescape")),
    )
    pairs = data.draw(st.lists(st.tuples(side, side), max_size=12))
    rules = data.draw(st.lists(st.sampled_from(NAMES[:-1]), min_size=1, unique=True))
    write(folder, "in", pairs)
    assert main([*COMMAND, "--rules", *rules]) == 0
    corpus = as_bytes(pairs)
    gone = {line: pair for _, line, pair in rejected()}
    assert all(corpus[line - 1] == pair for line, pair in gone.items())
    assert kept() == [pair for line, pair in enumerate(corpus, start=1) if line not in gone]
    assert {rule for rule, *_ in rejected()} <= set(rules)


def test_a_pair_with_an_evaluation_sentence_is_rejected_whatever_its_case(folder: Path) -> None:
    write(folder, "in", HEALTHY)
    Path("dev.src").write_text(f"{HEALTHY[5][0].upper()}!\n…\n", encoding="utf-8")
    Path("dev.tgt").write_text(f"\n«{HEALTHY[9][1]}»\n", encoding="utf-8")
    assert main([*COMMAND, "--against", "dev.src", "dev.tgt"]) == 0
    assert [(rule, line) for rule, line, _ in rejected()] == [("overlap", 6), ("overlap", 10)]


def test_after_cleaning_against_a_test_set_inspect_finds_no_overlap(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "in", [*HEALTHY, ("!!!", "...")])
    spoilt = [(src.upper(), tgt) for src, tgt in HEALTHY[:40]]
    write(folder, "test", [*spoilt, *latin(40, 7), ("!!!", "...")])
    inspect = ["inspect", "--test", "test.src", "test.tgt", "--train"]
    assert main([*inspect, "in.src", "in.tgt"]) == 1
    assert main([*COMMAND, "--against", "test.src", "test.tgt"]) == 0
    assert main([*inspect, "out.src", "out.tgt"]) == 0


def test_signs_alone_are_told_apart_when_cleaning_against_a_test_set(folder: Path) -> None:
    write(folder, "in", [*HEALTHY, ("!!!", "..."), ("???", "?!?")])
    write(folder, "test", [("!!!", "...")])
    assert main([*COMMAND, "--rules", "overlap", "--against", "test.src"]) == 0
    assert Path("rejected.tsv").read_text() == "overlap\t301\t!!!\t...\n"


def test_a_corpus_in_one_file_is_no_text_to_clean_against(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "in", HEALTHY)
    Path("dev.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in HEALTHY), encoding="utf-8")
    assert main([*COMMAND, "--against", "dev.tsv"]) == 2
    assert "--against dev.tsv holds both sides" in capsys.readouterr().err
    assert not Path("out.src").exists()


def test_a_tsv_is_read_and_packed_files_are_written(folder: Path) -> None:
    Path("in.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in HEALTHY), encoding="utf-8")
    outputs = ["--output", "out.src.gz", "out.tgt.zst", "--rejected", "rejected.tsv.gz"]
    assert main(["clean", "in.tsv", *outputs]) == 0
    assert list(read_lines("out.src.gz")) == [src for src, _ in HEALTHY]
    assert list(read_lines("out.tgt.zst")) == [tgt for _, tgt in HEALTHY]
    assert list(read_lines("rejected.tsv.gz")) == []
    # RFC 1952: neither flags (a name) nor a time, so that the same text is the same bytes.
    assert Path("out.src.gz").read_bytes()[3:8] == bytes(5)


def test_lines_of_a_tsv_that_are_no_pair_are_rejected_as_they_stand(folder: Path) -> None:
    good = [f"{s}\t{t}".encode() for s, t in HEALTHY]
    Path("in.tsv").write_bytes(b"\n".join([*good, b"no tab", b"", b"a\xff\tb", b"c\td\te", b""]))
    assert main(["clean", "in.tsv", *OUTPUTS, "--rules", "undecodable", "malformed"]) == 0
    assert kept() == [*as_bytes(HEALTHY), (b"c", b"d")]
    no_pair = [("malformed", 301, (b"no tab", b"")), ("malformed", 302, (b"", b""))]
    assert rejected() == [*no_pair, ("undecodable", 303, (b"a\xff", b"b"))]
    assert main(["inspect", "--train", "in.tsv"]) == 1  # bytes that are not UTF-8 spoil it


def test_lines_that_are_no_json_are_rejected_as_they_stand(folder: Path) -> None:
    good = [json.dumps({"src": s, "tgt": t}).encode() for s, t in HEALTHY]
    bad = [b'{"src": "a', b"", b"[1]", b'{"src": "\xff", "tgt": "b"}']
    Path("in.jsonl").write_bytes(b"\n".join([*good, *bad, b""]))
    assert main(["clean", "in.jsonl", *OUTPUTS, "--rules", "undecodable", "malformed"]) == 0
    assert kept() == as_bytes(HEALTHY)
    no_pair = [("malformed", 301 + n, (line, b"")) for n, line in enumerate(bad[:3])]
    assert rejected() == [*no_pair, ("undecodable", 304, (b"\xff", b"b"))]


def test_json_lines_without_both_fields_are_rejected_as_they_stand(folder: Path) -> None:
    good = [json.dumps({"src": s, "tgt": t}).encode() for s, t in HEALTHY]
    bad = [b'{"src": "a"}', b'{"src": null, "tgt": "b"}', b'{"src": "a", "tgt": 7}']
    bad.append(rb'{"src": "a", "tgt": "\ud800"}')
    Path("in.jsonl").write_bytes(b"\n".join([bad[0], *good, *bad[1:], b""]))
    assert main(["clean", "in.jsonl", *OUTPUTS, "--rules", "malformed"]) == 0
    assert kept() == as_bytes(HEALTHY)
    assert rejected() == [
        ("malformed", n, (line, b"")) for n, line in zip((1, 302, 303, 304), bad, strict=True)
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (r'{"src": "a", "tgt": "\ud800"}', "half of a surrogate pair"),
        ('{"src": "a"}', 'no field --tgt-field=tgt; its fields are "src".'),
        ("plain text", "line 1 column 1 is not JSON"),
    ],
)
def test_fields_that_no_json_line_has_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    """It may be the setting that is wrong."""
    Path("in.jsonl").write_text(f"{line}\n" * 2)
    assert main(["clean", "in.jsonl", *OUTPUTS]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out.src").exists()


def test_the_fields_of_json_lines_may_have_any_name(folder: Path) -> None:
    objects = [json.dumps({"id": 1, "text": {"en": s, "de": t}}) + "\n" for s, t in HEALTHY]
    Path("in.jsonl").write_text("".join(objects), encoding="utf-8")
    fields = ["--src-field", "text.en", "--tgt-field", "text.de"]
    outputs = ["--output", "out.src", "out.tgt", "--rejected", "rejected.tsv"]
    assert main(["clean", "in.jsonl", *fields, *outputs]) == 0
    assert kept() == as_bytes(HEALTHY)
    assert main(["inspect", "--train", "in.jsonl", *fields]) == 0


def test_a_pipe_takes_the_rejected_pairs_and_stays_a_pipe(folder: Path) -> None:
    write(folder, "in", [*HEALTHY, ("one", "")])
    os.mkfifo("pipe")
    read = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["clean", "in.src", "in.tgt", *OUTPUTS[:3], "--rejected", "pipe"]) == 0
        assert os.read(read, 100) == b"empty\t301\tone\t\n"
    finally:
        os.close(read)
    assert Path("pipe").is_fifo()
    assert kept() == as_bytes(HEALTHY)
    devices = ["--output", os.devnull, os.devnull, "--rejected", os.devnull]
    assert main(["clean", "in.src", "in.tgt", *devices]) == 0
    assert Path(os.devnull).is_char_device()


def test_a_reader_that_has_gone_is_no_error(folder: Path) -> None:
    write(folder, "in", HEALTHY)
    outputs = "--output /dev/stdout /dev/null --rejected /dev/null"
    command = f"{sys.executable} -m seq2seq clean in.src in.tgt {outputs} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["all", "all.gz", "all.zst"])
def test_an_open_file_takes_the_pairs_and_keeps_what_it_has(folder: Path, name: str) -> None:
    write(folder, "in", HEALTHY)
    with open(name, "wb") as out:
        there = f"/dev/fd/{out.fileno()}"
        for _ in range(2):
            assert main(["clean", "in.src", "in.tgt", "--output", there, *OUTPUTS[2:]]) == 0
    assert list(read_lines(name)) == [src for src, _ in HEALTHY] * 2


def test_what_another_command_writes_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "in", HEALTHY)
    with replacing(Path("out.tgt"), "the other") as unfinished:
        unfinished.write_text("theirs\n")
        assert main(COMMAND) == 2
        assert "--output out.tgt is being written by another command" in capsys.readouterr().err
    assert Path("out.tgt").read_text() == "theirs\n"
    assert sorted(os.listdir()) == ["in.src", "in.tgt", "out.tgt"]


def test_a_line_break_inside_a_segment_cannot_shift_the_sides(folder: Path) -> None:
    rows = [*HEALTHY, ("one\ntwo\\n", "eins\nzwei")]
    Path("in.jsonl").write_text("".join(f"{json.dumps({'src': s, 'tgt': t})}\n" for s, t in rows))
    assert main(["clean", "in.jsonl", *OUTPUTS, "--rules", "empty"]) == 0
    assert kept()[-1] == (b"one two\\n", b"eins zwei")
    assert main(["clean", "in.jsonl", *OUTPUTS]) == 0
    assert rejected() == [("controls", 301, (b"one\ntwo\\n", b"eins\nzwei"))]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(folder: Path) -> None:
    write(folder, "in", HEALTHY[:3])
    (folder / "else").mkdir()
    Path("else/old.tsv").write_text("old\n")
    Path("rejected.tsv").symlink_to("else/old.tsv")
    assert main([*COMMAND, "--rules", "empty"]) == 0
    assert Path("rejected.tsv").is_symlink()
    assert Path("else/old.tsv").read_text() == ""
    assert [path.name for path in (folder / "else").iterdir()] == ["old.tsv"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("in --src-lang src --tgt-lang tgt --output in.src b", "in.src is read or written already"),
        ("in --src-lang src --tgt-lang tgt --rejected in.tgt", "in.tgt is read or written already"),
        (
            "in.src short.tgt",
            "in.src and short.tgt: the source has 300 lines but the target has 299",
        ),
        ("in.src none.tgt", "none.tgt does not exist"),
        ("in.src in.tgt --output in.src out.tgt", "in.src is read or written already"),
        ("in.src in.tgt --output out.src out.src", "out.src is read or written already"),
        ("in.src in.tgt --rejected ./in.tgt", "--rejected in.tgt is read or written already"),
        ("in.src in.tgt --rules empty --against in.src", "--against needs the rule overlap"),
        ("in.src in.tgt --rules overlap", "--rules overlap needs --against"),
        ("in.src in.tgt --output none/a b", "cannot be written"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_file(
    folder: Path, arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "in", HEALTHY)
    write(folder, "short", HEALTHY[:-1])
    before = sorted(folder.iterdir())
    assert main(["clean", *OUTPUTS, *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert sorted(folder.iterdir()) == before
