"""What is asked of a search for one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.decoding.constraint import Constraint


@dataclass(frozen=True)
class Request:
    """One sentence to translate; ids without special tokens."""

    src: Sequence[int]
    prefix: Sequence[int] = ()
    """The translation begins with these."""
    constraint: Constraint | None = None
    """The translation holds what this asks for."""
