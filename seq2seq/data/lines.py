"""Files become lines of text.

Lines end at "\\n" and nowhere else: other separators (U+2028, form feed ...) are text, and a reader
that split there would misalign everything that follows.
"""

import gzip
import io
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import zstandard

from seq2seq.errors import CorpusError

Errors = Literal["strict", "surrogateescape"]


class ZstdFile(io.RawIOBase):
    """A .zst file, unpacked: all of its frames, and EOFError if the last one is cut.

    zstandard's own readers stop silently in both places.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: Any = None
        """What unpacks the frame that is being read; None between two frames."""
        self._packed, self._ready = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._packed = self._packed or self._file.read(io.DEFAULT_BUFFER_SIZE)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends inside a frame")
                return 0
            self._frame = self._frame or _decompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(self._packed))
            self._packed = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _decompressor() -> zstandard.ZstdDecompressor:
    """One that takes frames made with --long, too."""
    return zstandard.ZstdDecompressor(max_window_size=2**31)


OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".zst": lambda path, _: io.BufferedReader(ZstdFile(open(path, "rb"))),  # noqa: SIM115
}
"""By the last suffix: what unpacks a file."""
OTHERWISE_PACKED = {".bz2", ".xz", ".zip"}
"""Last suffixes of files that are not unpacked."""
UNPACKERS = {
    b"\x1f\x8b": "gzip -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zXZ\x00": "xz -dc",
    b"BZh": "bzip2 -dc",
    b"PK\x03\x04": "funzip",
}
"""By the first bytes of what is packed: the command that unpacks it in a pipe."""


@contextmanager
def _pack_gzip(path: str | Path | int, mode: str) -> Iterator[BinaryIO]:
    """Without name and time: the same text is the same bytes, which name its store."""
    with open(path, mode) as raw, gzip.GzipFile("", mode, fileobj=raw, mtime=0) as file:
        yield cast(BinaryIO, file)


@contextmanager
def _pack_zstd(path: str | Path | int, mode: str) -> Iterator[BinaryIO]:
    with open(path, mode) as raw, zstandard.open(cast(BinaryIO, raw), mode) as file:
        yield cast(BinaryIO, file)


PACKERS: dict[str, Any] = {".gz": _pack_gzip, ".zst": _pack_zstd}
"""By the last suffix: what packs a file, which is given by its path or, if open, by its number."""


@contextmanager
def open_bytes(path: str | Path, *, unpack: bool = True) -> Iterator[BinaryIO]:
    """The bytes of a file, .gz and .zst unpacked; whatever is wrong with it is a CorpusError."""
    path = Path(path)
    opener = OPENERS.get(path.suffix, open) if unpack else open
    try:
        if opener is not open and path.is_file() and path.stat().st_size == 0:
            raise EOFError("it is empty")  # which gzip takes for a file of no lines
        with opener(path, "rb") as file:
            if unpack and path.suffix in OTHERWISE_PACKED:
                raise CorpusError(
                    f"{path} is packed, but only {' and '.join(OPENERS)} are unpacked; pack it as "
                    f"one of them, or unpack it first."
                )
            yield file
    except FileNotFoundError:
        raise CorpusError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise CorpusError(f"{path} is a folder; a file is expected.") from None
    except PermissionError:
        raise CorpusError(f"{path} may not be read: permission denied.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        kind = "zstd" if path.suffix == ".zst" else "gzip"
        raise CorpusError(f"{path} is not a complete {kind} file: {error}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None


def is_pipe(path: str | Path) -> bool:
    """Whether it gives its text once: there, and neither a file nor a folder."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def refuse_pipe(path: str | Path) -> None:
    """Raise CorpusError for a pipe where a file is read twice."""
    if is_pipe(path):
        raise CorpusError(f"{path} is a pipe; it is read twice, so write it to a file first.")


def read_lines(path: str | Path, *, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file, one after the other, without their ends."""
    with open_bytes(path) as file:
        yield from decode_lines(file, str(path), errors=errors)


def check_aligned(one: str, other: str) -> None:
    """CorpusError unless two files have as many lines; before hours of work, not after.

    A pipe is not checked here: its lines can be counted only at its end."""
    if is_pipe(one) or is_pipe(other):
        return
    counts = [sum(1 for _ in read_lines(path)) for path in (one, other)]
    if counts[0] != counts[1]:
        raise CorpusError(
            f"{one} has {counts[0]} lines but {other} has {counts[1]}; line n of one must belong "
            f"to line n of the other."
        )


def decode_lines(lines: Iterable[bytes], name: str, *, errors: Errors = "strict") -> Iterator[str]:
    """Lines as a binary file yields them -> text, without a byte-order mark at the beginning;
    errors begin with `name`.

    With "surrogateescape" a byte that is not UTF-8 becomes a lone surrogate, which writing with
    the same handler turns back into the byte.
    """
    unpackers = list[str]()
    for number, line in enumerate(lines, start=1):
        if number == 1:
            unpackers = [name for begins, name in UNPACKERS.items() if line.startswith(begins)]
            line = line.removeprefix(BOM_UTF8)
        try:
            yield line.removesuffix(b"\n").decode("utf-8", errors)
        except UnicodeDecodeError as error:
            if unpackers:
                raise CorpusError(
                    f"{name} looks packed, as its first bytes tell; unpack it before, with "
                    f"`{unpackers[0]}`."
                ) from None
            bad = line[error.start : error.start + 1].hex()
            raise CorpusError(
                f"{name} line {number}: byte 0x{bad} at column {error.start + 1} is not UTF-8; "
                f"convert the file first."
            ) from None
