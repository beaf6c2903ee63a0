"""Which pairs make a batch, and in which order batches come."""

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler


class TokenBatchSampler(Sampler[list[int]]):
    """Batches of pairs of similar length under a token budget, in another order every epoch.

    lengths: of each pair, the longer side counted with its end token. A batch of n pairs costs
    n * longest, padding included, and stays within `batch_tokens`; a longer pair is a batch alone.
    Everything drawn follows from (seed, epoch): the same plan on every rank and after a resume.
    Ranks take turns in the plan; batches are split in two until the ranks share evenly.
    """

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]],
        batch_tokens: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths, self.batch_tokens = lengths, batch_tokens
        self.seed, self.shuffle, self.rank, self.world = seed, shuffle, rank, world
        self.epoch = 0
        self.start = 0
        """Batches of the epoch that are skipped, after a resume."""
        self._plan: tuple[int, list[list[int]]] | None = None

    def __len__(self) -> int:
        return len(self.plan()) // self.world

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.plan()[self.rank :: self.world][self.start :])

    def plan(self) -> list[list[int]]:
        """This epoch's batches of all ranks."""
        if self._plan is None or self._plan[0] != self.epoch:
            self._plan = (self.epoch, self._make_plan())
        return self._plan[1]

    def _make_plan(self) -> list[list[int]]:
        rng = random.Random(f"{self.seed}/{self.epoch}")
        order = list(range(len(self.lengths)))
        if self.shuffle:
            rng.shuffle(order)  # equal lengths meet in another order every epoch
        order.sort(key=lambda index: self.lengths[index])
        batches: list[list[int]] = []
        longest = 0
        for index in order:
            longest = max(longest, *self.lengths[index])
            if not batches or (len(batches[-1]) + 1) * longest > self.batch_tokens:
                batches.append([])
                longest = max(self.lengths[index])
            batches[-1].append(index)
        if self.shuffle:
            rng.shuffle(batches)
        return _divide(batches, self.world)


def _divide(batches: list[list[int]], world: int) -> list[list[int]]:
    """Split the largest batches in two until their number is a multiple of `world`."""
    batches = list(batches)
    while len(batches) % world:
        largest = max(range(len(batches)), key=lambda number: len(batches[number]))
        batch = batches.pop(largest)
        if len(batch) == 1:  # fewer pairs than ranks: some pair must be seen twice
            batches[largest:largest] = [batch, batch]
        else:
            batches[largest:largest] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
    return batches
