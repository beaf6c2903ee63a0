"""What a translation must hold, as a search sees it: a machine that reads its tokens."""

from collections.abc import Sequence
from typing import Any, Protocol


class Standing(Protocol):
    """What a translation that ends here holds, and what it misses."""

    @property
    def missing(self) -> int:
        """Phrases that are still to come; one counts as often as it is missing."""

    @property
    def rest(self) -> int:
        """Tokens still to be written for them, less those of a phrase begun at the end."""

    @property
    def inside(self) -> int | None:
        """Which phrase it ends in the middle of, if any."""

    @property
    def over(self) -> bool:
        """Some phrase is there more often than asked, whatever follows."""

    @property
    def complete(self) -> bool:
        """Every phrase is there exactly as often as asked."""


class Constraint(Protocol):
    """Phrases, and how often a translation must hold each.

    A state says all there is to know about the tokens read so far; states are never changed.
    """

    @property
    def start(self) -> Any: ...
    def read(self, state: Any, token: int) -> Any: ...
    def standing(self, state: Any) -> Standing: ...
    def helpful(self, state: Any) -> Sequence[int]:
        """Tokens that begin a missing phrase, or go on with one."""
