"""The names of flags, in errors of commands that have flags in the place of settings."""

import re
from argparse import Namespace
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from seq2seq.errors import UserError

Status = TypeVar("Status")

_SEARCH = re.compile(r"\bsearch\.([a-z_.]*[a-z])")
_CORPUS = re.compile(r"\b(?:data\.)?(src_lang|tgt_lang|src_field|tgt_field|^split(?==))\b")
_LENGTH = re.compile(r"\b(but|smaller) (beam|max_length)\b")
_SENTENCE = re.compile(r"^sentence (?=\d)")


def told_as_flags(run: Callable[[Namespace], Status]) -> Callable[[Namespace], Status]:
    """What is wrong is told with the flags of the command, not with settings; a sentence, as the
    line that it is."""

    @wraps(run)
    def telling(args: Namespace) -> Status:
        try:
            return run(args)
        except UserError as error:
            raise type(error)(_told(str(error), args)) from None

    return telling


def _told(said: str, args: Namespace) -> str:
    def corpus_flag(setting: re.Match[str]) -> str:
        """If this command has it."""
        return _flag(setting[1]) if setting[1] in args else setting[0]

    said = _SEARCH.sub(_search_flag, said)
    said = _CORPUS.sub(corpus_flag, said)
    said = _LENGTH.sub(lambda bound: f"{bound[1]} {_flag(bound[2])}", said)
    return _SENTENCE.sub("line ", said)


def _search_flag(setting: re.Match[str]) -> str:
    """The flag of `search.NAME`."""
    name = setting[1].removeprefix("sampling.")
    return {"sampling": "--sample", "diversity": "--diversity-groups"}.get(name) or _flag(name)


def _flag(name: str) -> str:
    return f"--{name.replace('.', '-').replace('_', '-')}"
