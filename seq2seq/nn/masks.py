"""Padding masks: turn lengths into "which key may this query see".

True means *may attend*, as in torch's scaled_dot_product_attention. This is the only file that
knows how lengths become masks; a new masking rule is a new function here.

`valid_lens` comes in two forms: (B,), every query of a row sees the first n keys (padding); and
(B, Q), each query has its own n (causality: [1, 2, ..., T]). Where a query does not simply see the
first n keys, as with several beams of a search, a mask (B, Q, K) takes their place. For joined
sentences, `Spans` say where each begins and ends.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

VECTOR = 16
"""Numbers that a CPU computes with at once: over fewer, torch's softmax takes five times longer
(what torch compiles does not)."""


class Spans(NamedTuple):
    """Who sees whom among joined sentences, queries (M, H, E) and keys (K, H, E), in int32. The
    span of a vector of no token is empty: it begins where the last sentence ends, and ends at 0."""

    firsts: Tensor
    """(M,): query m sees the keys firsts[m] .. ends[m] - 1."""
    ends: Tensor
    """(M,)."""
    seen_firsts: Tensor
    """(K,): key k is seen by the queries seen_firsts[k] .. seen_ends[k] - 1."""
    seen_ends: Tensor
    """(K,)."""


Visible = Tensor | Spans
"""What queries see, in any of these ways."""


def may_attend(valid_lens: Tensor, keys: int) -> Tensor:
    """valid_lens (B,) or (B, Q) -> bool (B, 1, K) or (B, Q, K); a mask is one already."""
    if valid_lens.dtype == torch.bool:
        return valid_lens
    if valid_lens.dim() == 1:
        valid_lens = valid_lens[:, None]  # (B, 1)
    return torch.arange(keys, device=valid_lens.device) < valid_lens[..., None]


def repeat_per_head(valid_lens: Tensor, heads: int) -> Tensor:
    """valid_lens (B, ...) -> (B * H, ...), for heads folded into the batch axis.

    The heads of one sentence are neighbours, so each length is repeated in place: [3, 2] with two
    heads is [3, 3, 2, 2]. `repeat` would give [3, 2, 3, 2], another sentence's lengths.
    """
    return valid_lens.repeat_interleave(heads, dim=0)


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed keys: scores (..., Q, K), allowed broadcasts to them.

    In fp32 whatever the type of the scores, and returned in fp32. A query that may attend to
    nothing gets zeros, with zero gradients, instead of NaN or the mean of the padding.
    """
    lowest = torch.finfo(torch.float32).min
    scores = scores.float().masked_fill(~allowed, lowest)
    keys = scores.shape[-1]
    eager_cpu = not torch.compiler.is_compiling() and scores.device.type == "cpu"
    if eager_cpu and keys < VECTOR:
        scores = F.pad(scores, (0, VECTOR - keys), value=lowest)
    seen = allowed.view(torch.uint8).float()  # a product with numbers is fast, one with bool slow
    return scores.softmax(dim=-1)[..., :keys] * seen
