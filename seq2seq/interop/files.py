"""Files of other toolkits: what is wrong with one is one error, and no code in them is run."""

import json
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from seq2seq.errors import ModelFolderError

UNREADABLE = (OSError, EOFError, RuntimeError, UnpicklingError, TypeError, ValueError, KeyError)


def read_bytes(path: Path) -> bytes:
    """All of it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from None


def read_lines(path: Path) -> list[str]:
    """Split at line feeds only; the last one ends a line."""
    try:
        lines = read_bytes(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    return lines if lines[-1] else lines[:-1]


def read_json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object; the default if there is one and no file."""
    if default is not None and not path.exists():
        return default
    try:
        value = json.loads(read_bytes(path))
    except ValueError as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} is damaged: not an object.")
    return value


def read_checkpoint(path: Path, types: Sequence[type] = ()) -> dict[str, Any]:
    """What `torch.save` wrote: a dictionary of tensors, of plain values and of these types."""
    try:
        with torch.serialization.safe_globals(list(types)):
            value = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        said = str(error)
        named = said.partition("GLOBAL ")[2].partition(" ")[0]
        reason = f"it holds a {named}; only weights and plain values are read."
        reason = reason if named else said.partition("\n")[0]
        raise ModelFolderError(f"{path} cannot be read: {reason}") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} is damaged: it holds no dictionary.")
    return value
