"""Some lines are translated a second time, each alone: their batches should have had no say."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Literal, NamedTuple

from seq2seq.sentence import Sentence
from seq2seq.translator import Translation, Translator

TOLERANCE = 1e-4
"""Between scores that count as equal: sums in fp32 depend on their order."""


Verdict = Literal["same", "tie", "different"]


class Comparison(NamedTuple):
    """A line, translated among others and alone."""

    number: int
    together: Translation
    alone: Translation
    verdict: Verdict


def verdict_on(one: Translation, other: Translation) -> Verdict:
    """Two different translations whose scores are equal are a tie."""
    if not math.isclose(one.score, other.score, rel_tol=0, abs_tol=TOLERANCE):
        return "different"
    return "same" if one.text == other.text else "tie"


class Sample:
    """At most `count` of the lines that pass, all with the same chance (Vitter 1985, algorithm R).

    The same lines for the same number of them.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self.random, self.seen = count, Random(seed), 0
        self.kept: list[tuple[int, str | Sentence, Translation]] = []

    def see(self, number: int, sentence: str | Sentence, best: Translation) -> None:
        self.seen += 1
        if len(self.kept) < self.count:
            self.kept.append((number, sentence, best))
        elif (place := self.random.randrange(self.seen)) < self.count:
            self.kept[place] = number, sentence, best

    def compare(self, translator: Translator) -> Iterator[Comparison]:
        """With translations of each line in a batch of its own, in order of lines."""
        alone = copy.copy(translator)
        alone.batch_tokens = 1
        kept = sorted(self.kept, key=lambda each: each[0])
        found = alone.stream(at_line(number, sentence) for number, sentence, _ in kept)
        for (number, _, together), (best, *_) in zip(kept, found, strict=True):
            yield Comparison(number, together, best, verdict_on(together, best))


def at_line(number: int, sentence: str | Sentence) -> Sentence:
    """The sentence, to be drawn as on line `number`, from 1, of the input."""
    whole = Sentence(sentence) if isinstance(sentence, str) else sentence
    return whole if whole.number is not None else replace(whole, number=number - 1)
