"""What a user may ask for with one line of text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what its translation must keep to."""

    text: str
    prefix: str = ""
    """The translation begins with these words; its last one may be the beginning of a word."""
