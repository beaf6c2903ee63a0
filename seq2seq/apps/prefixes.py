"""Beginnings of translations, from a file beside the input."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, zip_longest

from seq2seq.apps.rows import Line
from seq2seq.data.lines import read_lines
from seq2seq.errors import CorpusError
from seq2seq.text.normalize import clean


def begun_with(path: str, lines: Iterable[Line], source: str, skipped: int) -> Iterator[Line]:
    """Lines of `source` without the first `skipped` ones, each with its prefix: the same line of
    the file `path` or, where that is blank, what it has."""
    prefixes = islice(read_lines(path), skipped, None)
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), start=skipped + 1):
        if line is None or prefix is None:
            ended, longer = (source, path) if line is None else (path, source)
            raise CorpusError(
                f"{ended} ends before line {number} of {longer}; line n of one must begin the "
                f"translation of line n of the other."
            )
        begun = line.sentence if not clean(prefix) else replace(line.sentence, prefix=prefix)
        yield line._replace(sentence=begun)
