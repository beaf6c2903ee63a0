"""The folder that a command makes."""

import os
import tempfile
from pathlib import Path

from seq2seq.data.output import writing
from seq2seq.errors import ConfigError, check_utf8


def check_new(folder: Path) -> None:
    """ConfigError unless there is nothing, or an empty folder, and it can be written, and what is
    in it read again."""
    check_utf8(folder, "safetensors", ConfigError)
    with writing(folder):
        taken = folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
    if taken:
        raise ConfigError(f"{folder} is there already; remove it, or name another folder.")
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """ConfigError where it cannot be made or filled: before the work, not after."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    with writing(folder), tempfile.TemporaryDirectory(dir=there, prefix=".writing-"):
        pass
