"""Which evaluation sentences another corpus already has, exactly or after folding.

Only fingerprints of the evaluation sets are kept, so the size of the training corpus plays no part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from seq2seq.data.corpus import Pair
from seq2seq.data.survey import fingerprint
from seq2seq.text.normalize import clean, fold


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to be the same; shares of the evaluation set above which it matters."""

    says: str
    warns_above: float
    spoils_above: float


# Short common sentences ("Thank you.") overlap in honest splits. One pair in a hundred moves a
# score by less than its confidence interval. A source sentence with another translation gives away
# less than the pair, so a quarter of them is the limit; a target sentence gives away least. So do
# pairs of a validation set, by which one model of a few is chosen, up to a quarter.
KINDS = {
    "overlap-pair": Kind(says="pairs that are in train", warns_above=0.0, spoils_above=0.01),
    "overlap-pair-folded": Kind(
        says="pairs that are in train but for case and punctuation",
        warns_above=0.0,
        spoils_above=0.01,
    ),
    "overlap-source": Kind(says="sources that are in train", warns_above=0.01, spoils_above=0.25),
    "overlap-source-folded": Kind(
        says="sources that are in train but for case and punctuation",
        warns_above=0.01,
        spoils_above=0.25,
    ),
    "overlap-target": Kind(says="targets that are in train", warns_above=0.05, spoils_above=1.0),
    "overlap-target-folded": Kind(
        says="targets that are in train but for case and punctuation",
        warns_above=0.05,
        spoils_above=1.0,
    ),
    "overlap-validation": Kind(
        says="pairs that are in a validation set", warns_above=0.0, spoils_above=0.25
    ),
    "overlap-validation-folded": Kind(
        says="pairs that are in a validation set but for case and punctuation",
        warns_above=0.0,
        spoils_above=0.25,
    ),
}


@dataclass
class Overlap:
    """Evaluation pairs first (`expect`), then the pairs of train, or of the validation sets
    (`meet`), then `met` answers."""

    _expected: dict[str, set[int]] = field(default_factory=lambda: {kind: set() for kind in KINDS})
    _met: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def expect(self, pair: Pair) -> None:
        for kind, key in _keys(pair):
            self._expected[kind].add(key)

    def meet(self, pair: Pair, line: int) -> None:
        if any(self._expected.values()):
            for kind, key in _keys(pair):
                if key in self._expected[kind]:
                    self._met[kind].setdefault(key, line)

    def met(self, pair: Pair) -> dict[str, int]:
        """Kind -> the first line met that is the same as this evaluation pair."""
        found = {kind: self._met[kind].get(key) for kind, key in _keys(pair)}
        return {kind: line for kind, line in found.items() if line is not None}


def _keys(pair: Pair) -> Iterator[tuple[str, int]]:
    """Empty texts have no key, texts without a letter or digit none after folding."""
    for ending, form in (("", clean), ("-folded", fold)):
        src, tgt = form(pair.src), form(pair.tgt)
        if src and tgt:
            yield f"overlap-pair{ending}", fingerprint(src, tgt)
        if src:
            yield f"overlap-source{ending}", fingerprint(src)
        if tgt:
            yield f"overlap-target{ending}", fingerprint(tgt)
