"""Gradients of a batch in parts that fit into memory."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import Parameter

from seq2seq.data.batch import Batch
from seq2seq.errors import ConfigError
from seq2seq.memory import attempt


class Parts:
    """Adds the gradients of a batch, one part after the other.

    A part that runs out of memory leaves no gradient behind: it is tried again if `free_memory` has
    freed some, else cut in two, and from then on all parts are cut to that size beforehand. What is
    learned from a batch stays the same, but for rounding and the draws of dropout.
    """

    def __init__(self, free_memory: Callable[[], bool] = lambda: False) -> None:
        self._free_memory = free_memory
        self.limit: int | None = None
        """Most positions of a part, its rows times its longer side; None while all have fitted."""

    def learn(
        self,
        parts: Sequence[Batch],
        parameters: Sequence[Parameter],
        work: Callable[[Batch], Tensor],
    ) -> Tensor:
        """Add the gradients of all parts to the parameters' -> the sum of their losses.

        `work` adds the gradients of one, and gives its loss, detached: the sum of its rows'.
        """
        waiting, losses = list(reversed(parts)), []
        while waiting:
            part = waiting.pop()
            if self.limit is not None and positions(part) > self.limit and len(part.src) > 1:
                waiting += reversed(halves(part))
                continue
            before = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                parameter.grad = None
            loss = attempt(partial(work, part))
            if loss is None:
                for parameter, gradient in zip(parameters, before, strict=True):
                    parameter.grad = gradient
                if not self._free_memory():
                    self._shrink(part)
                waiting.append(part)
                continue
            losses.append(loss)
            for parameter, gradient in zip(parameters, before, strict=True):
                if gradient is not None:  # stays where it is: recorded steps add to it
                    if parameter.grad is not None:
                        gradient += parameter.grad
                    parameter.grad = gradient
        return torch.stack(losses).sum()

    def _shrink(self, part: Batch) -> None:
        if len(part.src) == 1:
            raise ConfigError(too_large(part, "lower data.max_length"))
        self.limit = max(positions(half) for half in halves(part))
        warnings.warn(
            f"out of memory with {positions(part)} positions; going on with parts of "
            f"{self.limit}, whose gradients are added: the batches stay as they are. Lower "
            f"data.batch_tokens for smaller ones.",
            stacklevel=2,
        )


def positions(part: Batch) -> int:
    """Rows times the longer side, padding counted."""
    return len(part.src) * max(part.src.shape[1], part.tgt_out.shape[1])


def too_large(part: Batch, advice: str) -> str:
    """What to say of a part of one sentence that does not fit."""
    return (
        f"a sentence of {positions(part)} subwords alone does not fit into memory; {advice}, or "
        f"use a smaller model."
    )


def halves(part: Batch) -> tuple[Batch, Batch]:
    """The first half of the rows, and the others."""
    middle = (len(part.src) + 1) // 2
    src, tgt = (int(lens[:middle].sum()) for lens in (part.src_lens, part.tgt_lens))
    first = part.map_tensors(lambda x: x[:middle], src, tgt)
    return first, part.map_tensors(lambda x: x[middle:], part.src_tokens - src, part.tokens - tgt)
