"""Coverage: has every part of the source been looked at? (Wu et al. 2016, eq. 14)."""

import torch
from torch import Tensor

from seq2seq.decoding.alignment import looks


def coverage(weights: Tensor) -> float:
    """Sum over s of log(min(sum over t of a[t, s], 1)), at most 0.

    weights (L, H, T, S), cross-attention of each layer and head, sums to 1 over s; a is where the
    decoder `looks`. End tokens count on both sides.
    """
    seen = looks(weights).sum(dim=0)  # (S,)
    return float(seen.clamp(torch.finfo(seen.dtype).tiny, 1.0).log().sum())
