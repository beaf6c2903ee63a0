"""A corpus must keep its alignment, and say where it has none."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from corpora import written

from seq2seq.data.corpus import CorpusFiles, Languages, Pair, files_of, stream_pairs
from seq2seq.errors import ConfigError, CorpusError


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
    assert list(stream_pairs(CorpusFiles(path=tsv))) == [
        ("one", "eins"),
        ("two", "zwei"),
        ("", ""),
        ("four", ""),
    ]


@pytest.mark.parametrize("line", ["", "two zwei"])
def test_a_tsv_line_without_a_tab_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    tsv = written(tmp_path / "a.tsv", "one\teins", line)
    with pytest.raises(CorpusError, match=rf"{tsv} line 2 has no tab"):
        list(stream_pairs(CorpusFiles(path=tsv)))


@pytest.mark.parametrize("lines", [[], [""], [" \t"], ["", "\ufeff", "\u3000"]], ids=ascii)
def test_a_corpus_without_text_is_told_with_its_files(tmp_path: Path, lines: list[str]) -> None:
    src, tgt = written(tmp_path / "a.en", *lines), written(tmp_path / "a.de", *lines)
    with pytest.raises(CorpusError, match=rf"{src} and {tgt}: the corpus is empty"):
        list(stream_pairs(CorpusFiles(src=src, tgt=tgt)))
    tsv = written(tmp_path / "a.tsv", *(f"{line.strip()}\t{line}" for line in lines))
    with pytest.raises(CorpusError, match=rf"{tsv}: the corpus is empty"):
        list(stream_pairs(CorpusFiles(path=tsv)))


def test_text_on_one_side_of_each_pair_only_is_an_empty_corpus(tmp_path: Path) -> None:
    src, tgt = written(tmp_path / "a.en", "one", ""), written(tmp_path / "a.de", "", "zwei")
    with pytest.raises(CorpusError, match="no line has text on both sides"):
        list(stream_pairs(CorpusFiles(src=src, tgt=tgt)))


@pytest.mark.parametrize(
    "names",
    [(), ("src",), ("tgt",), ("src", "path"), ("tgt", "path"), ("src", "tgt", "path")],
    ids=" ".join,
)
def test_other_combinations_of_files_are_told_with_what_was_given(names: tuple[str, ...]) -> None:
    files: dict[str, Any] = {name: f"data/a.{name}" for name in names}
    given = [f"{name}={files.get(name)}" for name in ("src", "tgt", "path")]
    with pytest.raises(ConfigError, match=re.escape(", ".join(given))):
        CorpusFiles(**files)


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.tmx.bz2"])
def test_an_unknown_ending_or_path_is_told_with_the_known_ones(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    known = r"\.tsv, \.jsonl, \.tmx, \.xlf, \.xliff, \.po, also with \.gz or \.zst"
    for prepare, wrong in ((path.exists, "does not exist"), (path.touch, "has no ending")):
        prepare()
        with pytest.raises(ConfigError, match=rf"^path={path} {wrong}.* {known}"):
            list(stream_pairs(CorpusFiles(path=str(path)), ("en", "de")))


def stem(folder: Path) -> str:
    """Three languages: plain, .gz and .zst; beside them a file of another stem and a folder."""
    written(folder / "train.en", "one", "two")
    (folder / "train.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (folder / "train.fr.zst").write_bytes(zstandard.compress(b"un\ndeux\n"))
    written(folder / "training.cs", "jedna", "dva")
    (folder / "train.old").mkdir()
    return str(folder / "train")


def test_of_many_text_files_the_languages_choose_two(tmp_path: Path) -> None:
    files = CorpusFiles(path=stem(tmp_path))
    assert list(stream_pairs(files, ("en", "de")))[1] == ("two", "zwei")
    assert list(stream_pairs(files, ("fr", "en")))[1] == ("deux", "two")


def test_of_one_language_plain_and_packed_the_plain_file_is_read(tmp_path: Path) -> None:
    files = CorpusFiles(path=stem(tmp_path))
    written(tmp_path / "train.de", "1", "2")
    assert list(stream_pairs(files, ("en", "de")))[1] == ("two", "2")


def test_a_language_without_a_file_is_told_with_the_files_there_are(tmp_path: Path) -> None:
    files = CorpusFiles(path=stem(tmp_path))
    there = ", ".join(f"{files.path}.{end}" for end in ("de.gz", "en", "fr.zst"))
    for src_lang, tgt_lang in (("it", "en"), ("en", "it")):
        with pytest.raises(
            CorpusError, match=rf"{files.path}\.it does not .* {re.escape(there)}\.$"
        ):
            list(stream_pairs(files, (src_lang, tgt_lang)))


@pytest.mark.parametrize("langs", [("", ""), ("en", ""), ("", "en")], ids=" ".join)
def test_many_text_files_without_languages_ask_for_them(tmp_path: Path, langs: Languages) -> None:
    with pytest.raises(ConfigError, match=r"set src_lang and tgt_lang.* ''"):
        list(stream_pairs(CorpusFiles(path=stem(tmp_path)), langs))


def test_the_sources_of_a_corpus_are_the_files_that_are_read(tmp_path: Path) -> None:
    langs = "en", "de"
    two = CorpusFiles(src="a.en", tgt="a.de")
    assert files_of(two, langs) == [Path("a.en"), Path("a.de")]
    assert files_of(CorpusFiles(path="a.tmx.gz"), langs) == [Path("a.tmx.gz")]
    by_stem = files_of(CorpusFiles(path=stem(tmp_path)), langs)
    assert by_stem == [tmp_path / "train.en", tmp_path / "train.de.gz"]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.TSV.gz", "memory.tmx"])
def test_a_file_of_both_sides_is_no_side(name: str) -> None:
    for src, tgt in ((name, "a.de"), ("a.en", name)):
        with pytest.raises(ConfigError, match=f"{name} holds both sides of a corpus"):
            CorpusFiles(src=src, tgt=tgt)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_that_is_no_share_is_an_error(weight: float) -> None:
    with pytest.raises(ConfigError, match=f"weight={weight} is not a share"):
        CorpusFiles(path="a.tsv", weight=weight)
