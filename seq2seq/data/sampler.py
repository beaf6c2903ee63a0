"""Which pairs of a corpus make a batch, and in which order batches come."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.batch import round_up
from seq2seq.data.store import Lengths

SLICE = 256
"""Neighbouring pairs that always stay in one block: they are read from disk together."""
BLOCK = 256 * SLICE
"""About so many pairs are shuffled and sorted together: a corpus half as large again is planned in
two blocks."""

Indices = NDArray[np.int64]


class Draw(NamedTuple):
    """A batch before it is read: what is drawn for it follows from these and the seed."""

    corpus: int
    """Which of the run's training corpora."""
    epoch: int
    """How often this corpus has been seen through."""
    indices: list[int]
    """Pairs of the corpus."""


class TokenBatchSampler:
    """Batches of pairs of similar length under a token budget, in another order every epoch.

    lengths: as `PairStore.lengths`. A batch of n pairs costs n times its longest side, which is
    counted with its end token; that stays within `batch_tokens`, but a longer pair is a batch by
    itself. No batch has more than `batch_pairs` pairs.
    With `max_length`, pairs with an empty or a longer side never come.

    Everything drawn follows from (seed, epoch): the same plan on every rank and after a resume.
    Ranks take turns in the plan; batches are split in two until the ranks share evenly, in whole
    steps of `accumulated` batches. That comes last, so that with other numbers of ranks, or of
    batches in a step, nearly the same pairs come in the first half of an epoch. The corpus is cut
    into blocks of slices from all over it, the same in every epoch. How many batches a block gives
    depends on its lengths alone, so the place of a batch is found without planning what comes
    before it, and memory does not grow with the corpus.
    """

    def __init__(
        self,
        lengths: Lengths,
        batch_tokens: int,
        *,
        batch_pairs: int = 1024,
        max_length: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
        accumulated: int = 1,
        corpus: int = 0,
    ) -> None:
        self.lengths, self.batch_tokens, self.batch_pairs = lengths, batch_tokens, batch_pairs
        self.max_length = max_length
        self.seed, self.shuffle, self.rank, self.world = seed, shuffle, rank, world
        self.corpus, self._divisor = corpus, world * accumulated
        slices = np.arange(-(-len(lengths) // SLICE))
        number = max(1, round(len(lengths) / BLOCK))
        if shuffle and number > 1:
            slices = np.random.default_rng([seed, corpus]).permutation(slices)
        self._blocks = np.array_split(slices, number)
        self.pairs = self.empty = self.longest = 0
        """Pairs that come, pairs with an empty side, and the longest side that comes, with its end
        token."""
        self._counts = np.array([self._take_stock(block) for block in range(number)])

    def __len__(self) -> int:
        """Batches of an epoch for each rank."""
        return int(self._counts.sum()) // self.world

    def __iter__(self) -> Iterator[Draw]:
        return self.batches(0)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Draw]:
        """This rank's batches of an epoch, without the first `start`."""
        order = np.arange(len(self._blocks))
        if self.shuffle:
            order = self._random(epoch).permutation(order)
        ends = self._counts[order].cumsum() // self.world
        for place in range(int(np.searchsorted(ends, start, side="right")), len(order)):
            before = int(ends[place - 1]) if place else 0
            plan = self.plan(epoch, int(order[place]))
            for indices in plan[self.rank :: self.world][max(0, start - before) :]:
                yield Draw(self.corpus, epoch, indices.tolist())

    def plan(self, epoch: int, block: int) -> list[Indices]:
        """A block's batches of all ranks, in the order of an epoch."""
        rng = self._random(epoch, block)
        indices = self._members(block)
        lengths = self.lengths[indices]
        fits = self._fits(lengths)
        indices, lengths = indices[fits], lengths[fits]
        longer = self._longer(lengths)
        src, tgt = lengths.T.astype(np.float64)
        # Pairs whose longer sides are equal are sorted by how much longer the source is; a little
        # noise, at the cost of 1% more padding, mixes them with other pairs in every epoch.
        noise = 2 * rng.random(len(indices)) if self.shuffle else 0
        indices = indices[np.lexsort((src - tgt + noise, longer))]
        sizes = self._sizes(longer)
        batches = np.split(indices, np.cumsum(sizes)[:-1]) if sizes else []
        if self.shuffle:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        batches = _divide(batches, self._divisor)
        # Too few pairs to share: some are seen twice.
        return batches + [batches[i % len(batches)] for i in range(-len(batches) % self._divisor)]

    def _random(self, *draw: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.corpus, *draw])

    def _members(self, block: int) -> Indices:
        """All pairs of a block, in the order of its slices."""
        indices = self._blocks[block][:, None] * SLICE + np.arange(SLICE)  # (slices, SLICE)
        return indices[indices < len(self.lengths)]

    def _fits(self, lengths: Lengths) -> NDArray[np.bool_]:
        """Which of these pairs come at all."""
        if self.max_length is None:
            return np.ones(len(lengths), np.bool_)
        fits: NDArray[np.bool_] = np.minimum(*lengths.T) > 0
        fits &= np.maximum(*lengths.T) <= self.max_length
        return fits

    def _longer(self, lengths: Lengths) -> Indices:
        """The longer side of each pair, as it counts for the budget."""
        longer: Indices = np.maximum(*lengths.T).astype(np.int64) + 1
        return longer

    def _sizes(self, longer: Indices) -> list[int]:
        """How many pairs each batch takes, in ascending order of length."""
        histogram = np.bincount(longer)
        sizes: list[int] = []
        filled = 0
        for longest in np.flatnonzero(histogram).tolist():
            capacity = max(1, min(self.batch_pairs, self.batch_tokens // longest))
            left = int(histogram[longest])
            while left:
                if filled >= capacity:
                    sizes.append(filled)
                    filled = 0
                taken = min(left, capacity - filled)
                filled, left = filled + taken, left - taken
        return [*sizes, filled] if filled else []

    def _take_stock(self, block: int) -> int:
        """Count the pairs of a block, and its batches."""
        lengths = self.lengths[self._members(block)]
        kept = lengths[self._fits(lengths)]
        self.pairs += len(kept)
        self.empty += int((np.minimum(*lengths.T) == 0).sum())
        if not len(kept):
            return 0
        self.longest = max(self.longest, int(kept.max()) + 1)
        return round_up(len(self._sizes(self._longer(kept))), self._divisor)


def _divide(batches: list[Indices], divisor: int) -> list[Indices]:
    """Split the largest batches in two until their number is a multiple of `divisor`, or all
    are single pairs."""
    while len(batches) % divisor and len(largest := max(batches, key=len)) > 1:
        number = next(i for i, batch in enumerate(batches) if batch is largest)
        batches[number : number + 1] = np.array_split(largest, 2)
    return batches
