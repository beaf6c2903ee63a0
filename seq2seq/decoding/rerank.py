"""The best of what was found, when all of it is known: what no search can see joins the scores."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from seq2seq.config import SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis

Find = Callable[[Sequence[Request], SearchConfig], list[list[Hypothesis]]]
"""One batch -> the n best of each sentence."""
Feature = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Sequence[float]]
"""Sentences, and one translation of each, ids without special tokens -> a number for each, as in a
log-linear model (Och and Ney 2002)."""


def find_and_rerank(
    find: Find, feature: Feature, weight: float, batch: Sequence[Request], config: SearchConfig
) -> list[list[Hypothesis]]:
    """The n best of each sentence by score + weight * feature, among all that a search keeps, or
    among the samples that are asked for."""
    found = find(batch, config if config.sampling else replace(config, n_best=config.beam))
    values: list[list[float]] = [[] for _ in batch]
    for rank in range(max(map(len, found), default=0)):  # one of each sentence: batches stay large
        rows = [row for row, each in enumerate(found) if len(each) > rank]
        src, tgt = [batch[row].src for row in rows], [found[row][rank].tokens for row in rows]
        for row, value in zip(rows, feature(src, tgt), strict=True):
            values[row].append(value)
    ranked = (rerank(*each, weight) for each in zip(found, values, strict=True))
    return [each[: config.n_best] for each in ranked]


def rerank(
    hypotheses: Sequence[Hypothesis], values: Sequence[float], weight: float
) -> list[Hypothesis]:
    """The hypotheses with weight * value added to their scores, best first."""
    scored = [
        Hypothesis(tokens, score + weight * value)
        for (tokens, score), value in zip(hypotheses, values, strict=True)
    ]
    return sorted(scored, key=lambda each: each.score, reverse=True)
