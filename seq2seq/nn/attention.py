"""Attention: queries look at keys and mix the values (Vaswani et al. 2017, section 3.2).

    fn(query (B, H, Q, E), key (B, H, K, E), value (B, H, K, E), valid_lens (B,) or (B, Q), dropout)
        -> (B, H, Q, E)

A mask (B, Q, K) may stand in for the lengths, see masks.py.

Each function in `FORMS` has this shape and computes the same numbers in another way; a new variant
is one function and one line in the table.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import AttentionForm
from seq2seq.nn.dropout import dropout as drop
from seq2seq.nn.layout import Layout, Padded
from seq2seq.nn.masks import Spans, Visible, masked_softmax, may_attend, repeat_per_head


class Attended(NamedTuple):
    """What attention gives: the mixed values and the weights that mixed them."""

    output: Tensor
    weights: Tensor


def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, valid_lens: Tensor, dropout: float = 0.0
) -> Attended:
    """softmax(Q K^T / sqrt(E)) V (Vaswani et al. 2017, eq. 1), with its weights.

    query (N, Q, E), key and value (N, K, E), valid_lens (N,) or (N, Q)
        -> output (N, Q, E), weights (N, Q, K) in fp32, before dropout
    """
    scores = torch.bmm(query * (1 / math.sqrt(query.shape[-1])), key.transpose(1, 2))  # (N, Q, K)
    weights = masked_softmax(scores, may_attend(valid_lens, key.shape[1]))
    return Attended(torch.bmm(drop(weights, dropout).to(value.dtype), value), weights)


def folded_attention(
    query: Tensor, key: Tensor, value: Tensor, valid_lens: Tensor, dropout: float = 0.0
) -> Tensor:
    """The textbook's form: heads join the batch axis, lengths follow by repeat_interleave."""
    heads = query.shape[1]
    query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (B * H, ., E)
    valid_lens = repeat_per_head(valid_lens, heads)  # (B * H,) or (B * H, Q)
    output = dot_product_attention(query, key, value, valid_lens, dropout).output
    unfolded: Tensor = output.unflatten(0, (-1, heads))  # (B, H, Q, E)
    return unfolded


def fast_attention(
    query: Tensor, key: Tensor, value: Tensor, valid_lens: Tensor, dropout: float = 0.0
) -> Tensor:
    """The library's fused kernel; one mask broadcasts over heads.

    Kernels disagree about a query that may see no key: here it sees all, and its output is zeroed.
    """
    allowed = may_attend(valid_lens, key.shape[2])[:, None]  # (B, 1, 1 or Q, K)
    blind = ~allowed.any(dim=-1, keepdim=True)  # (B, 1, 1 or Q, 1)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=allowed | blind, dropout_p=dropout
    )
    return output.masked_fill(blind, 0.0)


def joined_attention(
    query: Tensor, key: Tensor, value: Tensor, spans: Spans, dropout: float = 0.0
) -> Tensor:
    """The fast form for joined sentences: no padding is computed, see joined.py.

    query (M, H, E), key and value (K, H, E) -> (M, H, E)
    """
    from seq2seq.nn.joined import joined  # needs Triton, which is not everywhere

    seeds = torch.randint(2**62, (1,), device=query.device) if dropout else None
    output: Tensor = joined(query, key, value, *spans, seeds, dropout)[0]
    return output


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]] = {
    "folded": folded_attention,
    "fast": fast_attention,
}


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Visible,
    dropout: float = 0.0,
    form: AttentionForm = "auto",
) -> Tensor:
    """Attention in the given form, see `form_on`; for joined sentences there is only one form."""
    if isinstance(visible, Spans):
        return joined_attention(query, key, value, visible, dropout)
    return FORMS[form_on(query.device, form)](query, key, value, visible, dropout)


def form_on(device: torch.device, form: AttentionForm) -> AttentionForm:
    """What "auto" means: folded on a CPU, fast elsewhere."""
    if form != "auto":
        return form
    return "folded" if device.type == "cpu" else "fast"


def takes_joined(
    device: torch.device, dtype: torch.dtype, head_dim: int, form: AttentionForm
) -> bool:
    """Whether attention needs no padding, see `joined_attention`: in the fast form and in half
    precision, on an NVIDIA GPU from Ampere on, where Triton can compile its kernels. Wider heads
    would take more shared memory than some of these GPUs have."""
    suits = (
        form_on(device, form) == "fast"
        and device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in (torch.bfloat16, torch.float16)
        and head_dim <= 128
        and find_spec("triton") is not None
    )
    if not suits:
        return False
    from seq2seq.nn import joined

    return joined.triton_runs()


def avoid_cudnn_attention() -> None:
    """Keep this process from using cuDNN's fused attention. torch prefers it on some GPUs, but it
    makes a plan for every new shape, and nearly every batch and every search step has a new one."""
    torch.backends.cuda.enable_cudnn_sdp(False)


class MultiHeadAttention(nn.Module):
    """H attentions side by side (Vaswani et al. 2017, section 3.2.2).

    forward: query (B, Q, D), key (B, K, key_dim), value (B, K, value_dim),
             visible: valid lengths (B,) or (B, Q), or as masks.py says -> (B, Q, D)
    A query whose valid length is 0 mixes no value: it gets the output projection's bias, or zero
    without one; never NaN and never the mean of the padding.
    Vectors need not lie in rows: a layout says how they lie, see layout.py.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        head_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        form: AttentionForm = "auto",
    ) -> None:
        super().__init__()
        self.head_dim = head_dim if head_dim is not None else d_model // heads
        self.dropout, self.form = dropout, form
        inner = heads * self.head_dim
        self.query = nn.Linear(d_model, inner, bias=bias)
        self.key = nn.Linear(key_dim or d_model, inner, bias=bias)
        self.value = nn.Linear(value_dim or d_model, inner, bias=bias)
        self.output = nn.Linear(inner, d_model, bias=bias)

    def keys_and_values(self, key: Tensor, value: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """key (..., key_dim), value (..., value_dim) -> both projected, (B, H, K, E), or (K, H, E)
        for joined sentences."""
        keys, values = self.key(key), self.value(value)
        return layout.split(keys, self.head_dim), layout.split(values, self.head_dim)

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, visible: Visible, layout: Layout
    ) -> Tensor:
        """query (..., D), projected keys and values -> (..., D)."""
        rate = self.dropout if self.training else 0.0
        heads = layout.split(self.query(query), self.head_dim)  # (B, H, Q, E) or (Q, H, E)
        mixed = attend(heads, keys, values, visible, rate, self.form)
        output: Tensor = self.output(layout.merge(mixed))  # (..., D)
        return output

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Visible,
        layout: Layout | None = None,
    ) -> Tensor:
        layout = layout or Padded(len(query))
        return self.attend(query, *self.keys_and_values(key, value, layout), visible, layout)

    def weights(self, query: Tensor, key: Tensor, valid_lens: Tensor) -> Tensor:
        """Where each query looks, without dropout: -> (B, H, Q, K) in fp32.

        Rows sum to 1, or are zeros where nothing may be seen."""
        rows = Padded(len(query))
        return self.look(query, rows.split(self.key(key), self.head_dim), valid_lens, rows)

    def look(self, query: Tensor, keys: Tensor, valid_lens: Tensor, layout: Layout) -> Tensor:
        """The weights that `attend` mixes with, without dropout: query (..., D) and projected keys
        (B, H, K, E), not of joined sentences -> (B, H, Q, K) in fp32."""
        queries = layout.split(self.query(query), self.head_dim)  # (B, H, Q, E)
        heads = queries.shape[1]
        queries, keys = queries.flatten(0, 1), keys.flatten(0, 1)  # (B * H, ., E)
        lens = repeat_per_head(valid_lens, heads)
        weights = dot_product_attention(queries, keys, keys, lens).weights  # (B * H, Q, K)
        unfolded: Tensor = weights.unflatten(0, (-1, heads))
        return unfolded
