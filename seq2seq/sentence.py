"""What a user may ask for with one line of text, and what is refused."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from seq2seq.errors import SentenceError

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
    """For each term, the character of the cleaned text where what it translates begins: if the
    sentence is split, the translation of the piece with that character must hold the term. None, or
    no list, if nobody knows."""
    number: int | None = None
    """Its place in the whole input, from 0, that random draws follow from; None where that is its
    place in the list."""


def check_length(
    ids: Sequence[int], what: str, longest: int | None, bound: str = "this model's positions end at"
) -> None:
    """Raise SentenceError for what has more than `longest` subwords, the end token counted."""
    if longest is not None and len(ids) >= longest:
        raise SentenceError(
            f"{what} has {len(ids) + 1} subwords, the end token counted, but {bound} {longest}; "
            f"shorten or split it."
        )


def check_list(name: str, texts: Iterable[object]) -> None:
    """Raise SentenceError for a single str, whose letters would be taken for texts."""
    if isinstance(texts, str):
        raise SentenceError(f"{name}={texts!r} is one str; give a list of {name}.")


def check_type(name: str, given: object, *kinds: type) -> None:
    """Raise SentenceError for what is of none of these types."""
    if not isinstance(given, kinds):
        wanted = " or a ".join(kind.__name__ for kind in kinds)
        raise SentenceError(f"{name} is of type {type(given).__name__}; give a {wanted}.")
