"""A corpus must keep its alignment, and say where it has none."""

import re
from pathlib import Path

import pytest

from seq2seq.data.corpus import CorpusFiles, Pair, stream_pairs
from seq2seq.errors import ConfigError, CorpusError


def written(path: Path, *lines: str, end: str = "\n") -> str:
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes((text.removesuffix("\n") + end).encode() if lines else b"")
    return str(path)


def test_line_n_of_one_file_is_paired_with_line_n_of_the_other(tmp_path: Path) -> None:
    src = written(tmp_path / "a.en", "one\u2028still one", "", "three")
    tgt = written(tmp_path / "a.de", "eins", "zwei", "drei\x85immer noch drei", end="")
    assert list(stream_pairs(CorpusFiles(src=src, tgt=tgt))) == [
        Pair("one\u2028still one", "eins"),
        Pair("", "zwei"),
        Pair("three", "drei\x85immer noch drei"),
    ]


def test_files_of_different_lengths_are_told_with_both_names_and_numbers(tmp_path: Path) -> None:
    src = written(tmp_path / "a.en", "one", "two", "three")
    tgt = written(tmp_path / "a.de", "eins", "zwei")
    with pytest.raises(CorpusError, match=rf"{tgt} has 2 lines but {src} has 3"):
        list(stream_pairs(CorpusFiles(src=src, tgt=tgt)))


def test_tsv_takes_the_first_two_columns(tmp_path: Path) -> None:
    tsv = written(tmp_path / "a.tsv", "one\teins", "two\tzwei\t0.9\tx", "\t", "four\t")
    assert list(stream_pairs(CorpusFiles(tsv=tsv))) == [
        ("one", "eins"),
        ("two", "zwei"),
        ("", ""),
        ("four", ""),
    ]


@pytest.mark.parametrize("line", ["", "two zwei"])
def test_a_tsv_line_without_a_tab_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    tsv = written(tmp_path / "a.tsv", "one\teins", line)
    with pytest.raises(CorpusError, match=rf"{tsv} line 2 has no tab"):
        list(stream_pairs(CorpusFiles(tsv=tsv)))


@pytest.mark.parametrize("lines", [[], [""], [" \t"], ["", "\ufeff", "\u3000"]], ids=ascii)
def test_a_corpus_without_text_is_told_with_its_files(tmp_path: Path, lines: list[str]) -> None:
    src, tgt = written(tmp_path / "a.en", *lines), written(tmp_path / "a.de", *lines)
    with pytest.raises(CorpusError, match=rf"{src} and {tgt}: the corpus is empty"):
        list(stream_pairs(CorpusFiles(src=src, tgt=tgt)))
    tsv = written(tmp_path / "a.tsv", *(f"{line.strip()}\t{line}" for line in lines))
    with pytest.raises(CorpusError, match=rf"{tsv}: the corpus is empty"):
        list(stream_pairs(CorpusFiles(tsv=tsv)))


def test_text_on_one_side_of_each_pair_only_is_an_empty_corpus(tmp_path: Path) -> None:
    src, tgt = written(tmp_path / "a.en", "one", ""), written(tmp_path / "a.de", "", "zwei")
    with pytest.raises(CorpusError, match="no line has text on both sides"):
        list(stream_pairs(CorpusFiles(src=src, tgt=tgt)))


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
