"""What training minimises."""

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import PAD_ID


def cross_entropy_sum(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, tgt_out: Tensor, label_smoothing: float
) -> Tensor:
    """Label-smoothed cross-entropy (Szegedy et al. 2016, section 7), summed over real tokens.

    hidden (B, T, D), output weight (V, D) and bias (V,), tgt_out (B, T) -> scalar, in nats

    Projection and loss run as one function that never holds all logits, where torch has one. It
    knows no smoothing, but smoothing is linear in the logits z: with target y the smoothed loss is
    CE + e * (z_y - mean(z)), and z_y and mean(z) are inner products of the hidden state with one
    row of the weight and with the mean of its rows.
    """
    hidden, target = hidden.flatten(0, 1), tgt_out.flatten()  # (N, D), (N,)
    loss = _projected_cross_entropy_sum(hidden, weight, bias, target)
    if label_smoothing:
        rows = F.embedding(target, weight) - weight.mean(dim=0)  # (N, D)
        margins = (hidden * rows.to(hidden.dtype)).sum(dim=1, dtype=torch.float32)
        if bias is not None:
            margins = margins + bias[target] - bias.mean()
        loss = loss + label_smoothing * margins.masked_fill(target == PAD_ID, 0).sum()
    return loss


def _projected_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
) -> Tensor:
    if hasattr(F, "linear_cross_entropy"):  # torch >= 2.13
        loss: Tensor = F.linear_cross_entropy(
            hidden,
            weight,
            target,
            linear_bias=bias,
            reduction="sum",
            ignore_index=PAD_ID,
            options=torch.nn.LinearCrossEntropyOptions(),
        )
        return loss
    logits = F.linear(hidden, weight, bias).float()  # (N, V)
    return F.cross_entropy(logits, target, reduction="sum", ignore_index=PAD_ID)
