"""Slow and plain computations to compare with: loops for batches, slices for masks."""

import torch
from torch import Tensor, nn

from seq2seq.nn.attention import MultiHeadAttention

# All different, so that axes which change places change a shape.
B, H, Q, K, E = 2, 3, 5, 7, 4

VALID_LENS = {
    "padding": torch.tensor([7, 3]),
    "padding and an empty sentence": torch.tensor([0, 4]),
    "causal": torch.arange(1, Q + 1).expand(B, Q),
    "a length per query": torch.tensor([[1, 7, 3, 2, 5], [4, 4, 1, 6, 7]]),
    "a length per query and empty ones": torch.tensor([[0, 7, 3, 0, 5], [0, 0, 0, 0, 0]]),
    "keys here and there, and none": torch.arange(B * Q * K).view(B, Q, K)
    % torch.tensor([[[2], [3], [5], [1000], [1]]])
    == 1,
}
"""Each kind of mask, for B sentences of Q queries and K keys."""


def head_by_head(
    query: Tensor, key: Tensor, value: Tensor, valid_lens: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention of one query at a time to the keys that it may see; the others do not exist.

    query (B, H, Q, E), key and value (B, H, K, E) -> output (B, H, Q, E), weights (B, H, Q, K)
    """
    sentences, heads, queries, width = query.shape
    outputs, weights = [], []
    for b in range(sentences):
        for h in range(heads):
            for q in range(queries):
                where = keys_seen(valid_lens[b] if valid_lens.dim() == 1 else valid_lens[b, q])
                scores = key[b, h, where] @ query[b, h, q] / width**0.5  # (n,)
                seen = scores.exp() / scores.exp().sum()
                outputs.append(seen @ value[b, h, where])  # (E,)
                weights.append(seen.new_zeros(key.shape[2]).index_copy(0, where, seen))  # (K,)
    shape = (sentences, heads, queries)
    return torch.stack(outputs).unflatten(0, shape), torch.stack(weights).unflatten(0, shape)


def keys_seen(visible: Tensor) -> Tensor:
    """A number of first keys, or a mask (K,) -> their indices."""
    return torch.arange(int(visible)) if visible.dim() == 0 else visible.nonzero().flatten()


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """Give ours the weights of theirs, where the three input projections may be one matrix."""
    three = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = three if theirs.in_proj_weight is None else theirs.in_proj_weight.chunk(3)
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        for projection, weight in zip(projections, weights, strict=True):
            projection.weight.copy_(weight)
        ours.output.weight.copy_(theirs.out_proj.weight)
        if theirs.in_proj_bias is not None:
            for projection, bias in zip(projections, theirs.in_proj_bias.chunk(3), strict=True):
                projection.bias.copy_(bias)
            ours.output.bias.copy_(theirs.out_proj.bias)


def fill_vectors(module: nn.Module) -> None:
    """Random biases and norms: where all are 0 or 1, a wrong one would not show."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
