"""The names of flags, in errors of commands that have flags in the place of settings."""

import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TypeVar

from seq2seq.config import Diversity
from seq2seq.errors import UserError

Status = TypeVar("Status")

SETTING = re.compile(
    r"(?<![\w./=\"-])(?:search\.(?:sampling\.)?([a-z_.]*[a-z])|(?:data\.)?([a-z]+_[a-z]+))"
    r"(?![\w/-]|\.\w)"
)
"""One that is no part of a path, no value and not in quotes; of others than `search` only names of
two words, which are no English."""
FLAGS = {"sampling": "sample", "diversity": "groups"}
"""What asks for the parts of `search` that are switched on by another name than theirs."""


def flag_of(name: str) -> str:
    """What a command calls the flag whose value it keeps under a name."""
    part = "diversity-" if name in {field.name for field in fields(Diversity)} else ""
    return f"--{part}{name.replace('_', '-')}"


def told_as_flags(run: Callable[[Namespace], Status]) -> Callable[[Namespace], Status]:
    """What is wrong is told with the flags of the command, not with settings; a sentence, as the
    line that it is."""

    @wraps(run)
    def telling(args: Namespace) -> Status:
        try:
            return run(args)
        except UserError as error:
            said = SETTING.sub(lambda setting: _flag(setting, args), str(error))
            raise type(error)(re.sub(r"^sentence (?=\d)", "line ", said)) from None

    return telling


def _flag(setting: re.Match[str], args: Namespace) -> str:
    """If this command has it."""
    name = (setting[1] or setting[2]).removeprefix("diversity.")
    name = FLAGS.get(name, name)
    return flag_of(name) if name in args else setting[0]
