"""Commands, settings, flags and defaults that docs/migrate.md calls ours are ours."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import pytest
import yaml
from command_flags import flags_of
from pages import page

from seq2seq.cli import LIGHTNING_VERBS, VERBS, main

PAGE = page("docs/migrate.md")
COMMANDS, SETTINGS = "Command for command", "Setting for setting"


def table(heading: str) -> list[list[str]]:
    """The cells of the rows of a section's table, without its head."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [line for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


@cache
def defaults() -> dict[str, Any]:
    """Every setting of `fit`, groups too, and its default."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        main(["fit", "--print_config"])

    def named(settings: dict[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
        for name, value in settings.items():
            yield group + name, value
            if isinstance(value, dict):
                yield from named(value, f"{group}{name}.")

    return dict(named(yaml.safe_load(printed.getvalue())))


@cache
def flags(verb: str) -> set[str]:
    if verb in LIGHTNING_VERBS:
        return {f"--{name}" for name in defaults()}
    return flags_of(verb)


def wrong_settings(cell: str) -> list[str]:
    """What it calls a setting of `fit`, a default or a flag of `translate`, and is none."""
    there = defaults()
    wrong = [flag for flag in re.findall(r"`(--\S+)`", cell) if flag not in flags("translate")]
    for name, default in re.findall(r"`(\w+(?:\.\w+)+)`(?: \((.*?)\))?", cell):
        if name not in there or (default and yaml.safe_load(default) != there[name]):
            wrong.append(name)
    return wrong


def wrong_commands(cell: str) -> list[str]:
    """Commands of a verb that is not there, or with a flag that it does not have."""
    wrong = []
    for command in re.findall(r"`seq2seq (.*?)`", cell):
        verb, *words = command.split()
        given = {word for word in words if word[:1] == "-"}
        if verb not in {**VERBS, **LIGHTNING_VERBS} or not given <= flags(verb):
            wrong.append(command)
    return wrong


def test_every_row_begins_with_settings_of_ours_and_their_defaults() -> None:
    rows = table(SETTINGS)
    for row in rows:
        assert wrong_settings(row[0]) == []
        assert re.match(r"`[a-z_]+(\.[a-z_]+)+` \(", row[0]), row[0]
    assert len(rows) >= 20


def test_every_command_of_ours_is_one() -> None:
    rows = table(COMMANDS)
    for row in rows:
        assert wrong_commands(row[1]) == []
        assert "`seq2seq " in row[1], row[1]
    assert len(rows) >= 10


def test_settings_in_the_text_are_ours() -> None:
    text = re.sub(r"^\|.*$", "", PAGE, flags=re.MULTILINE)
    named = re.findall(r"`((?:model|training|data|search|trainer)\.\w+)`", text)
    assert named
    assert set(named) <= set(defaults())


@pytest.mark.parametrize(("heading", "width"), [(COMMANDS, 7), (SETTINGS, 6)])
def test_every_toolkit_has_its_cell(heading: str, width: int) -> None:
    for row in table(heading):
        assert len(row) == width, row[0]
        assert all(row), row[0]


@pytest.mark.parametrize(
    "cell",
    [
        "`training.lrr` (0.002)",
        "`data.subwords.src_vocab_sizes` (8000)",
        "`search.beam` (4), `--beam`",
        "`search.beam` (5), `--beams`",
        "`training.ema` (0.9)",
    ],
)
def test_a_misspelt_setting_or_flag_or_another_default_is_seen(cell: str) -> None:
    assert len(wrong_settings(cell)) == 1
    right = "`training.ema` (null), x, `search.beam` (5), `--beam`"
    assert wrong_settings(right) == []


@pytest.mark.parametrize(
    "command", ["fitt --run RUN", "fit --runs RUN", "score MODEL SRC TGT --beam 5"]
)
def test_a_misspelt_verb_or_flag_of_a_command_is_seen(command: str) -> None:
    assert wrong_commands(f"x; `seq2seq {command}`") == [command]
    assert wrong_commands("`seq2seq fit --run RUN`, `seq2seq score MODEL SRC TGT`") == []
