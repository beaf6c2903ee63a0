"""The likeliest continuations of each sentence, over all its beams: what beam search asks for at
each step. On a CPU, torch's `topk` of everything would take a tenth of the search's time."""

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 64
"""Tokens whose maximum is looked at first."""


class Continuations(NamedTuple):
    """Of B sentences, C each, best first."""

    totals: Tensor
    """(B, C): log-probability with all that was said before."""
    beams: Tensor
    """(B, C): which beam each continues."""
    tokens: Tensor
    """(B, C): what it says next."""


def likeliest(scores: Tensor, log_probs: Tensor, count: int) -> Continuations:
    """The `count` best of each sentence, or all, if there are fewer.

    scores (B, W) of the beams so far, log_probs (B, W, V) of what follows each
    """
    vocab_size = log_probs.shape[-1]
    if log_probs.device.type == "cpu" and count * BLOCK < vocab_size:
        places = _promising(scores, log_probs, count)  # (B, M)
        before = scores.gather(1, places // vocab_size)
        totals = before + log_probs.flatten(1).gather(1, places)
        best, which = totals.topk(count)
        where = places.gather(1, which)
    else:
        totals = (scores[:, :, None] + log_probs).flatten(1)  # (B, W * V)
        best, where = totals.topk(min(count, totals.shape[1]))
    return Continuations(best, where // vocab_size, where % vocab_size)


def _promising(scores: Tensor, log_probs: Tensor, count: int) -> Tensor:
    """-> (B, M): places among W * V that hold the `count` best.

    They are the `count` blocks with the largest maxima, since these maxima alone are `count` places
    that no other block exceeds, and the end of the vocabulary, which no block covers.
    """
    width, vocab_size = log_probs.shape[1:]
    blocks = vocab_size // BLOCK
    covered = blocks * BLOCK
    maxima = log_probs[..., :covered].unflatten(-1, (blocks, BLOCK)).amax(dim=-1)  # (B, W, blocks)
    chosen = (scores[:, :, None] + maxima).flatten(1).topk(count).indices  # (B, count)
    begins = chosen // blocks * vocab_size + chosen % blocks * BLOCK
    inside = (begins[:, :, None] + torch.arange(BLOCK)).flatten(1)  # (B, count * BLOCK)
    beams = torch.arange(width)[:, None] * vocab_size
    rest = (beams + torch.arange(covered, vocab_size)).flatten()  # (W * (V - covered),)
    return torch.cat([inside, rest.expand(len(inside), -1)], dim=1)
