"""What comes of one line of text."""

from collections.abc import Sequence
from typing import NamedTuple


class Translation(NamedTuple):
    """One way to say it."""

    text: str
    score: float
    """The search's, see `Hypothesis`; of what minimum Bayes risk has chosen, expected utility."""
    tokens: Sequence[int] | None = None
    """The subwords that the model said, without end token; None where nobody kept them."""
    pieces: int = 1
    """How many the sentence was split into because it was too long."""


BLANK = Translation("", 0.0)
"""Of a blank line, about which no model was asked."""
