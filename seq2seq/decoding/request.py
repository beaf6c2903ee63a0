"""What is asked of a search for one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One sentence to translate; ids without special tokens."""

    src: Sequence[int]
    prefix: Sequence[int] = ()
    """The translation begins with these."""
    number: int = 0
    """Its place in the input, from 0: what random draws follow from."""
