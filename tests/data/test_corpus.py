"""A corpus must keep its alignment whatever is in its lines; Python's bytes are the oracle."""

import gzip
import random
import re
from pathlib import Path

import pytest

from seq2seq.data.corpus import (
    CorpusFiles,
    Pair,
    decode_lines,
    read_lines,
    read_pairs,
)
from seq2seq.errors import ConfigError, CorpusError

# str.splitlines() would split at each of these.
SEPARATORS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def written(path: Path, *lines: str, end: str = "\n") -> str:
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes((text.removesuffix("\n") + end).encode() if lines else b"")
    return str(path)


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_a_separator_inside_a_line_does_not_end_it(tmp_path: Path, separator: str) -> None:
    lines = [f"one{separator}two", separator, "three"]
    assert read_lines(written(tmp_path / "a.en", *lines)) == lines


def test_reading_gives_back_whatever_lines_were_written(tmp_path: Path) -> None:
    rng = random.Random(0)
    alphabet = [*SEPARATORS, "a", " ", "\t", "\x00", "\ufeff", "é", "字", "👩"]
    for _ in range(100):
        lines = [
            "".join(rng.choices(alphabet, k=rng.randrange(5))) for _ in range(rng.randrange(9))
        ]
        assert read_lines(written(tmp_path / "a.en", *lines)) == lines


def test_the_last_line_counts_with_or_without_its_end(tmp_path: Path) -> None:
    with_end = written(tmp_path / "with.en", "one", "two", end="\n")
    without = written(tmp_path / "without.en", "one", "two", end="")
    assert read_lines(with_end) == read_lines(without) == ["one", "two"]
    assert read_lines(written(tmp_path / "blank.en", "one", "", end="\n")) == ["one", ""]


def test_a_carriage_return_before_the_end_stays_for_cleaning_to_remove() -> None:
    assert decode_lines(b"one\r\ntwo\r\n", "a.en") == ["one\r", "two\r"]


def test_a_gz_file_reads_as_what_was_packed_in_one_part_or_several(tmp_path: Path) -> None:
    path = tmp_path / "a.en.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress("ö\n".encode()))
    assert read_lines(path) == ["one", "twö"]


def test_a_file_without_a_byte_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "a.en")) == []


@pytest.mark.parametrize("bad", [b"\xff", b"\xe4\xb8", b"\xed\xa0\x80", b"\xc0\x80"], ids=repr)
def test_undecodable_bytes_are_told_with_file_line_byte_and_column(
    tmp_path: Path, bad: bytes
) -> None:
    path = tmp_path / "a.en"
    path.write_bytes("ä\nzwölf ".encode() + bad + b" more\nrest\n")
    # Columns count bytes, from 1: "zwölf " is seven.
    expected = rf"{path} line 2: byte 0x{bad[:1].hex()} at column 8 is not UTF-8"
    with pytest.raises(CorpusError, match=expected):
        read_lines(path)
    with pytest.raises(CorpusError, match=r"^standard input line 1: byte 0x"):
        decode_lines(bad, "standard input")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.en", tmp_path / "none.en.gz"):
        with pytest.raises(CorpusError, match=f"{missing} does not exist"):
            read_lines(missing)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    for name in ("folder", "folder.gz"):
        (tmp_path / name).mkdir()
        with pytest.raises(CorpusError, match=f"{tmp_path / name} is a folder"):
            read_lines(tmp_path / name)


def test_a_file_in_place_of_a_folder_and_a_name_that_is_too_long_are_named(tmp_path: Path) -> None:
    inside = Path(written(tmp_path / "a.en", "one")) / "b.en"
    with pytest.raises(CorpusError, match=str(inside)):
        read_lines(inside)
    with pytest.raises(CorpusError, match="xxx"):
        read_lines("x" * 5000)


@pytest.mark.parametrize("damage", ["cut", "cut to the header", "no gzip", "flipped"])
def test_a_damaged_gz_file_is_named(tmp_path: Path, damage: str) -> None:
    packed = gzip.compress("".join(f"line {n}\n" for n in range(300)).encode())
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    contents = {
        "cut": packed[:-20],
        "cut to the header": packed[:5],
        "no gzip": b"line 1\n",
        "flipped": bytes(flipped),
    }
    path = tmp_path / "a.en.gz"
    path.write_bytes(contents[damage])
    with pytest.raises(CorpusError, match=rf"{path} is no complete gzip file"):
        read_lines(path)


def test_line_n_of_one_file_is_paired_with_line_n_of_the_other(tmp_path: Path) -> None:
    src = written(tmp_path / "a.en", "one\u2028still one", "", "three")
    tgt = written(tmp_path / "a.de", "eins", "zwei", "drei\x85immer noch drei", end="")
    assert read_pairs(CorpusFiles(src=src, tgt=tgt)) == [
        Pair("one\u2028still one", "eins"),
        Pair("", "zwei"),
        Pair("three", "drei\x85immer noch drei"),
    ]


def test_files_of_different_lengths_are_told_with_both_names_and_numbers(tmp_path: Path) -> None:
    src = written(tmp_path / "a.en", "one", "two", "three")
    tgt = written(tmp_path / "a.de", "eins", "zwei")
    with pytest.raises(CorpusError, match=rf"{tgt} has 2 lines but {src} has 3"):
        read_pairs(CorpusFiles(src=src, tgt=tgt))


def test_tsv_takes_the_first_two_columns(tmp_path: Path) -> None:
    tsv = written(tmp_path / "a.tsv", "one\teins", "two\tzwei\t0.9\tx", "\t", "four\t")
    assert read_pairs(CorpusFiles(tsv=tsv)) == [
        ("one", "eins"),
        ("two", "zwei"),
        ("", ""),
        ("four", ""),
    ]


@pytest.mark.parametrize("line", ["", "two zwei"])
def test_a_tsv_line_without_a_tab_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    tsv = written(tmp_path / "a.tsv", "one\teins", line)
    with pytest.raises(CorpusError, match=rf"{tsv} line 2 has no tab"):
        read_pairs(CorpusFiles(tsv=tsv))


@pytest.mark.parametrize("lines", [[], [""], [" \t"], ["", "\ufeff", "\u3000"]], ids=ascii)
def test_a_corpus_without_text_is_told_with_its_files(tmp_path: Path, lines: list[str]) -> None:
    src, tgt = written(tmp_path / "a.en", *lines), written(tmp_path / "a.de", *lines)
    with pytest.raises(CorpusError, match=rf"{src} and {tgt}: the corpus is empty"):
        read_pairs(CorpusFiles(src=src, tgt=tgt))
    tsv = written(tmp_path / "a.tsv", *(f"{line.strip()}\t{line}" for line in lines))
    with pytest.raises(CorpusError, match=rf"{tsv}: the corpus is empty"):
        read_pairs(CorpusFiles(tsv=tsv))


def test_text_on_one_side_of_each_pair_only_is_an_empty_corpus(tmp_path: Path) -> None:
    src, tgt = written(tmp_path / "a.en", "one", ""), written(tmp_path / "a.de", "", "zwei")
    with pytest.raises(CorpusError, match="no line has text on both sides"):
        read_pairs(CorpusFiles(src=src, tgt=tgt))


@pytest.mark.parametrize(
    "names",
    [(), ("src",), ("tgt",), ("src", "tsv"), ("tgt", "tsv"), ("src", "tgt", "tsv")],
    ids=" ".join,
)
def test_other_combinations_of_files_are_told_with_what_was_given(names: tuple[str, ...]) -> None:
    files = {name: f"data/a.{name}" for name in names}
    given = [f"{name}={files.get(name)}" for name in ("src", "tgt", "tsv")]
    with pytest.raises(ConfigError, match=re.escape(", ".join(given))):
        CorpusFiles(**files)
