"""model.bin, as CTranslate2 3 and 4 write it; all numbers are little-endian.

    uint32 version; text name of the specification; uint32 its revision
    uint32 n, n times: text name; uint8 rank; uint32 size per axis; uint8 type; uint32 bytes; data
    uint32 n, n times: text alias; text name that it stands for

A text is uint16 length, UTF-8, and a zero byte, which the length counts (`ctranslate2.specs.
model_spec` of CTranslate2 4.8).
"""

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.interop.files import read_bytes

VERSION = 6
TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)


class Binary(NamedTuple):
    """What a file holds."""

    specification: str
    revision: int
    variables: dict[str, Tensor]
    """Under their names and their aliases; arrays in fp32, single numbers as they are stored."""


def read_binary(path: Path) -> Binary:
    """ModelFolderError tells of a damaged file, and of another version of the format."""
    fields = _Fields(read_bytes(path))
    try:
        version = fields.number("I")
        if version != VERSION:
            raise ModelFolderError(
                f"{path} has binary version {version}; this seq2seq reads {VERSION}, which "
                f"CTranslate2 3 and 4 write: convert the original model again with one of them."
            )
        name, revision = fields.text(), fields.number("I")
        variables = {fields.text(): fields.tensor() for _ in range(fields.number("I"))}
        aliases = {fields.text(): fields.text() for _ in range(fields.number("I"))}
        fields.finish()
        variables = _dequantised(variables)
        variables |= {alias: variables[original] for alias, original in aliases.items()}
    except (struct.error, ValueError, LookupError, RuntimeError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    return Binary(name, revision, variables)


def _dequantised(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """int8 has a scale per row and int16 one for the whole matrix, which it was multiplied by."""
    found = dict(stored)
    for name, value in stored.items():
        if value.dim() and value.dtype in (torch.int8, torch.int16):
            scale = found.pop(f"{name}_scale")  # (rows,) or ()
            found[name] = value.float() / scale.float().view(-1, *[1] * (value.dim() - 1))
        elif value.dim() and name in found:
            found[name] = value.float()
        elif not value.isfinite().all():
            raise ValueError(f"{name} is {value.item()}")
    return found


class _Fields:
    """Reads one field after the other; struct.error or ValueError where there is none."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = memoryview(data), 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self._bytes(struct.calcsize(f"<{kind}")))
        return int(value)

    def text(self) -> str:
        return bytes(self._bytes(self.number("H"))).rstrip(b"\0").decode()

    def tensor(self) -> Tensor:
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind, size = TYPES[self.number("B")], self.number("I")
        if size != prod(shape) * kind.itemsize:
            raise ValueError(f"{size} bytes are no {kind} of shape {tuple(shape)}")
        return torch.frombuffer(bytearray(self._bytes(size)), dtype=kind).view(shape)

    def finish(self) -> None:
        if self.place < len(self.data):
            raise ValueError(f"there is more behind byte {self.place}")

    def _bytes(self, size: int) -> memoryview:
        if self.place + size > len(self.data):
            raise ValueError("it ends too early")
        self.place += size
        return self.data[self.place - size : self.place]
