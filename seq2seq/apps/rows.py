"""Lines in, rows out: what commands read and write, as text or as JSON, one object a line.

A format of the input is a function in READERS, one of the output a function in WRITERS. What is
asked for besides a translation is one more field of the object, or one more column of the text.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.data.formats import read_jsonl, reader_of
from seq2seq.data.json_lines import (
    SENTENCE_FIELDS,
    Fields,
    json_fields,
    json_object,
    json_row,
    text_in,
)
from seq2seq.errors import CorpusError
from seq2seq.sentence import Sentence
from seq2seq.translation import Translation

if TYPE_CHECKING:
    from seq2seq.decoding.alignment import Links
    from seq2seq.second_look import TokenScores
    from seq2seq.translator import Translator

DIGITS = 6
"""Of a number that is computed, after the point."""
OURS = {"translation", "score", "alignment", "tokens", "token_scores", "translations"}
"""Fields of JSON rows that tell what a model said; in an input they are of another run."""


class Line(NamedTuple):
    """A line of the input."""

    sentence: Sentence
    fields: Fields
    """What a JSON row hands on, but for `OURS`, as JSON has it."""


def read_text(line: str, where: str) -> Line:
    """The line is the sentence."""
    return Line(Sentence(line), {"text": line})


def read_json(line: str, where: str) -> Line:
    """An object with the sentence as its "text" or, as in a corpus, its "src", and perhaps the
    "prefix" of the translation and a list of "terms" that it must hold; `where` begins the errors.
    """
    fields = json_object(line, where)
    try:
        fields = json_fields(fields)
    except RecursionError as error:
        raise CorpusError(f"{where} cannot be read: {error}.") from None
    text = text_in(fields, SENTENCE_FIELDS, where)
    prefix = text_in({"prefix": "", **fields}, ["prefix"], where)
    terms = fields.get("terms", [])
    if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
        raise CorpusError(f'{where}: "terms" is {short_repr(terms)}, not a list of texts.')
    return Line(Sentence(text, prefix, terms), fields)


class Asked(NamedTuple):
    """What rows tell of a translation besides its text and its score."""

    token_scores: bool = False
    alignment: bool = False


def tell(
    translator: "Translator",
    lines: Sequence[tuple[Line, Sequence[Translation]]],
    asked: Asked,
) -> list[list[dict[str, Any]]]:
    """The fields of each translation of each line, a second look taken if need be; what was said
    of the pieces of a line has no place in the whole, so that there is nothing to look at."""
    flat = [(line.sentence.text, each) for line, found in lines for each in found]
    rows: list[dict[str, Any]] = [
        {"translation": each.text, "score": round(each.score, DIGITS)} for _, each in flat
    ]
    whole = [place for place, (_, each) in enumerate(flat) if each.pieces == 1]
    texts, said = [flat[place][0] for place in whole], [flat[place][1] for place in whole]
    if asked.alignment:
        links = dict(zip(whole, translator.align(texts, said), strict=True))
        for place, row in enumerate(rows):
            row["alignment"] = pharaoh(links.get(place, []))
    if asked.token_scores:
        scores = dict(zip(whole, translator.score(texts, said), strict=True))
        for place, row in enumerate(rows):
            row |= token_fields(scores.get(place))
    rest = iter(rows)
    return [list(islice(rest, len(found))) for _, found in lines]


def pharaoh(links: "Links") -> str:
    """As aligners write them: 0-0 2-1."""
    return " ".join(f"{src}-{tgt}" for src, tgt in links)


def token_fields(scores: "TokenScores | None") -> dict[str, Any]:
    """Of each token; of none where nobody was asked."""
    if scores is None:
        return {"tokens": [], "token_scores": []}
    log_probs = [round(each, DIGITS) for each in scores.log_probs]
    return {"tokens": scores.tokens, "token_scores": log_probs}


def columns_of(fields: Fields) -> list[str]:
    """What was asked for, as columns of text."""
    columns = [fields["alignment"]] if "alignment" in fields else []
    if "tokens" in fields:
        columns += [" ".join(fields["tokens"]), " ".join(map(decimal, fields["token_scores"]))]
    return columns


def decimal(number: float) -> str:
    """As text shows it."""
    return f"{number:.4f}"


def write_text(number: int, line: Line, told: Sequence[Fields], n_best: int) -> Iterator[str]:
    """A translation and its columns; with several, the number of the line, from 0, and the score
    before them."""
    for each in told:
        columns = [each["translation"], *columns_of(each)]
        if n_best > 1:
            columns = [str(number), decimal(each["score"]), *columns]
        yield "\t".join(columns)


def write_json(number: int, line: Line, told: Sequence[Fields], n_best: int) -> Iterator[str]:
    """The fields of the line but for `OURS`, and those of its translation; several are a list of
    objects in "translations"."""
    found = list(map(json_fields, told))
    kept = {name: value for name, value in line.fields.items() if name not in OURS}
    yield json_row({**kept, **(found[0] if n_best == 1 else {"translations": found})})


READERS: dict[str, Callable[[str, str], Line]] = {"text": read_text, "jsonl": read_json}
WRITERS: dict[str, Callable[[int, Line, Sequence[Fields], int], Iterator[str]]] = {
    "text": write_text,
    "jsonl": write_json,
}


def format_of(path: str | Path | None) -> str:
    """What the ending of a file's name tells; text without one, and without a file."""
    return "jsonl" if reader_of(str(path or "")) is read_jsonl else "text"
