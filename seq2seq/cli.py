"""The command `seq2seq VERB ...`: finds the verb's app and turns user errors into one line.

An app is one file in `seq2seq/apps/`. It is imported when its verb is called, so that
`seq2seq --help` stays fast. A plain app has `add_arguments(parser)` and `run(args)`; the four
verbs of the LightningCLI share `apps/train.py`, which parses for itself.
"""

import argparse
import importlib
import importlib.metadata
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from seq2seq.allocator import begin_anew
from seq2seq.errors import NO_ROOM, ConfigError, UserError

LIGHTNING_VERBS = {
    "fit": "train a model on a parallel corpus",
    "validate": "score a model on the validation set",
    "test": "score a model on every named test set",
    "predict": "translate the file data.predict to JSON lines",
}
VERBS = {
    "fetch": "download a public corpus into data/NAME",
    "inspect": "look for what would spoil training or evaluation in corpora",
    "clean": "write a corpus without the pairs that rules reject, and those beside it",
    "translate": "translate lines of text with a trained model",
    "distill": "write a teacher's translations of a corpus, for a student to learn from",
    "score": "tell how likely a model finds given translations",
    "evaluate": "score translations against references: BLEU, chrF, TER",
    "experiment": "train and test configurations with several seeds, and compare them",
    "plot": "draw training curves, or heat maps of where a model looks",
    "export": "write a model in the format of another library, and compare",
    "average": "average checkpoints of a run into a model folder",
    "convert": "make a model folder of another toolkit's model",
    "info": "print the card of a model: what it is and where it comes from",
}


class Parser(argparse.ArgumentParser):
    """argparse, with a mistake of the user told in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see: {self.prog} --help)\n")


@contextmanager
def utf8_output() -> Iterator[None]:
    """Standard output in UTF-8, where what is none, in a path, becomes an escape; afterwards it is
    as before."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    encoding, errors = stream.encoding, stream.errors
    stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        yield
    finally:
        with suppress(OSError):  # of what is left to write: Python tells it when it ends
            stream.reconfigure(encoding=encoding, errors=errors)


@utf8_output()
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit status."""
    if sys.stderr is None:  # closed: what is said goes nowhere, and into no file opened after it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if argv is None:  # the process is a command, and no host that calls this function
        begin_anew()
    try:
        try:
            status = _command(sys.argv[1:] if argv is None else list(argv))
        except SystemExit:  # of --help, say
            _flush()
            raise
        _flush()
        return status
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"stopped. {stopped}".rstrip(), file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, but nothing is left to do.
        _drop_output()
        return 1
    except OSError as error:
        full = error.errno in NO_ROOM
        if not (full or error.filename):
            raise
        where = f"{error.filename}: " if error.filename else ""
        advice = "; what was finished before is kept. Make room, and start again or go on."
        print(f"error: {where}{error.strerror}{advice if full else '.'}", file=sys.stderr)
        return 2


def _command(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_overview())
        return 0
    verb, rest = argv[0], argv[1:]
    if verb == "--version":
        print(f"seq2seq {importlib.metadata.version('seq2seq-lightning')}")
        return 0
    if verb in LIGHTNING_VERBS:
        return int(importlib.import_module("seq2seq.apps.train").main(argv))
    if verb in VERBS:
        app = importlib.import_module(f"seq2seq.apps.{verb}")
        parser = Parser(prog=f"seq2seq {verb}", description=app.__doc__)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        app.add_arguments(parser)
        return int(app.run(parser.parse_intermixed_args(rest)) or 0)
    choices = ", ".join([*LIGHTNING_VERBS, *VERBS])
    raise ConfigError(f"unknown command {verb!r}; choose one of {choices}.")


def _flush() -> None:
    """Write what is left now: if that failed when Python ends, it would print a traceback."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise ConfigError(f"standard output cannot be written: {error.strerror}.") from None


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _overview() -> str:
    rows = [f"  {verb:10} {what}" for verb, what in {**LIGHTNING_VERBS, **VERBS}.items()]
    head = "usage: seq2seq [--version] COMMAND ...\n\ncommands (each has its own --help):"
    return "\n".join([head, *rows])
