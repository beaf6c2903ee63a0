"""What a user may ask for with one line of text."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what its translation must keep to."""

    text: str
    prefix: str = ""
    """The translation begins with these words; its last one may be the beginning of a word."""
    terms: Sequence[str] = ()
    """The translation holds each of these exactly as often as it is listed."""
