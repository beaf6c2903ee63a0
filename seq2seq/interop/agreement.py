"""Two engines on the same sentences: do they see the same probabilities, say the same?

The first is the measure: our own engine with the model that was exported.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.data.batch import Ids, batches
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import ScoringEngine
from seq2seq.interop.sample import Example
from seq2seq.translator import NOTHING

TOLERANCE = 1e-4
"""Of a log-probability in fp32, where sums are added up in another order."""
BATCH_TOKENS = 4096
"""Of a batch, as `translate` has them."""


@dataclass(frozen=True)
class Found:
    """What one engine made of all examples."""

    best: list[Hypothesis]
    seconds: float


@dataclass(frozen=True)
class Agreement:
    """Numbers in lists are those of examples, from 0."""

    forced: float
    """Largest difference between log-probabilities of a token of given translations."""
    greedy: list[int]
    """Whose greedy translation differs."""
    ties: list[int]
    """Those of them that differ because two tokens are equally likely, but for rounding."""
    native: Found
    other: Found

    @property
    def differing(self) -> list[int]:
        """Whose translation differs."""
        pairs = zip(self.native.best, self.other.best, strict=True)
        return [number for number, (a, b) in enumerate(pairs) if a.tokens != b.tokens]

    @property
    def score_difference(self) -> float:
        """Largest difference between the scores of a sentence, its translations equal or not."""
        pairs = zip(self.native.best, self.other.best, strict=True)
        return max(abs(a.score - b.score) for a, b in pairs)

    @property
    def equal(self) -> bool:
        """As two programs for one network are. Beam search does not count: one that stops by
        another rule may find something else."""
        return self.forced <= TOLERANCE and self.greedy == self.ties


def compare(
    native: ScoringEngine,
    other: ScoringEngine,
    examples: Sequence[Example],
    config: SearchConfig,
) -> Agreement:
    """`config` is of the search whose translations and time are told."""
    forced = forced_difference(native, other, examples)
    narrow = replace(config, beam=1, n_best=1)
    ours, theirs = (search(engine, examples, narrow).best for engine in (native, other))
    pairs = [(a.tokens, b.tokens) for a, b in zip(ours, theirs, strict=True)]
    greedy = [number for number, (a, b) in enumerate(pairs) if a != b]
    ties = [number for number in greedy if is_tie(native, examples[number].src, *pairs[number])]
    found = [search(engine, examples, config) for engine in (native, other)]
    return Agreement(forced, greedy, ties, *found)


def search(engine: ScoringEngine, examples: Sequence[Example], config: SearchConfig) -> Found:
    """The best translation of each, and the time of all."""
    best, start = [NOTHING] * len(examples), time.perf_counter()
    for rows in batches([len(each.src) + 1 for each in examples], BATCH_TOKENS):
        told = engine.search([Request(examples[row].src) for row in rows], config)
        for row, hypotheses in zip(rows, told, strict=True):
            best[row] = (hypotheses or [NOTHING])[0]
    return Found(best, time.perf_counter() - start)


def forced_difference(
    native: ScoringEngine, other: ScoringEngine, examples: Sequence[Example]
) -> float:
    """Largest difference of a log-probability; NaN if any is NaN. What is never said is left out,
    and what both consider impossible: probabilities of 0 have logarithms of any size."""
    differences = [torch.zeros(1)]
    for rows in batches([len(each.src) + 1 for each in examples], BATCH_TOKENS):
        src, tgt = [examples[row].src for row in rows], [examples[row].tgt for row in rows]
        for a, b in zip(native.log_probs(src, tgt), other.log_probs(src, tgt), strict=True):
            impossible = (a == -torch.inf) | ((a.exp() == 0) & (b.exp() == 0))
            differences.append((a - b).abs()[~impossible])
    return float(torch.cat(differences).max())


def is_tie(engine: ScoringEngine, src: Ids, one: Ids, other: Ids) -> bool:
    """Whether two translations part where the engine considers both tokens equally likely."""
    both = zip([*one, EOS_ID], [*other, EOS_ID], strict=False)
    place = next(place for place, (a, b) in enumerate(both) if a != b)
    a, b = engine.log_probs([src, src], [one, other])
    return abs(float(a[place] - b[place])) <= TOLERANCE
