"""Batches on their way from a worker."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.batch import Batch

Shape = tuple[int, ...]


class Parcel(NamedTuple):
    """Batches in parts, all their tensors in one: each tensor that a worker sends takes a file
    descriptor of both processes."""

    content: Tensor
    shapes: list[list[tuple[list[Shape], int, int]]]
    """For each batch, for each part of it: the shapes of its tensors, and its numbers of tokens."""

    @classmethod
    def of(cls, batches: Sequence[Sequence[Batch]]) -> "Parcel":
        """What `batches` gives back."""
        parts = [part for batch in batches for part in batch]
        content = torch.cat([each.flatten() for part in parts for each in part.tensors])
        shapes = [
            [
                ([tuple(x.shape) for x in part.tensors], part.src_tokens, part.tokens)
                for part in batch
            ]
            for batch in batches
        ]
        return cls(content, shapes)

    def batches(self) -> Iterator[list[Batch]]:
        """Each in its parts, which share this one's memory."""
        sizes = [math.prod(x) for batch in self.shapes for shapes, *_ in batch for x in shapes]
        tensors = iter(self.content.split(sizes))
        for batch in self.shapes:
            yield [
                Batch._make([*(next(tensors).view(shape) for shape in shapes), *tokens])
                for shapes, *tokens in batch
            ]
