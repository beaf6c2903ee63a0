"""Corpus files become pairs of lines.

Lines end at "\\n" and nowhere else: other separators (U+2028, form feed ...) are text, and a reader
that split there would misalign everything that follows.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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

    def __post_init__(self) -> None:
        two, one = (self.src is not None, self.tgt is not None), self.tsv is not None
        if (one and any(two)) or not (one or all(two)):
            raise ConfigError(
                f"a corpus is src and tgt, or tsv alone; got src={self.src}, tgt={self.tgt}, "
                f"tsv={self.tsv}."
            )


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends; .gz is unpacked."""
    path = Path(path)
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise CorpusError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise CorpusError(f"{path} is a folder; a text file is expected.") from None
    except PermissionError:
        raise CorpusError(f"{path} may not be read: permission denied.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is no complete gzip file: {error}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None
    return decode_lines(raw, str(path))


def decode_lines(raw: bytes, name: str) -> list[str]:
    """Split at "\\n" and decode; `name` is told in errors."""
    lines = raw.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        return [line.decode("utf-8") for line in lines]
    except UnicodeDecodeError:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                bad = line[error.start : error.start + 1].hex()
                raise CorpusError(
                    f"{name} line {number}: byte 0x{bad} at column {error.start + 1} is not UTF-8; "
                    f"convert the file first."
                ) from None
        raise


def read_pairs(files: CorpusFiles) -> list[Pair]:
    """All pairs of a corpus, in file order; an empty corpus is a CorpusError."""
    if files.tsv is not None:
        pairs, name = _read_tsv(files.tsv), files.tsv
    else:
        assert files.src is not None
        assert files.tgt is not None
        src, tgt = read_lines(files.src), read_lines(files.tgt)
        if len(src) != len(tgt):
            raise CorpusError(
                f"{files.tgt} has {len(tgt)} lines but {files.src} has {len(src)}; "
                f"line n of one must translate line n of the other."
            )
        pairs, name = list(map(Pair, src, tgt)), f"{files.src} and {files.tgt}"
    if not any(clean(pair.src) and clean(pair.tgt) for pair in pairs):
        raise CorpusError(f"{name}: the corpus is empty, no line has text on both sides.")
    return pairs


def _read_tsv(path: str) -> list[Pair]:
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise CorpusError(f"{path} line {number} has no tab; expected source TAB translation.")
        pairs.append(Pair(columns[0], columns[1]))
    return pairs
