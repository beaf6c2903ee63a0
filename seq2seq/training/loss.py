"""What training minimises."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2seq.config import PAD_ID

SLICE = {"cpu": 2**21, "cuda": 2**27}
"""Logits that are in fp32 at once: about what a CPU's cache holds; a few kernels on a GPU."""


def cross_entropy_sum(logits: Tensor, tgt_out: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy against label-smoothed targets (Szegedy et al. 2016, section 7).

    logits (B, T, V), tgt_out (B, T) -> scalar: the sum over real tokens, in nats and fp32

    Where a gradient will be asked for, it is computed at once and overwrites the logits: they are
    the largest tensor of a step, and no other of their size is made.
    """
    total: Tensor = _SlicedCrossEntropy.apply(
        logits.flatten(0, 1), tgt_out.flatten(), label_smoothing
    )
    return total


class _SlicedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in fp32, a slice of rows at a time, in the logits' own memory."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """logits (N, V), targets (N,) -> scalar

        With the wanted distribution q and the predicted one p, the loss of a row is
        log sum exp(logits) - sum q logits, and its gradient p - q.
        """
        vocab = logits.shape[1]
        rows = max(1, SLICE.get(logits.device.type, 2**24) // vocab)
        total = logits.new_zeros((), dtype=torch.float32)
        on, off = 1 - label_smoothing, label_smoothing / vocab  # q is off everywhere, plus on
        for part, gold in zip(logits.split(rows), targets[:, None].split(rows), strict=True):
            own = part.float()  # (rows, V)
            p = own.softmax(dim=-1)
            highest = p.amax(dim=-1, keepdim=True)
            log_sum = own.amax(dim=-1, keepdim=True) - highest.log()  # (rows, 1)
            loss = log_sum - on * own.gather(1, gold) - off * own.sum(dim=-1, keepdim=True)
            real = gold != PAD_ID
            total += (loss * real).sum()
            if ctx.needs_input_grad[0]:
                p.sub_(off).scatter_add_(1, gold, torch.full_like(loss, -on))
                part.copy_(p.mul_(real))
        ctx.gradient = logits
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        own, ctx.gradient = ctx.gradient, None
        assert own is not None, "the gradient is computed once, and used up"
        return own.mul_(gradient), None, None
