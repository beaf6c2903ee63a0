"""What is normal in a corpus, learned from a sample: its defects are measured against it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from seq2seq.data.corpus import Languages, Pair
from seq2seq.text.scripts import (
    JAPANESE,
    Unit,
    length_in,
    scripts_in,
    scripts_of_language,
    unit_of,
)
from seq2seq.text.trigrams import TwoLanguages

LEAST_SHARE = 0.05
"""Of the letters of a side: a script with fewer does not belong."""
LANGUAGE_PAIRS = 5000
"""Pairs of the sample that teach the two languages, at most."""
SLACK = 10
"""Characters added to both lengths before they are compared: short sentences vary more."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a corpus."""

    scripts: frozenset[str]
    """That belong: the language's, or without a known language those of its own letters."""
    unit: Unit
    """What lengths count."""

    def length(self, text: str) -> int:
        return length_in(self.unit, text)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far a pair may stray."""

    max_words: int = 200
    """Of a side; characters where words are not spaced."""
    max_ratio: float = 3.0
    """Of the lengths of the sides, see `Normal.length_ratio`."""


LIMITS = Limits()
"""The usual ones."""


@dataclass(frozen=True, kw_only=True)
class Normal:
    """Both sides, how they relate, and how far a pair may stray."""

    src: Side
    tgt: Side
    ratio: float
    """Median of target characters per source character."""
    languages: TwoLanguages
    limits: Limits

    def length_ratio(self, pair: Pair) -> float:
        """How much longer one side is than the other, at least 1; `ratio` itself counts as 1."""
        scale = math.sqrt(self.ratio)
        src, tgt = characters(pair.src) * scale + SLACK, characters(pair.tgt) / scale + SLACK
        return max(src / tgt, tgt / src)


def learn_normal(
    sample: Sequence[Pair], languages: Languages = ("", ""), limits: Limits = LIMITS
) -> Normal:
    """Pairs with an empty side teach nothing; an empty sample makes everything normal.

    A sample may be in the order of its corpus, whose beginning need not be like the rest.
    """
    src_lang, tgt_lang = languages
    full = [pair for pair in sample if pair.full]
    ratios = [
        characters(pair.tgt) / characters(pair.src)
        for pair in full
        if characters(pair.src) and characters(pair.tgt)
    ]
    return Normal(
        src=_side([pair.src for pair in full], src_lang),
        tgt=_side([pair.tgt for pair in full], tgt_lang),
        ratio=median(ratios) if ratios else 1.0,
        languages=TwoLanguages(full[:: max(1, math.ceil(len(full) / LANGUAGE_PAIRS))]),
        limits=limits,
    )


def characters(text: str) -> int:
    """How many, white space aside."""
    return length_in("characters", text)


def _side(texts: Sequence[str], language: str) -> Side:
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update(scripts_in(text))
    scripts = scripts_of_language(language) or _main(letters)
    return Side(scripts=scripts, unit=unit_of(letters, texts))


def _main(letters: Counter[str]) -> frozenset[str]:
    least = LEAST_SHARE * letters.total()
    scripts = {script for script, count in letters.items() if count >= least}
    return frozenset(scripts.union(JAPANESE) if "HIRAGANA" in scripts else scripts)
