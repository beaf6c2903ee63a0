"""What another library cannot do, found by listing what it can: a new setting is refused until
somebody has looked at it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from seq2seq.errors import ConfigError

Abilities = Mapping[str, Collection[object] | None]
"""Names of fields, and the values that they may have; None for every value."""


def unable(settings: Any, default: Any, abilities: Abilities, group: str) -> list[str]:
    """Each field of a dataclass that asks for more, with what to use; empty if nothing does.

    A field that is not in `abilities` must be as in `default`, where it asks for nothing.
    """
    found = []
    for name in (field.name for field in fields(settings)):
        value, usual = getattr(settings, name), getattr(default, name)
        choices = abilities.get(name, [usual])
        if choices is not None and value not in choices:
            listed = " or ".join(map(str, choices))
            found.append(f"{group}{name}={value}: not known there; use {listed}.")
    return found


def refuse(what: str, found: Sequence[str]) -> None:
    """Raise one ConfigError about all of them."""
    if found:
        raise ConfigError(f"{what}: {' '.join(found)}")
