"""What a user may ask for with one line of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TooLong = Literal["split", "error"]
"""What becomes of a sentence that is longer than a translator takes."""
MAX_LENGTH = 256
"""Most subwords of a sentence in commands, the end token counted, where no flag says."""


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what its translation must keep to."""

    text: str
    prefix: str = ""
    """The translation begins with these words; its last one may be the beginning of a word."""
    terms: Sequence[str] = ()
    """The translation holds each of these exactly as often as it is listed, those inside of other
    terms added: "sea" and "sea horse" make "sea" stand there twice."""
    origins: Sequence[int | None] = ()
    """For each of the terms, where in the cleaned text what it translates begins, by character: it
    is asked for there if the sentence is split. None, or none at all, where nobody knows."""
    number: int | None = None
    """Its place in the whole input, from 0, that random draws follow from; None where that is its
    place in the list."""
