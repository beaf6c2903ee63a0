"""JSONL: lines that hold a JSON object each, read and written."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as short_repr
from typing import Any

from seq2seq.data.lines import Errors
from seq2seq.errors import CorpusError

Fields = Mapping[str, Any]
"""What a JSON object holds, numbers as they are."""


def json_object(line: str, where: str) -> dict[str, Any]:
    """The fields of a line of JSONL, without byte-order marks at its beginning, as files that were
    joined have them; `where` begins the errors."""
    line = line.lstrip("\ufeff")
    if not line.strip():
        raise CorpusError(f"{where} is blank; expected one JSON object on each line.")
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where} column {error.colno} is not JSON: {error.msg}.") from None
    except (ValueError, RecursionError) as error:  # a giant number, deep nesting
        raise CorpusError(f"{where} cannot be read: {error}.") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{where} is {short_repr(record)}; expected a JSON object.")
    return record


SENTENCE_FIELDS = "text", "src"
"""Where a JSON line has the sentence to translate: as it was given, or as in a corpus."""


def text_in(record: dict[str, Any], names: Sequence[str], where: str) -> str:
    """The first of these fields that a record has; `where` begins the errors."""
    name = next((name for name in names if name in record), None)
    if name is None:
        wanted, there = '" or "'.join(names), listed(record)
        raise CorpusError(f'{where} has no field "{wanted}"; its fields are {there}.')
    text = record[name]
    if not isinstance(text, str):
        raise CorpusError(f'{where}: "{name}" is {short_repr(text)}, not text.')
    return text


def listed(names: Iterable[str]) -> str:
    """For errors, in quotes: a field may be called as a setting is."""
    return ", ".join(f'"{name}"' for name in names) or "(none)"


def check_characters(text: str, where: str, errors: Errors = "strict") -> None:
    """Raise CorpusError for half of a surrogate pair, which no file can hold; JSON escapes can."""
    try:
        text.encode(errors=errors)
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"{where} holds \\u{ord(text[error.start]):x}, half of a surrogate pair, as its "
            f"character {error.start + 1}; mend or drop this entry."
        ) from None


def json_fields(fields: Fields) -> dict[str, Any]:
    """The same, with null for numbers that JSON does not have: infinity, and no number at all."""
    return {name: _finite(value) for name, value in fields.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_finite, value))
    if isinstance(value, dict):
        return json_fields(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_row(fields: Fields) -> str:
    """A line of JSONL."""
    row = json.dumps(fields, ensure_ascii=False)
    try:
        row.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, handed on
        return json.dumps(fields)
    return row
