"""Files become lines of text.

Lines end at "\\n" and nowhere else: other separators (U+2028, form feed ...) are text, and a reader
that split there would misalign everything that follows.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import zstandard

from seq2seq.errors import CorpusError

Errors = Literal["strict", "surrogateescape"]

OPENERS: dict[str, Any] = {".gz": gzip.open, ".zst": zstandard.open}
"""By the last suffix: what unpacks a file."""


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, .gz and .zst unpacked; whatever is wrong with it is a CorpusError."""
    path = Path(path)
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise CorpusError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise CorpusError(f"{path} is a folder; a file is expected.") from None
    except PermissionError:
        raise CorpusError(f"{path} may not be read: permission denied.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as error:
        kind = "zstd" if path.suffix == ".zst" else "gzip"
        raise CorpusError(f"{path} is no complete {kind} file: {error}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None


def read_lines(path: str | Path, *, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file, one after the other, without their ends."""
    with open_bytes(path) as file:
        yield from decode_lines(file, str(path), errors=errors)


def decode_lines(lines: Iterable[bytes], name: str, *, errors: Errors = "strict") -> Iterator[str]:
    """Lines as a binary file yields them -> text; `name` is told in errors.

    With "surrogateescape" a byte that is not UTF-8 becomes a lone surrogate, which writing with
    the same handler turns back into the byte.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removesuffix(b"\n").decode("utf-8", errors)
        except UnicodeDecodeError as error:
            bad = line[error.start : error.start + 1].hex()
            raise CorpusError(
                f"{name} line {number}: byte 0x{bad} at column {error.start + 1} is not UTF-8; "
                f"convert the file first."
            ) from None
