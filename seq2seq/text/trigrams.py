"""Tell two languages apart by their character trigrams, learned from a parallel sample.

The score is a log-likelihood ratio under two bags of trigrams (Cavnar and Trenkle 1994 compare
ranks of the same counts). No list of languages is needed: the two sides teach each other.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

ROUNDS = 4
"""Of reassigning swapped pairs while learning; it settles after two or three."""
LEAST_EVIDENCE = 12.0
"""In nats: a text that leans less is of either language."""
LEAST_MEAN = 0.5
"""In nats per trigram, so that the small leanings of a long text do not add up."""

# Letters up to U+024F are the Latin ones; a name in them ends where another script begins.
_WORD = re.compile(r"[A-Za-zÀ-ɏ]+|[^\W\d_]+")


class TwoLanguages:
    """The language of the source side and that of the target side."""

    def __init__(self, sample: Sequence[tuple[str, str]]) -> None:
        """Swapped pairs in the sample do no harm as long as they are fewer than half."""
        sides = [(_trigrams(_words(src)), _trigrams(_words(tgt))) for src, tgt in sample]
        swapped: set[int] = set()
        for _ in range(ROUNDS):
            self._weights = _weights(sides, swapped)
            found = {n for n, (src, tgt) in enumerate(sides) if self._sum(src) < self._sum(tgt)}
            if len(found) * 2 > len(sides):
                found = set(range(len(sides))) - found
            if found == swapped:
                break
            swapped = found

    def of_pair(self, src: str, tgt: str) -> tuple[int, int]:
        """Of each text: 1 the source side's, -1 the target side's, 0 not clear.

        Words that stand in both, such as names, tell nothing and are left out.
        """
        words = _words(src), _words(tgt)
        shared = set(words[0]).intersection(words[1])
        src_lang, tgt_lang = (
            self._language(_trigrams([word for word in side if word not in shared]))
            for side in words
        )
        return src_lang, tgt_lang

    def _language(self, grams: Sequence[str]) -> int:
        evidence = self._sum(grams)
        if abs(evidence) < max(LEAST_EVIDENCE, LEAST_MEAN * len(grams)):
            return 0
        return 1 if evidence > 0 else -1

    def _sum(self, grams: Sequence[str]) -> float:
        weights = self._weights
        return sum([weights.get(gram, 0.0) for gram in grams])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _trigrams(words: Sequence[str]) -> list[str]:
    """Of the words in a row, with a space at both ends; Han, kana and Hangul also one by one, as
    each of them says more than a letter, and three of them are rarely seen again."""
    text = f" {' '.join(words)} "
    grams = [text[n : n + 3] for n in range(len(text) - 2)]
    return grams if text.isascii() else grams + [c for c in text if c >= "\u2e80"]


def _weights(
    sides: Sequence[tuple[Sequence[str], Sequence[str]]], swapped: set[int]
) -> dict[str, float]:
    """Trigram -> log of how much likelier it is on the source side; rare ones weigh little."""
    counts: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for n, (src, tgt) in enumerate(sides):
        turn = n in swapped
        counts[turn].update(src)
        counts[not turn].update(tgt)
    seen = counts[0].keys() | counts[1].keys()
    totals = [count.total() + len(seen) for count in counts]
    bias = math.log(totals[1] / totals[0]) if seen else 0.0
    return {gram: math.log((counts[0][gram] + 1) / (counts[1][gram] + 1)) + bias for gram in seen}
