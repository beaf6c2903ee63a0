"""The command line of fit, validate, test and predict: what is typed, and what is wrong with it."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import Namespace
from pytorch_lightning.cli import LightningArgumentParser

from seq2seq.errors import ConfigError

LONGEST_ERROR = 600
"""Characters."""
FILES = "--data.{0}.src FILE --data.{0}.tgt FILE, or --data.{0}.path FILE"
CORPORA = {
    "train": FILES.format("train"),
    "validation": FILES.format("validation"),
    "test": "--data.test '{NAME: {src: FILE, tgt: FILE}}'",
}
"""How each is given."""
NO_CORPUS = re.compile(
    r'Parser key "data\.(train|validation|test)":.*'
    r"value type: <class '([\w.]+)'>\s+Given value: (.*)",
    re.DOTALL,
)
"""How the parser tells of a value that none of these can have."""


class OneLineParser(LightningArgumentParser):
    """A parser that tells a mistake of the user in one line, and the file that it is in."""

    _reading: str | os.PathLike[str] | None = None

    def parse_path(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Namespace:
        self._reading = path
        try:
            settings: Namespace = super().parse_path(path, *args, **kwargs)
            return settings
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is no UTF-8 text; expected YAML in UTF-8.") from None
        finally:
            self._reading = None

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:  # inside, of one of the types that a setting may have
            super().error(message, ex)
        if corpus := NO_CORPUS.match(message):
            message = _no_corpus(*corpus.groups())
        unknown = re.match(r"unrecognized arguments: (--[\w.-]+)", message)
        if unknown and (meant := self._settings_called(unknown[1])):
            message = f"{unknown[1]} is no setting; did you mean {' or '.join(meant)}?"
        if self._reading is not None:
            message = f"{self._reading}: {message}"
        message = message.replace(' in "<unicode string>",', " in")
        command, words = self.prog.replace(" [options]", ""), " ".join(message.split())
        if len(words) > LONGEST_ERROR:  # it may quote a file that was taken for a configuration
            words = f"{words[: LONGEST_ERROR // 2]} ... {words[-LONGEST_ERROR // 2 :]}"
        self.exit(2, f"error: {words} (see: {command} --help)\n")

    def _settings_called(self, flag: str) -> list[str]:
        """The settings of this name in any group, with _ for each hyphen; where there are none,
        those outside of groups that begin with it."""
        name = flag.removeprefix("--").replace("-", "_")
        fields = re.findall(r"--[\w.]+(?= FILE)", " ".join(CORPORA.values()))
        options = self._option_string_actions.items()  # some follow one of another name
        known = [*fields, *(each for each, action in options if each in action.option_strings)]
        called = [each for each in known if each == f"--{name}" or each.endswith(f".{name}")]
        return called or [
            each for each in known if each.startswith(f"--{name}") and "." not in each
        ]


def _no_corpus(name: str, kind: str, value: str) -> str:
    """What the user is told of a value of this class for data.NAME."""
    setting, form = f"data.{name}", CORPORA[name]
    inside = re.match(r"NestedArg\(key='(\w+)(\.\w+)?'", value)
    if inside and inside[2]:
        return (
            f"--{setting}.{inside[1]}{inside[2]} alone is no corpus; give it as a whole: "
            f"--{setting}.{inside[1]} '{{src: FILE, tgt: FILE}}'"
        )
    if inside:
        return f"{setting}.{inside[1]} is neither a corpus nor a setting of one; give {form}"
    shown = f"={value}" if kind == "dict" else ""  # a text may be all that a file holds
    return f"{setting}{shown} is no corpus; give {form}"


def with_settings_of_run(argv: Sequence[str]) -> list[str]:
    """What goes on with a run, or uses it, has its settings, unless a configuration is given."""
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flags in (["--run"], ["-c", "--config"], ["--ckpt_path"]):
        named.add_argument(*flags, nargs="?")
    given, _ = named.parse_known_args(argv)
    settings = Path(given.run or "") / "config.yaml"
    if not given.run or given.config or not settings.is_file():
        return list(argv)
    if argv[0] == "fit" and given.ckpt_path is None:
        return list(argv)
    return [argv[0], "--config", str(settings), *argv[1:]]
