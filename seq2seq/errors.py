"""Every error that a user can fix.

UserError                 one line on stderr, exit status 2; anything else is a bug
├── ConfigError           a setting, or two settings that do not go together
├── CorpusError           a corpus file: missing, empty, misaligned, undecodable
├── ModelFolderError      a model folder: missing, damaged, of another format
├── SentenceError         a sentence the model cannot take
└── TrainingError         a training that cannot go on
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
"""A full disk, and what a user may use of it."""


class UserError(Exception):
    """Names the setting as typed, its value, what is expected and what to do."""


class ConfigError(UserError):
    """A setting has a value that cannot work."""


class CorpusError(UserError):
    """A corpus file cannot be used as it is."""


class ModelFolderError(UserError):
    """A model folder cannot be loaded."""


class SentenceError(UserError):
    """A sentence does not fit the model."""


class TrainingError(UserError):
    """A training cannot go on as it is."""


def check_utf8(
    path: str | os.PathLike[str], reader: str, kind: type[UserError], setting: str = ""
) -> None:
    """Raise an error of this kind for a path that is no UTF-8: the system takes it, `reader`, a
    library, does not."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise kind(
            f"{setting}{path} is not UTF-8, as {reader} wants it; choose another name."
        ) from None


@contextmanager
def disk_of(path: Path) -> Iterator[None]:
    """If a disk gets full in the block, the error names `path`; Python itself names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            error.filename = str(path)
        raise
