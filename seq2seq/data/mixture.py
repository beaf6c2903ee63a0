"""Several corpora in one run: how often a batch comes from each."""

from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from seq2seq.data.sampler import Draw, TokenBatchSampler
from seq2seq.errors import ConfigError

Shares = NDArray[np.int64]


class Mixture(Sampler[list[Draw]]):
    """What is drawn from all corpora, in one order, epoch after epoch; each draw from one corpus.

    Corpus i gives a share of the batches that is proportional to `weights[i]` or, where all are
    None, to its own number of batches ** (1 / temperature) (Arivazhagan et al. 2019): at 1 every
    pair comes once an epoch, above it small corpora come more often. An epoch has as many batches
    as all corpora together. Each share is rounded to whole steps of `accumulated` batches, at least
    one. Each corpus goes through its own epochs, one after the other: no pair of it comes twice
    before all others have come once.
    """

    def __init__(
        self,
        samplers: Sequence[TokenBatchSampler],
        *,
        weights: Sequence[float | None] = (),
        temperature: float = 1.0,
        accumulated: int = 1,
        together: int = 1,
        seed: int = 0,
    ) -> None:
        self.samplers, self.accumulated = samplers, accumulated
        self.together, self.seed = together, seed
        self.epoch = 0
        """The first epoch."""
        self.start = 0
        """Batches of it that are skipped, after a resume; a multiple of `together`."""
        self.limit: int | None = None
        """Batches after which an epoch ends, if it has more."""
        sizes = np.array([len(sampler) for sampler in samplers])
        self.shares = accumulated * _shares(sizes // accumulated, weights, temperature)
        """Batches of each corpus in an epoch."""

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return int(self.shares.sum())

    @property
    def end(self) -> int:
        """Where an epoch ends."""
        return len(self) if self.limit is None else min(len(self), self.limit)

    def place(self, batches: int, end: int) -> int:
        """Where to go on in an epoch of which `batches` were seen, when it had `end`: at the same
        share of its present length, rounded to whole steps."""
        step = self.accumulated
        return step * min(round(batches * self.end / (end * step)), (self.end - 1) // step)

    def __iter__(self) -> Iterator[list[Draw]]:
        """The draws of all epochs, without end, `together` at a time, fewer where an epoch ends:
        workers that prefetch need not wait where the next epoch begins."""
        start = self.start
        for epoch in count(self.epoch):
            draws = islice(self.batches(epoch, start), self.end - start)
            while some := list(islice(draws, self.together)):
                yield some
            start = 0

    def batches(self, epoch: int, start: int = 0) -> Iterator[Draw]:
        """Those of an epoch, without the first `start`."""
        corpora = np.repeat(np.arange(len(self.samplers), dtype=np.uint16), self.shares)
        corpora = np.random.default_rng([self.seed, epoch]).permutation(corpora)
        passed = np.bincount(corpora[:start], minlength=len(self.samplers))
        streams = [
            _endless(sampler, int(epoch * share + before))
            for sampler, share, before in zip(self.samplers, self.shares, passed, strict=True)
        ]
        for corpus in corpora[start:]:
            yield next(streams[corpus])


def check_weights(weights: Sequence[float | None]) -> None:
    """ConfigError where some corpora have one, and others none."""
    given = len(weights) - weights.count(None)
    if given not in (0, len(weights)):
        raise ConfigError(
            f"data.train: {given} of {len(weights)} corpora have a weight; give one to each or to "
            f"none."
        )


def _shares(sizes: Shares, weights: Sequence[float | None], temperature: float) -> Shares:
    given = [weight for weight in weights if weight is not None]
    wanted = np.array(given or sizes ** (1 / temperature), dtype=np.float64)
    wanted /= wanted.max()  # the sum of large ones may be infinite
    shares: Shares = np.rint(sizes.sum() * wanted / wanted.sum()).astype(np.int64)
    return shares.clip(min=1)


def _endless(sampler: TokenBatchSampler, position: int) -> Iterator[Draw]:
    """The batches of a corpus, epoch after epoch, from a position counted since the first."""
    epoch, start = divmod(position, len(sampler))
    for later in count(epoch):
        yield from sampler.batches(later, start)
        start = 0
