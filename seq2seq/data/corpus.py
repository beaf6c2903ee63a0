"""Corpus files become pairs of sentences."""

import math
import os.path
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape, glob
from itertools import zip_longest
from pathlib import Path

from seq2seq.data.formats import READERS, Sides, check_sentences, reader_of
from seq2seq.data.formats import Pair as Pair  # what a corpus consists of
from seq2seq.data.huggingface import read_dataset
from seq2seq.data.lines import OPENERS, Errors, read_lines
from seq2seq.errors import ConfigError, CorpusError

HUGGING_FACE = "hf:"
Languages = tuple[str, str]
"""Codes of source and target, "" where unknown: they choose from what holds several languages."""


@dataclass(frozen=True, kw_only=True)
class CorpusFiles:
    """Where a corpus is: two text files whose lines translate each other, or one `path`."""

    src: str | None = None
    """Source sentences, one a line; .gz and .zst are unpacked."""
    tgt: str | None = None
    """Their translations, line by line."""
    path: str | None = None
    """Instead of `src` and `tgt`: one file with both sides, whose suffix tells the format (.tsv,
    .jsonl, .tmx, .xlf, .xliff or .po; also with .gz or .zst), or the common beginning STEM of text
    files STEM.LANG that data.src_lang and data.tgt_lang choose from, or a Hugging Face dataset
    hf:FOLDER, hf:NAME or hf:NAME:CONFIGURATION."""
    src_field: str = "src"
    """Of JSONL and datasets: the field of the source sentence; a dot goes inward, as in
    translation.en."""
    tgt_field: str = "tgt"
    """Of JSONL and datasets: the field of the translation."""
    split: str = "train"
    """Of datasets: which split."""
    weight: float | None = None
    """Share of the training batches, relative to the other corpora of the run."""

    def __post_init__(self) -> None:
        two, one = (self.src is not None, self.tgt is not None), self.path is not None
        if (one and any(two)) or not (one or all(two)):
            replaced = "; for a path instead of src and tgt set both to null" if one else ""
            raise ConfigError(
                f"a corpus is src and tgt, or path alone; got src={self.src}, tgt={self.tgt}, "
                f"path={self.path}{replaced}."
            )
        for side in filter(None, (self.src, self.tgt)):
            if reader_of(side):
                raise ConfigError(
                    f"{side} holds both sides of a corpus, as its ending tells; rename it if its "
                    f"lines are sentences, or give it alone where one path may hold both sides."
                )
        if self.weight is not None and not 0 < self.weight < math.inf:
            raise ConfigError(f"weight={self.weight} is not a share; use a number above 0.")

    def __str__(self) -> str:
        return self.path if self.path is not None else f"{self.src} and {self.tgt}"

    @property
    def dataset(self) -> str | None:
        """What stands behind hf: where it is a Hugging Face dataset; None where it is files."""
        path = self.path or ""
        return path.removeprefix(HUGGING_FACE) if path.startswith(HUGGING_FACE) else None


def stream_pairs(files: CorpusFiles, languages: Languages = ("", "")) -> Iterator[Pair]:
    """The pairs of a corpus in file order, in constant memory.

    Raises CorpusError where the corpus cannot be read, and at its end if no pair had text on both
    sides.
    """
    empty = True
    for pair in read_pairs(files, languages):
        empty = empty and not pair.full
        yield pair
    if empty:
        raise CorpusError(f"{files}: the corpus is empty, no line has text on both sides.")


def files_of(files: CorpusFiles, languages: Languages = ("", "")) -> list[Path]:
    """The files that the pairs are read from: two text files, one with both sides, or none where
    they are a Hugging Face dataset."""
    if files.dataset is not None:
        return []
    if files.path is not None and reader_of(files.path):
        return [Path(files.path)]
    return [Path(path) for path in _two_files(files, languages)]


def read_pairs(
    files: CorpusFiles, languages: Languages = ("", ""), errors: Errors = "strict"
) -> Iterator[Pair]:
    """As `stream_pairs`, but no error where none has text on both sides. `errors` is for what
    has both sides: the lines of a file, the rows of a dataset."""
    fields = {"src_field": files.src_field, "tgt_field": files.tgt_field}
    sides = Sides(src_lang=languages[0], tgt_lang=languages[1], **fields)
    if files.dataset is not None:
        return read_dataset(files.dataset, files.split, sides, errors)
    if files.path is not None and (reader := reader_of(files.path)):
        return reader(files.path, sides, errors)
    return parallel_lines(*_two_files(files, languages))


def parallel_lines(src: str, tgt: str) -> Iterator[Pair]:
    """The pairs of two text files, in order; at their end CorpusError if one has more lines."""
    counts = [0, 0]
    for src_line, tgt_line in zip_longest(read_lines(src), read_lines(tgt)):
        counts[0] += src_line is not None
        counts[1] += tgt_line is not None
        if counts[0] == counts[1]:
            yield Pair(src_line, tgt_line)
    if counts[0] != counts[1]:
        raise CorpusError(
            f"{tgt} has {counts[1]} lines but {src} has {counts[0]}; "
            f"line n of one must translate line n of the other."
        )


def read_sentences(src: str, tgt: str | None = None) -> tuple[list[str], list[str] | None]:
    """Lines of a text file, and their translations, if there is a file of them."""
    for path in filter(None, (src, tgt)):
        check_sentences(path)
    if tgt is None:
        return list(read_lines(src)), None
    pairs = list(parallel_lines(src, tgt))
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def _two_files(files: CorpusFiles, languages: Languages) -> tuple[str, str]:
    """The text files of a corpus: `src` and `tgt`, or two of a stem's by their languages."""
    if files.path is None:
        assert files.src is not None
        assert files.tgt is not None
        return files.src, files.tgt
    stem = str(Path(files.path))
    there = sorted(filter(os.path.isfile, glob(f"{escape(stem)}.*")))
    if os.path.isfile(stem) or not there:
        exists = os.path.exists(stem)
        wrong = "has no ending that tells a format" if exists else "does not exist"
        raise ConfigError(
            f"path={files.path} {wrong}, nor are there text files {stem}.LANG; the endings of "
            f"formats are {', '.join(READERS)}, also with {' or '.join(OPENERS)} behind; a dataset "
            f"is {HUGGING_FACE}NAME."
        )
    choices = ", ".join(there)
    if not all(languages):
        raise ConfigError(
            f"path={files.path} leaves a choice of {choices}: set src_lang and tgt_lang, which are "
            f"{languages[0]!r} and {languages[1]!r}."
        )
    chosen = []
    for lang in languages:
        names = [f"{stem}.{lang}{packing}" for packing in ("", *OPENERS)]
        found = [name for name in names if name in there]
        if not found:
            raise CorpusError(f"{names[0]} does not exist; there are {choices}.")
        chosen.append(found[0])
    return chosen[0], chosen[1]
