"""What training minimises."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2seq.data.batch import Batch
from seq2seq.nn.attention import takes_joined
from seq2seq.nn.layers import product_type
from seq2seq.nn.layout import Joined, Layout, Unpadded
from seq2seq.nn.transformer import Transformer

Fused = Callable[[Tensor, Tensor, float, float, float], Tensor]
SLICE = {"cpu": 2**20, "cuda": 2**27}
"""Logits that are in fp32 at once: about what a CPU's cache holds; a few kernels on a GPU."""


def token_logits(network: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (M, V) of each target token, given those before it, and its id (M,); no padding.

    Where the batch counts more tokens than it has, see `recorded.shaped`, their logits are zeros.
    """
    src, tgt = _without_padding(network, batch)
    hidden = network(batch.src, batch.src_lens, batch.tgt_in, src, tgt)  # (M, D)
    if isinstance(tgt, Joined):
        hidden = hidden.where((tgt.sentences < len(batch.tgt_lens))[:, None], 0)
    return network.project(hidden), tgt.tokens(batch.tgt_out)


def _without_padding(network: Transformer, batch: Batch) -> tuple[Layout, Layout]:
    """The layouts of both sides."""
    sides = (
        (batch.src_lens, batch.src.shape[1], batch.src_tokens),
        (batch.tgt_lens, batch.tgt_in.shape[1], batch.tokens),
    )
    if joins_sentences(network):
        return Joined.of(*sides[0]), Joined.of(*sides[1])
    heads = network.config.heads
    return Unpadded.of(*sides[0], heads), Unpadded.of(*sides[1], heads)


def joins_sentences(network: Transformer) -> bool:
    """Whether the network learns from joined sentences, in the type of its products now."""
    weight, head_dim = network.output.weight, network.config.head_width
    return takes_joined(weight.device, product_type(weight), head_dim, network.attention)


def cross_entropy_sum(
    logits: Tensor,
    wanted: Tensor,
    label_smoothing: float = 0.0,
    r_drop: float = 0.0,
    unit: float = 1.0,
    fused: Fused | None = None,
) -> Tensor:
    """Cross-entropy against label-smoothed targets (Szegedy et al. 2016, section 7).

    logits (M, V), wanted (N,) -> scalar: the sum over N tokens, in nats and fp32, divided by `unit`

    Logits beyond the N-th are those of no token, and get no gradient. With `r_drop` = alpha, they
    are those of two passes with different dropout, 2 N, and the loss is half of R-Drop's (L. Wu et
    al. 2021, eq. 4): the mean of both cross-entropies plus alpha / 4 (KL(p || q) + KL(q || p)).

    Where a gradient will be asked for, it is computed at once and overwrites the logits: they are
    the largest tensor of a step, and no other of their size is made.
    """
    total: Tensor = _SlicedLoss.apply(logits, wanted, label_smoothing, r_drop, unit, fused)  # type: ignore[no-untyped-call]
    return total


class _SlicedLoss(torch.autograd.Function):
    """Loss and gradient in fp32, a slice of tokens at a time, in the logits' own memory.

    In fp16 a gradient that is divided before a loss scale multiplies it would underflow, so there
    both are done in one multiplication, at the end.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        wanted: Tensor,
        label_smoothing: float,
        r_drop: float,
        unit: float,
        fused: Fused | None,
    ) -> Tensor:
        """logits (M, V), M >= P N of P passes, wanted (N,) -> scalar

        With the wanted distribution q and the predicted one p, the loss of a token is
        log sum exp(logits) - sum q logits, and its gradient p - q.
        """
        passes, vocab = 2 if r_drop else 1, logits.shape[1]
        count = passes * len(wanted)
        # Detached: when torch compiles anew for a slice, e.g. one of a single token, the slice must
        # not be of a tensor that requires a gradient and was changed by earlier slices.
        real = logits.detach()[:count].view(passes, -1, vocab)  # (P, N, V)
        share = 1 / (passes * unit)  # of a token's loss in what is returned
        size = max(1, SLICE.get(logits.device.type, 2**24) // (passes * vocab))
        total = logits.new_zeros((), dtype=torch.float32)
        on, off = 1 - label_smoothing, label_smoothing / vocab  # q: `off`, plus `on` at the gold
        scale = 1.0 if logits.dtype == torch.float16 else share  # of the gradient, for now
        minus_off = torch.full_like(total, -off * scale)
        widens = logits.device.type != "cpu"  # kernels of a GPU convert what they read
        for part, tokens in zip(real.split(size, dim=1), wanted.split(size), strict=True):
            gold = tokens.expand(passes, -1)[..., None]  # (P, size, 1)
            if fused is not None and not r_drop and ctx.needs_input_grad[0]:
                total += fused(part, gold, on, off, scale)
                continue
            own = part if widens and not r_drop else part.float()  # (P, size, V)
            p = own.softmax(dim=-1, dtype=torch.float32)
            # log p = logit - log_sum, so the likeliest subword tells log_sum.
            highest = p.amax(dim=-1, keepdim=True)
            log_sum = own.amax(dim=-1, keepdim=True) - highest.log()  # (P, size, 1)
            loss = log_sum - on * own.gather(-1, gold).float()
            loss -= off * own.sum(dim=-1, keepdim=True, dtype=torch.float32)
            distance_gradient = None
            if r_drop:
                distance, distance_gradient = _disagreement(p, own.sub_(log_sum))
                loss = loss + r_drop / 4 * distance
            total += loss.sum()
            if ctx.needs_input_grad[0]:
                p.scatter_add_(-1, gold, torch.full_like(loss, -on))
                if distance_gradient is not None:
                    p.add_(distance_gradient, alpha=r_drop / 2)
                torch.add(minus_off, p, alpha=scale, out=part)
        if ctx.needs_input_grad[0]:
            logits[count:] = 0
        ctx.gradient, ctx.factor = logits, share / scale
        return total * share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        own, ctx.gradient = ctx.gradient, None
        assert own is not None, "the gradient is computed once, and used up"
        gradient = gradient * ctx.factor
        # Multiplying is a pass over the largest tensor. It is left out where the factor is 1, as in
        # training, which asks for the gradient of the loss itself, unless fp16 scales it. On a GPU
        # that is asserted, since finding out would wait for it.
        if gradient.device.type == "cuda" and own.dtype != torch.float16:
            torch._assert_async(gradient == 1, "on a GPU, the gradient of this loss as it is")
        elif gradient.device.type != "cpu" or gradient.numpy() != 1:
            own.mul_(gradient)
        return own, None, None, None, None, None


def slice_loss(part: Tensor, gold: Tensor, on: float, off: float, scale: float) -> Tensor:
    """The loss of a slice, whose gradient takes the place of its logits: part (1, n, V), gold
    (1, n, 1) -> scalar. To be compiled: it then reads the logits three times and writes them once.

    `on`, `off` and `scale` are multiplied or added: a torch.where of them, compiled by torch 2.13,
    would keep the numbers of its first call, even of one in an earlier process."""
    own = part.float()
    highest = own.amax(dim=-1, keepdim=True)
    shares = (own - highest).exp()
    sums = shares.sum(dim=-1, keepdim=True)
    loss = highest + sums.log() - on * own.gather(-1, gold) - off * own.sum(dim=-1, keepdim=True)
    wanted = torch.arange(part.shape[-1], device=part.device) == gold
    part.copy_((shares / sums - on * wanted - off) * scale)
    return loss.sum()


def _disagreement(p: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """KL(p || q) + KL(q || p) of two passes, and its gradient with respect to their logits.

    p and log_p (2, N, V) -> (N, 1) and (2, N, V)
    """
    ratio = log_p - log_p.flip(0)  # (2, N, V)
    one_way = (p * ratio).sum(dim=-1, keepdim=True)  # (2, N, 1), from each pass to the other
    return one_way.sum(dim=0), p * (ratio - one_way) + p - p.flip(0)
