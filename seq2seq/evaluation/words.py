"""Sentences as words: as BLEU counts them, and as a reader sees them."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from seq2seq.evaluation.metrics import new_bleu
from seq2seq.text.words import in_words

BANDS = (1, 2, 10, 100, 1000)
"""Where the bands of frequency begin; below the first are words that were never seen."""


@dataclass(frozen=True)
class Found:
    """How well the words of a band of frequency are translated."""

    words: str
    """How often they were seen, e.g. "2–9"."""
    total: int
    """Such words of the references."""
    f1: list[float]
    """From 0 to 100, for each system."""


class Token(NamedTuple):
    """A word, or a run of punctuation, or one character of an unspaced script."""

    text: str
    spaced: bool
    """Is there a space before it?"""


def scored_words(target_lang: str = "", lowercase: bool = False) -> Callable[[str], list[str]]:
    """What BLEU takes for the words of a sentence."""
    tokenizer = new_bleu(target_lang).tokenizer
    return lambda text: tokenizer((text.lower() if lowercase else text).rstrip()).split()


def word_scores(
    systems: Sequence[Sequence[Sequence[str]]],
    reference: Sequence[Sequence[str]],
    seen: Counter[str],
) -> list[Found]:
    """F1 of words by how often they were seen, like Neubig et al. (2019); bands without words of
    the reference are left out.

    systems: the words of each line of each system; reference: the words of each of its lines
    """
    total = _by_band((Counter(line) for line in reference), seen)
    f1 = []
    for lines in systems:
        right = _by_band(
            (Counter(a) & Counter(b) for a, b in zip(lines, reference, strict=True)), seen
        )
        said = _by_band(map(Counter, lines), seen)
        f1.append([200 * r / max(s + t, 1) for r, s, t in zip(right, said, total, strict=True)])
    return [
        Found(_band_name(band), total[band], [each[band] for each in f1])
        for band in range(len(BANDS) + 1)
        if total[band]
    ]


def _by_band(lines: Iterable[Counter[str]], seen: Counter[str]) -> list[int]:
    total = [0] * (len(BANDS) + 1)
    for line in lines:
        for word, count in line.items():
            total[sum(seen[word] >= bound for bound in BANDS)] += count
    return total


def _band_name(band: int) -> str:
    if band in (0, 1):
        return str(band)
    if band == len(BANDS):
        return f"{BANDS[-1]:,}+"
    return f"{BANDS[band - 1]:,}–{BANDS[band] - 1:,}"


def tokens(text: str) -> list[Token]:
    """Nothing but spaces is lost."""
    found, spaced = [], False
    for (kind, _), group in groupby(enumerate(text), key=lambda each: _kind(*each)):
        if kind != "space":
            found.append(Token("".join(letter for _, letter in group), spaced))
        spaced = kind == "space"
    return found


def _kind(index: int, letter: str) -> tuple[str, int]:
    """Neighbours of one kind are one token; an unspaced letter has no neighbours."""
    if letter.isspace():
        return "space", 0
    category = unicodedata.category(letter)[0]
    if category in "PS":
        return "punctuation", 0
    if category in "LMN" and not in_words(letter):
        return "unspaced", index
    return "word", 0
