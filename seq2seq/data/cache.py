"""What is made once from a corpus and found again: built by one process, whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock

from seq2seq.errors import ConfigError, disk_of


@contextmanager
def build_once(target: Path) -> Iterator[Path | None]:
    """Gives the path to build a file or folder at, or None if `target` is there already.

    `target` appears when the block ends without an exception. Processes that ask at the same time
    wait for the one that builds; what a killed build left behind is removed by the next.
    """
    if os.path.exists(target):  # False, too, where that may not be known
        yield None
        return
    unfinished = target.with_name(f"{target.name}.unfinished")
    with _locked(target):
        if target.exists():
            yield None
            return
        _remove(unfinished)
        try:
            with disk_of(target):
                yield unfinished
            os.replace(unfinished, target)
        finally:
            _remove(unfinished)


def _locked(target: Path) -> AbstractContextManager[object]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(target.with_name(f"{target.name}.lock")).acquire()
    except OSError as error:
        raise ConfigError(
            f"data.cache: {target.parent} cannot be written to: {error.strerror}; choose another "
            f"folder."
        ) from None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
