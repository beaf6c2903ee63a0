"""What another library cannot do, found by listing what it can: a new setting is refused until
somebody has looked at it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from seq2seq.config import SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.errors import ConfigError, UserError
from seq2seq.interop.formats import HOLD_TERMS

Abilities = Mapping[str, Collection[object] | None]
"""Names of fields, and the values that they may have; None for every value."""

MODEL: Abilities = {
    "src_vocab_size": None,
    "tgt_vocab_size": None,
    "d_model": None,
    "heads": None,
    "head_dim": None,
    "ff_dim": None,
    "encoder_layers": None,
    "decoder_layers": None,
    "norm": ("pre", "post"),
    "positions": ("sinusoidal", "learned"),
    "max_positions": None,
    "tie": None,
    "bias": None,
    "output_bias": None,
    "scale_embeddings": None,
    "start_token": ("bos", "pad"),
}
"""Of a network, what all libraries were seen to represent; each adds its activations."""
SEARCH: Abilities = {
    "beam": None,
    "n_best": None,
    "length_penalty": ["length"],
    "alpha": None,
    "min_target_length": None,
    "max_target_length": None,
    "max_length_ratio": None,
    "max_length_offset": None,
    "no_repeat_ngram": None,
    "sampling": None,
}
"""Of a search, what all of them can do."""
REQUEST: Abilities = {"src": None, "prefix": None, "place": None}
"""Of what is asked for one sentence."""
IN_VAIN = {"constraint": f"terms: not known there; use engine={' or '.join(HOLD_TERMS)}."}
"""Said of a wish that users know by another name."""


def unable(settings: Any, abilities: Abilities, group: str) -> list[str]:
    """Each field of a dataclass that asks for more, with what to use; empty if nothing does."""
    found = []
    for name, choices in beyond(settings, abilities):
        listed = " or ".join(map(str, choices))
        value = getattr(settings, name)
        if is_dataclass(value):
            found += unable(value, {}, f"{group}{name}.")
            continue
        found.append(f"{group}{name}={value}: not known there; use {listed}.")
    return found


def beyond(settings: Any, abilities: Abilities) -> Iterator[tuple[str, Collection[object]]]:
    """The name of each field of a dataclass that asks for more, and the values it may have.

    A field that is not in `abilities` must have its default, with which it asks for nothing.
    """
    for field in fields(settings):
        value, default = getattr(settings, field.name), field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        choices = abilities.get(field.name, [default])
        if choices is not None and value not in choices:
            yield field.name, choices


def refuse(what: str, found: Sequence[str], kind: type[UserError] = ConfigError) -> None:
    """Raise one error about all of them."""
    if found:
        raise kind(f"{what}: {' '.join(found)}")


def refuse_search(
    engine: str,
    batch: Sequence[Request],
    config: SearchConfig,
    abilities: Abilities = SEARCH,
    wishes: Abilities = REQUEST,
) -> None:
    """Raise one ConfigError about all settings and wishes that an engine cannot follow."""
    found = unable(config, abilities, "search.")
    refused = dict.fromkeys(name for each in batch for name, _ in beyond(each, wishes))
    found += [IN_VAIN.get(name, f"{name}: not known there.") for name in refused]
    refuse(f"engine={engine} cannot search like this", found)
