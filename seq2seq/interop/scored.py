"""Our limits and scores for what another library has found or drawn, and the seed of its draws."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import TypeVar

from seq2seq.config import SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis, length_penalty
from seq2seq.engine import ScoringEngine

Found = TypeVar("Found")
"""A translation, as the library tells it."""
PAIRS = 32
"""Sentences and translations that are scored at a time."""


def within_limits(
    search: Callable[[Sequence[Request], int, SearchConfig], list[list[Found]]],
    batch: Sequence[Request],
    limits: Sequence[int],
    config: SearchConfig,
    length: Callable[[Found], int],
) -> list[list[Found]]:
    """What a library finds of each sentence, whatever the limits of the others.

    It has one limit for a batch, the largest. Where a beam went on after the limit of its own
    sentence, cutting does not give what a beam with that limit finds, so it is searched for again.
    What is greedy or drawn needs only to be cut.
    """
    largest, again = max(limits), defaultdict[int, list[int]](list)
    found = search(batch, largest, config)
    if config.beam == 1 or config.sampling is not None:
        return found
    for row, (told, limit) in enumerate(zip(found, limits, strict=True)):
        if limit < largest and max(map(length, told)) + 1 >= limit:
            again[limit].append(row)
    for limit, rows in again.items():
        alike = search([batch[row] for row in rows], limit, config)
        for row, told in zip(rows, alike, strict=True):
            found[row] = told
    return found


def scored(
    engine: ScoringEngine,
    batch: Sequence[Request],
    translations: Sequence[Sequence[Ids]],
    config: SearchConfig,
) -> list[list[Hypothesis]]:
    """Of each sentence its translations, best first; equal ones once, unless they were drawn."""
    once = [dict.fromkeys(map(tuple, each)) for each in translations]
    kept = once if config.sampling is None else translations
    pairs = [(each.src, tokens) for each, told in zip(batch, kept, strict=True) for tokens in told]
    parts = [pairs[start : start + PAIRS] for start in range(0, len(pairs), PAIRS)]
    rows = chain.from_iterable(engine.log_probs(*zip(*part, strict=True)) for part in parts)
    scores = (float(row.sum()) / length_penalty(len(row), config) for row in rows)
    found = [[Hypothesis(list(tokens), next(scores)) for tokens in told] for told in kept]
    return [sorted(each, key=lambda h: h.score, reverse=True)[: config.n_best] for each in found]


def seed_of(batch: Sequence[Request], seed: int) -> int:
    """What another library's random numbers for a batch start from: 32 bits that follow from the
    search's seed and the place of the batch's first sentence."""
    line, piece = batch[0].place
    return Random(f"{seed}/{line}/{piece}").getrandbits(32)
