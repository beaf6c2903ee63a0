"""Corpus files become pairs of sentences."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from seq2seq.data.lines import read_lines
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.text.normalize import clean


class Pair(NamedTuple):
    """A sentence and its translation."""

    src: str
    tgt: str


@dataclass(frozen=True, kw_only=True)
class CorpusFiles:
    """Where a corpus is: two files whose lines translate each other, or one TSV file."""

    src: str | None = None
    """Source sentences, one a line; .gz is unpacked."""
    tgt: str | None = None
    """Their translations, line by line."""
    tsv: str | None = None
    """Source TAB translation, further columns ignored; instead of `src` and `tgt`."""
    weight: float | None = None
    """Share of the training batches, relative to the other corpora of a run."""

    def __post_init__(self) -> None:
        two, one = (self.src is not None, self.tgt is not None), self.tsv is not None
        if (one and any(two)) or not (one or all(two)):
            raise ConfigError(
                f"a corpus is src and tgt, or tsv alone; got src={self.src}, tgt={self.tgt}, "
                f"tsv={self.tsv}."
            )

    def __str__(self) -> str:
        return self.tsv if self.tsv is not None else f"{self.src} and {self.tgt}"


def sources(files: CorpusFiles, *, src_lang: str, tgt_lang: str) -> list[Path] | str:
    """The files whose content decides the pairs."""
    return [Path(path) for path in (files.src, files.tgt, files.tsv) if path is not None]


def stream_pairs(files: CorpusFiles, *, src_lang: str = "", tgt_lang: str = "") -> Iterator[Pair]:
    """The pairs of a corpus in file order, in constant memory.

    Raises CorpusError where the corpus cannot be read, and at its end if no pair had text on both
    sides.
    """
    empty = True
    for pair in _read_tsv(files.tsv) if files.tsv is not None else _read_two(files):
        empty = empty and not (clean(pair.src) and clean(pair.tgt))
        yield pair
    if empty:
        raise CorpusError(f"{files}: the corpus is empty, no line has text on both sides.")


def _read_two(files: CorpusFiles) -> Iterator[Pair]:
    assert files.src is not None
    assert files.tgt is not None
    counts = [0, 0]
    for src, tgt in zip_longest(read_lines(files.src), read_lines(files.tgt)):
        counts[0] += src is not None
        counts[1] += tgt is not None
        if counts[0] == counts[1]:
            yield Pair(src, tgt)
    if counts[0] != counts[1]:
        raise CorpusError(
            f"{files.tgt} has {counts[1]} lines but {files.src} has {counts[0]}; "
            f"line n of one must translate line n of the other."
        )


def _read_tsv(path: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise CorpusError(f"{path} line {number} has no tab; expected source TAB translation.")
        yield Pair(columns[0], columns[1])
