"""Encoded pairs, kept compactly: one flat tensor of ids a side, and where each sentence ends."""

from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor


class TokenStore:
    """A list of id sequences in two tensors; `store[i]` is the i-th, a view."""

    def __init__(self, sentences: Sequence[Sequence[int]]) -> None:
        self._ids = torch.tensor(list(chain.from_iterable(sentences)), dtype=torch.int32)
        self._ends = [0, *accumulate(map(len, sentences))]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Tensor:
        return self._ids[self._ends[index] : self._ends[index + 1]]

    def length(self, index: int) -> int:
        """Subwords of the i-th sentence."""
        return self._ends[index + 1] - self._ends[index]

    def subset(self, kept: Sequence[int]) -> "TokenStore":
        """Only these sequences, in this order."""
        return self if len(kept) == len(self) else TokenStore([self[i].tolist() for i in kept])
