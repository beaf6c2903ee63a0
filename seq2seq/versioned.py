"""JSON files of ours: an object with the version of its format, whose parts have known types."""

import json
import math
from collections.abc import Set
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from seq2seq.errors import ModelFolderError


def read_versioned(path: Path, version: int, kind: type) -> dict[str, Any]:
    """The object without its version; ModelFolderError names a file that cannot be read, is of
    another version, or does not fit `kind`, a TypedDict or a dataclass."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = content.pop("format_version", None) if isinstance(content, dict) else None
        odd = misfit(content, kind)
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    if type(found) is not int or found != version:
        raise ModelFolderError(f"{path} has format_version={found}; this seq2seq reads {version}.")
    if odd:
        raise ModelFolderError(f"{path} is damaged: {odd}.")
    return content


def misfit(value: Any, kind: Any, where: str = "") -> str:
    """Says which part of a value, found at `where`, does not have the type `kind`; "" if it fits.
    Unknown keys are allowed."""
    if kind is Any:
        return ""
    fits, parts = True, list[tuple[Any, Any, str]]()
    if is_typeddict(kind) or is_dataclass(kind):
        hints, fits = get_type_hints(kind), isinstance(value, dict)
        if fits and (missing := sorted(_required(kind) - value.keys())):
            return f"{where}.{missing[0]}".lstrip(".") + " is missing"
        parts = [(value[k], hints[k], f"{where}.{k}") for k in hints if fits and k in value]
    elif get_origin(kind) is list:
        fits = isinstance(value, list)
        items = enumerate(value if fits else [])
        parts = [(x, get_args(kind)[0], f"{where}[{i}]") for i, x in items]
    elif get_origin(kind) is dict:
        fits = isinstance(value, dict)
        parts = [(x, get_args(kind)[1], f"{where}.{k}") for k, x in value.items()] if fits else []
    elif get_origin(kind) is Literal:
        fits = value in get_args(kind)
    elif kind is float:
        fits = type(value) in (int, float) and abs(value) < math.inf
    else:
        fits = type(value) in (get_args(kind) or (kind,))
    if not fits:
        return f"{where.lstrip('.') or 'it'} is {shown(value)}"
    return next(filter(None, (misfit(*part) for part in parts)), "")


def shown(value: object) -> str:
    """In an error: short, whatever is inside."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!r:.40}"


def _required(kind: Any) -> Set[str]:
    if is_dataclass(kind):
        return {each.name for each in fields(kind) if each.default is MISSING}
    return frozenset(kind.__required_keys__)
