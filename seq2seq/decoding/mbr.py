"""Minimum Bayes risk: the candidate that is most like all of them (Kumar and Byrne 2004; over
samples: Eikema and Aziz 2020). Where the candidates come from is not its business."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

Utility = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""Hypotheses and references -> a row for each hypothesis: how good it is if each reference is
right."""


class Choice(NamedTuple):
    """A candidate and what is expected of it."""

    place: int
    utility: float
    """The mean over all candidates, itself too, each taken for the right one."""


def rank(
    candidates: Sequence[str], utility: Utility, weights: Sequence[float] | None = None
) -> list[Choice]:
    """The candidates, best first, and of equal ones the first; the same text is listed once and
    weighs as much as all of its copies. Without weights all weigh the same."""
    weights = weights if weights is not None else [1.0] * len(candidates)
    weight, first = defaultdict[str, float](float), dict[str, int]()
    for index, (text, share) in enumerate(zip(candidates, weights, strict=True)):
        weight[text] += share
        first.setdefault(text, index)
    texts, total = list(first), sum(weights)
    choices = [
        Choice(first[text], sum(u * w for u, w in zip(row, weight.values(), strict=True)) / total)
        for text, row in zip(texts, utility(texts, texts), strict=True)
    ]
    return sorted(choices, key=lambda choice: choice.utility, reverse=True)
