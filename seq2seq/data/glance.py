"""A second's look at the training corpora, however large they are, for evaluation pairs in them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seq2seq.data.corpus import Pair

RUN = 64
"""Neighbouring pairs, which are read from disk together."""


class Glance(NamedTuple):
    """What `glance` found."""

    pairs: int
    """Evaluation pairs that are in train."""
    sources: int
    """Evaluation pairs whose source is in train."""
    looked_at: int
    of: int
    """Training pairs."""


def glance(evaluation: Sequence[Pair], train: Sequence[Sequence[Pair]], most: int) -> Glance:
    """Looks for what is in train letter for letter, with text on both sides.

    Of more than `most` training pairs it looks at about that many: runs of neighbours, evenly from
    the first to the last of each corpus.
    """
    full = [pair for pair in evaluation if pair.full]
    pairs, sources = set(full), {pair.src for pair in full}
    of, looked_at = sum(map(len, train)), 0
    for corpus in train:
        for index in spread(len(corpus), most * len(corpus) // of):
            pair = corpus[index]
            pairs.discard(pair)
            sources.discard(pair.src)
            looked_at += 1
    return Glance(
        pairs=sum(pair not in pairs for pair in full),
        sources=sum(pair.src not in sources for pair in full),
        looked_at=looked_at,
        of=of,
    )


def spread(size: int, most: int) -> Iterator[int]:
    """Indices below `size`: all, or runs of them from the first to the last."""
    runs = max(2, most // RUN)
    if size <= max(most, runs * RUN):
        yield from range(size)
        return
    for run in range(runs):
        start = run * (size - RUN) // (runs - 1)
        yield from range(start, start + RUN)
