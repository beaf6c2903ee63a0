"""Dropout (Srivastava et al. 2014) that costs little on a CPU."""

import torch
from torch import Tensor
from torch.nn import functional as F


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero each element with probability `rate`, scale the others so that the mean stays.

    On a CPU torch draws one Bernoulli number an element; here eight elements share one 64-bit
    draw, a byte each. The rate is therefore rounded to n / 256. Torch compares bytes ten times
    faster with bytes than with one number, and converts them six times faster than booleans.
    Compiled layers draw as torch does, in one kernel with the operations around it.
    """
    if rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    dropped = min(round(rate * 256), 255)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.uint8)[: x.numel()].view(x.shape)
    kept = (draws >= torch.full_like(draws, dropped)).view(torch.uint8).to(x.dtype)  # 0 or 1
    return (x * kept).mul_(256 / (256 - dropped))  # the factor itself would be rounded to bf16
