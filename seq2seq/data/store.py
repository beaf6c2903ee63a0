"""Encoded sentences, kept compactly: one flat tensor of ids, and where each sentence begins."""

from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor

from seq2seq.config import PAD_ID


class TokenStore:
    """A sequence of id sequences."""

    def __init__(self, sentences: Sequence[Sequence[int]]) -> None:
        self._ids = torch.tensor(list(chain.from_iterable(sentences)) or [PAD_ID])
        self._starts = torch.tensor([0, *accumulate(map(len, sentences))])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def lengths(self) -> list[int]:
        """Subwords of each sentence."""
        return self._starts.diff().tolist()

    def padded(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Sentences of a batch: ids (B, N) filled up with the padding id, and lengths (B,)."""
        rows = torch.tensor(indices)
        starts = self._starts[rows]  # (B,)
        lens = self._starts[rows + 1] - starts  # (B,)
        columns = torch.arange(int(lens.max()))  # (N,)
        inside = columns < lens[:, None]  # (B, N)
        where = (starts[:, None] + columns).where(inside, 0)
        return self._ids[where].where(inside, PAD_ID), lens

    def subset(self, kept: Sequence[int]) -> "TokenStore":
        """Only these sentences, in this order."""
        starts = self._starts.tolist()
        return TokenStore([self._ids[starts[i] : starts[i + 1]].tolist() for i in kept])
