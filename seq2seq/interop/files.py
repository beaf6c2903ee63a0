"""Files of other toolkits: what is wrong with one is one error, and no code in them is run."""

import errno
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.memory import ran_out

_ARRAY, _NUMBER = (each.__reduce__()[0] for each in (np.zeros(0), np.float64(0)))
NUMPY: list[Any] = [
    np.ndarray,
    np.dtype,
    *(type(np.dtype(code)) for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]),
    *((_ARRAY, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((_NUMBER, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]
"""What a pickle makes numbers and arrays of numbers of, as numpy 1 and 2 name it."""


def read_bytes(path: Path) -> bytes:
    """All of it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # a name with a zero byte, from a file
        raise ModelFolderError(f"{str(path)!r} cannot be read: {error}.") from None


def read_text(path: Path) -> str:
    """All of it, in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None


def read_lines(path: Path) -> list[str]:
    """Split at line feeds only; the last one ends a line."""
    lines = read_text(path).split("\n")
    return lines if lines[-1] else lines[:-1]


def read_json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object; the default if there is one and no file."""
    if default is not None and not path.exists():
        return default
    value = read_any_json(path)
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} is damaged: not an object.")
    return value


def read_any_json(path: Path) -> Any:
    """Whatever it holds."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None


def text_of(settings: Mapping[str, Any], name: str) -> str:
    """A setting; empty where it is not there, or something else."""
    value = settings.get(name)
    return value if isinstance(value, str) else ""


def read_checkpoint(path: Path, types: Sequence[type] = ()) -> dict[str, Any]:
    """What `torch.save` wrote: a dictionary of tensors, of plain values, numpy's included, and of
    these types."""
    try:
        with torch.serialization.safe_globals([*NUMPY, *types]):
            value = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of what is damaged, torch raises whatever it meets
        # In a small one that was cut off it looks for the end before the beginning: EINVAL.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from None
        if ran_out(error):
            raise ModelFolderError(f"{path} does not fit into memory.") from None
        if named := str(error).partition("GLOBAL ")[2].partition(" ")[0]:
            raise ModelFolderError(
                f"{path} cannot be read: it holds a {named}; only weights and plain values are "
                f"read."
            ) from None
        # What torch says may advise to run the code in it.
        raise ModelFolderError(
            f"{path} cannot be read: torch finds no plain weights and values in it; it is damaged, "
            f"or was saved in another way (TorchScript, another pickle protocol)."
        ) from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} is damaged: it holds no dictionary.")
    return value


def weights_in(path: Path, value: object, what: str) -> dict[str, Tensor]:
    """Tensors by their names, in fp32; ModelFolderError if `value`, which is what `path` has, is
    anything else, and where a tensor claims more numbers than there are."""
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} is damaged: {what} is not a dictionary of weights.")
    if odd := [name for name, weight in value.items() if not _is_weight(name, weight)]:
        raise ModelFolderError(f"{path} is damaged: {odd[0]} in {what} is not an array of numbers.")
    return {name: tensor.float() for name, tensor in value.items()}


def _is_weight(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, Tensor) or value.is_nested:
        return False
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        return False
    return value.numel() * value.itemsize <= value.untyped_storage().nbytes()
