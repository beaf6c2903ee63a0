"""The command line of fit, validate, test and predict: what is typed, and what is wrong with it."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import Namespace
from pytorch_lightning.cli import LightningArgumentParser

from seq2seq.apps.train_settings import GROUPS, check_groups, no_group
from seq2seq.data.corpus import CorpusFiles
from seq2seq.errors import ConfigError

LONGEST_ERROR = 600
"""Characters."""
MOST_SUGGESTED = 8
"""Settings suggested for one that does not exist."""
FILES = "--data.{0}.src FILE --data.{0}.tgt FILE, or --data.{0}.path FILE"
CORPORA = {
    "train": FILES.format("train"),
    "validation": FILES.format("validation"),
    "test": "--data.test '{NAME: {src: FILE, tgt: FILE}}'",
}
"""How each is given."""
CORPUS = {field.name for field in fields(CorpusFiles)}
"""The settings of one."""
NO_CORPUS = re.compile(
    r'Parser key "data\.(train|validation|test)":(.*)'
    r"value type: <class '([\w.]+)'>\s+Given value: (.*)",
    re.DOTALL,
)
"""How the parser tells of a value that none of these can have."""
IN_CORPUS = re.compile(
    r"""CorpusFiles':\s+(?:Option '(\w+)' is|Parser key "(\w+)":(.*?)value: ([^\n]*)\n    - )""",
    re.DOTALL,
)
"""How it tells of a setting that a corpus has not, and of one that has a wrong value."""
NO_GROUP = re.compile(r"""Parser key "([\w.]+)":\s+Unable to load config '(.*?)'""", re.DOTALL)
"""How it tells of a value that is no settings, nor a file of them."""
NO_KIND = re.compile(
    r'Parser key "([\w.]+)":.*^  Errors:\n(.*)^  Given value type:[^\n]*\n  Given value: (.*)',
    re.DOTALL | re.MULTILINE,
)
"""How it tells of a value that is none of the kinds that a setting may have."""
EXPECTED = re.compile("Expected |Not a valid subclass")
"""How it tells of the kinds that a value is not, beside what is wrong with it."""
UNKNOWN = re.compile(
    r"(?:unrecognized arguments: (--)|Subcommand '\w+' does not accept option ')([\w.-]+)"
)
"""How it reports a setting that does not exist, on the command line and in a file."""


class OneLineParser(LightningArgumentParser):
    """A parser that tells a mistake of the user in one line, and the file that it is in."""

    _reading: str | os.PathLike[str] | None = None
    _read: tuple[tuple[str | os.PathLike[str], Namespace], ...] = ()
    """Each file so far, and what it sets."""

    def parse_path(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Namespace:
        self._reading = path
        try:
            settings: Namespace = super().parse_path(path, *args, **kwargs)
            check_groups(settings)  # before some of them are given their defaults instead
            self._read += ((path, settings),)
            return settings
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8 text; expected YAML in UTF-8.") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        finally:
            self._reading = None

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:  # inside, of one of the types that a setting may have
            super().error(message, ex)
        if self._subcommands_action:  # the one that was asked for, see TranslationCLI
            (verb,) = self._subcommands_action.choices.values()
            verb.error(message)
        if corpus := NO_CORPUS.match(message):
            message = _no_corpus(*corpus.groups())
        group = NO_GROUP.match(message)
        if group and group[1] in GROUPS and not Path(group[2]).is_file():
            message = no_group(*group.groups())
        if kind := NO_KIND.match(message):
            message = _no_kind(*kind.groups())
        if unknown := UNKNOWN.match(message):
            dashes, name = unknown[1] or "", unknown[2]
            if meant := self._settings_meant(name):
                suggested = " or ".join(f"{dashes}{each}" for each in meant)
                message = f"{dashes}{name} is not a setting; did you mean {suggested}?"
            if not dashes:
                self._reading = next((file for file, given in self._read if name in given), None)
        if self._reading is not None:
            message = f"{self._reading}: {message}"
        message = message.replace(' in "<unicode string>",', " in")
        command, words = self.prog.replace(" [options]", ""), " ".join(message.split())
        if len(words) > LONGEST_ERROR:  # it may quote a file that was taken for a configuration
            words = f"{words[: LONGEST_ERROR // 2]} ... {words[-LONGEST_ERROR // 2 :]}"
        self.exit(2, f"error: {words} (see: {command} --help)\n")

    def _settings_meant(self, name: str) -> list[str]:
        """The settings that `name`, with _ for each hyphen, may stand for: those called so in any
        group; those outside of groups that begin with it; those beside it that have all its words;
        the one beside it, or else elsewhere, that is written most like it; those of another group,
        which is near where groups are nested; or all that are beside it. The first of these that
        finds any, and at most `MOST_SUGGESTED`."""
        name = name.replace("-", "_")
        group, _, last = name.rpartition(".")
        files = re.findall(r"--([\w.]+)(?= FILE)", " ".join(CORPORA.values()))
        options = self._option_string_actions.items()  # some follow one of another name
        own = [each.removeprefix("--") for each, action in options if each in action.option_strings]
        known = [*files, *own]
        beside = [each for each in known if group and each.rpartition(".")[0] == group]
        elsewhere = [each for each in known if each not in beside]
        lasts = {each.rpartition(".")[2]: each for each in beside}
        alike = get_close_matches(name, elsewhere, n=1, cutoff=0.8)
        near = f"{name.partition('.')[0]}." if "." in group else ""
        tries = (
            [each for each in known if each == name or each.endswith(f".{name}")],
            [each for each in known if each.startswith(name) and "." not in each],
            [lasts[each] for each in lasts if f"_{last}_" in f"_{each}_"],
            [lasts[each] for each in get_close_matches(last, lasts, n=1, cutoff=0.7)],
            [each for each in alike if not name.startswith(f"{each}.")],
            [each for each in known if each.startswith(near) and each.endswith(f".{last}")],
            beside,
        )
        return next((found for found in tries if 0 < len(found) <= MOST_SUGGESTED), [])


def _no_corpus(name: str, errors: str, kind: str, value: str) -> str:
    """What the user is told of a value of this class for data.NAME."""
    setting, form = f"data.{name}", CORPORA[name]
    inside = re.match(r"NestedArg\(key='(\w+)(\.\w+)?'", value)
    if inside and inside[2] and inside[1] not in CORPUS:
        return (
            f"--{setting}.{inside[1]}{inside[2]} alone is not a corpus; give it as a whole: "
            f"--{setting}.{inside[1]} '{{src: FILE, tgt: FILE}}'"
        )
    problems = IN_CORPUS.findall(errors)
    if inside and (inside[2] or not problems):
        typed = f"{setting}.{inside[1]}{inside[2] or ''}"
        return f"{typed} is neither a corpus nor a setting of one; give {form}"
    if problems:
        unknown, key, expected, given = problems[-1]  # of a corpus, where several stand together
        within = re.search(rf"'([^']*)': {{[^{{}}]*'{unknown or key}': ", value)
        of = f"{setting}.{within[1]}" if within else setting
        if key:
            kinds = re.findall(r"Expected an? <class '(\w+)'>", expected)
            return f"{of}.{key}={given} is none of what is expected: {_listed(kinds)}"
        return f"{of}.{unknown} is neither a corpus nor a setting of one; give {form}"
    # a text may be all that a file holds, and the parser shows what it has read its own way
    shown = f"={value}" if kind == "dict" and "Namespace(" not in value else ""
    return f"{setting}{shown} is not a corpus; give {form}"


def _no_kind(setting: str, errors: str, value: str) -> str:
    """What the user is told of a value that is of none of the kinds that are told in `errors`."""
    problems = re.findall(
        r"Problem with given class_path '([\w.]+)':\s+(.+?)(?=\n    - |\Z)", errors, re.DOTALL
    )
    if problems:
        return f"{setting}: " + "; ".join(dict.fromkeys(f"{name}: {why}" for name, why in problems))
    found = re.findall(r"- (?:Expected an?|Unexpected) ([^\n:]+)", errors)
    shown = re.sub(r"<class '([\w.]+)'>|typing\.Literal", r"\1", "; ".join(found))
    named = re.sub(r"dot import path string|import path format", "name of a class", shown)
    return f"{setting}={value} is none of what is expected: {_listed(named.split('; '))}"


def _listed(kinds: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys("null" if kind == "NoneType" else kind for kind in kinds))


def refusal_of_class(told: str) -> str:
    """What a class that is a setting said of its own settings, or of a library that it lacks; empty
    where the parser tells of something else."""
    errors = re.search(r"^Errors:\n(.*)^Given value type:", told, re.DOTALL | re.MULTILINE)
    said = re.split(r"^  - ", errors[1], flags=re.MULTILINE) if errors else []
    own = [each for each in said if each.strip() and not EXPECTED.match(each)]
    named = (re.sub(r"Problem with given class_path '([\w.]+)':", r"\1:", each) for each in own)
    return "; ".join(" ".join(each.split()) for each in named)


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
    return [argv[0], f"--config={settings}", *argv[1:]]  # the run may be called -mine
