"""Finished lines go out: to standard output, or to a file that gets its name when it is whole.

Until then they stand in .NAME.unfinished beside it, which is locked, so that two processes never
write one file, with .NAME.settings, which says what they were made with. Nothing is held back in
this process: its sudden end loses nothing that was written.
"""

import fcntl
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from seq2seq.errors import ConfigError

Settings = Mapping[str, str]


def in_place(path: Path) -> bool:
    """Whether the path exists but is no regular file, or is open already, as /dev/stdout is: a
    device, a pipe or an open file takes what is written, and stays what it is."""
    return os.path.exists(path) and not (os.path.isfile(path) and _descriptor(path) is None)


def as_opened(path: Path) -> Path | int:
    """What `open` takes to write `in_place`: an open file goes on where it stands; opened by its
    name, it would lose what is in it."""
    number = _descriptor(path)
    return path if number is None else os.dup(number)


def _descriptor(path: Path) -> int | None:
    """The number of the open file that an existing path names, or leads to; None if it is none."""
    here = os.path.realpath("/dev/fd")
    while (folder := os.path.realpath(path.parent)) != here:
        if not path.is_symlink():
            return None
        path = Path(folder, os.readlink(path))
    return int(path.name) if path.name.isdecimal() else None


def check_output(setting: str, path: Path, taken: Iterable[str | Path | None]) -> None:
    """ConfigError where a file cannot be written, or is one of those that are read, or written
    already: before the work, not after. None stands for standard input or output."""
    if not os.path.isdir(path.parent):
        raise ConfigError(f"{setting} {path} cannot be written: {path.parent} is not a folder.")
    if os.path.isdir(path):
        raise ConfigError(f"{setting} {path} cannot be written: it is a folder.")
    others = {os.path.realpath(other) for other in taken if other is not None}
    if os.path.realpath(path) in others and not in_place(path):
        raise ConfigError(f"{setting} {path} is read or written already; choose another file.")


def write(setting: str, path: Path, content: str | bytes) -> None:
    """A file, whole or not at all; ConfigError names the setting, as typed, where it cannot be
    written."""
    content = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with writing(f"{setting} {path}"):
        if in_place(path):
            with open(as_opened(path), "wb") as file:
                file.write(content)
            return
        with replacing(path, f"{setting} {path}") as unfinished:
            unfinished.write_bytes(content)


@contextmanager
def replacing(path: Path, name: str) -> Iterator[Path]:
    """The file to write in its place, gone if the block fails; ConfigError with the `name` while
    another process writes the same file. A link stays one: what it leads to is replaced."""
    path = Path(os.path.realpath(path))
    unfinished = _beside(path, "unfinished")
    with ExitStack() as held:
        with writing(name):
            held.enter_context(_locked(unfinished, name))
        try:
            yield unfinished
            with writing(name):
                unfinished.replace(path)  # from here on the name may be another process's
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


class Output:
    """Takes the rows of one line of input after the other."""

    def __init__(self, raw: Any, name: str) -> None:
        """`raw` has no buffer: what it took is out of our hands."""
        self.raw, self.name = raw, name
        self.done = 0
        """Lines of input whose rows are written."""

    def write(self, rows: Iterable[str]) -> None:
        data = memoryview("".join(f"{row}\n" for row in rows).encode())
        try:
            while data:
                data = data[self.raw.write(data) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ConfigError(f"{self.name} cannot be written: {error.strerror}.") from None
        self.done += 1

    @property
    def state(self) -> str:
        """What a message at an early end says: how far it is, how to go on."""
        return f"Lines written: {self.done}."


class UnfinishedFile(Output):
    """The file that grows under another name."""

    def __init__(self, raw: Any, path: Path, done: int, number_column: int | None) -> None:
        super().__init__(raw, f"--output {path}")
        self.unfinished, self.done = _beside(path, "unfinished"), done
        self.number_column = number_column

    @property
    def finished_lines(self) -> int:
        """Lines of input that `resume` goes on after. The file itself is asked: Ctrl-C may come
        between a line and its count, and of numbered rows the last line may lack some."""
        with self.unfinished.open("rb") as rows:
            return finished(rows, self.number_column)[0]

    @property
    def state(self) -> str:
        if not (count := self.finished_lines):
            return "Nothing is written."
        where = f"Lines finished: {count}, in {self.unfinished};"
        return f"{where} the same command with --resume goes on after them."


@contextmanager
def open_output(
    path: Path | None, settings: Settings, *, resume: bool = False, number_column: int | None = None
) -> Iterator[Output]:
    """Where lines go; a file gets its name when the block ends without an error. A file without a
    finished line is not kept.

    With `resume` the unfinished file is continued, if there is one: `done` says how many lines
    of input it holds. A line of input has one row, or any number of rows with its index, from 0, in
    this column, between tabs. ConfigError while another process writes the same file.
    """
    if path is None:
        if sys.stdout is None:
            raise ConfigError("standard output is closed; give it, or --output FILE.")
        buffer = sys.stdout.buffer
        yield Output(getattr(buffer, "raw", buffer), "standard output")
        return
    name = f"--output {path}"
    if in_place(path):
        with writing(name):
            device = open(as_opened(path), "wb", buffering=0)  # noqa: SIM115
        with device:
            yield Output(device, name)
        return
    path = Path(os.path.realpath(path))
    unfinished, made_with = _beside(path, "unfinished"), _beside(path, "settings")
    with ExitStack() as held:
        with writing(name):
            held.enter_context(_locked(unfinished, name))
            done = size = 0
            going_on = resume and unfinished.exists() and unfinished.stat().st_size > 0
            if going_on:
                _check_settings(made_with, settings)
                with unfinished.open("rb") as lines:
                    done, size = finished(lines, number_column)
            raw = held.enter_context(unfinished.open("ab", buffering=0))
            raw.truncate(size)
            if not going_on:
                made_with.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        output = UnfinishedFile(raw, path, done, number_column)
        try:
            yield output
        except BaseException:
            if not output.finished_lines:
                unfinished.unlink()
                made_with.unlink()
            raise
        with writing(name):
            unfinished.replace(path)
            made_with.unlink()


@contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """Nobody else has the file, which is made if need be, until the block ends. Whoever had it
    before may have removed it, so the locked file must still be the one of this name. Where the
    file system has no locks, nothing is locked."""
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{name} is being written by another command; wait for it, or choose another "
                    f"file."
                ) from None
            except OSError:
                pass
            if _names(path, file):
                yield
                return


def _names(path: Path, file: IO[bytes]) -> bool:
    """Whether the open file still has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def finished(rows: Iterable[bytes], number_column: int | None) -> tuple[int, int]:
    """How many lines of input are whole in these rows, and the number of bytes that they take.

    Of numbered rows the last line counts only when another one has begun: it may lack some.
    """
    done = size = end = 0
    last: int | None = None
    for row in rows:
        if not row.endswith(b"\n"):
            break
        if number_column is None:
            done, size = done + 1, end + len(row)
        elif (number := int(row.split(b"\t")[number_column])) != last:
            done, size, last = number, end, number
        end += len(row)
    return done, size


def _check_settings(made_with: Path, settings: Settings) -> None:
    """ConfigError unless the unfinished file was begun with the same settings."""
    try:
        earlier = json.loads(made_with.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"--resume: {made_with} is gone; begin again without --resume.") from None
    names = [name for name in {**earlier, **settings} if earlier.get(name) != settings.get(name)]
    if names:
        told = (f"{name} {earlier.get(name)}, not {settings.get(name)}" for name in names)
        raise ConfigError(
            f"--resume: the unfinished file was begun with {', '.join(told)}; "
            f"use the same again, or begin again without --resume."
        )


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}")


@contextmanager
def writing(name: str | Path) -> Iterator[None]:
    """What the system refuses becomes a ConfigError that names what is written."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{name} cannot be written: {error.strerror}.") from None
