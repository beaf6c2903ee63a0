"""Matrices laid out for many products with few vectors each, as a search on a CPU multiplies."""

import torch
from torch import Tensor, nn

WORTH_PACKING = 1 << 18
"""Elements of a matrix in fp32; MKL multiplies smaller ones faster."""


class PackedLinear(nn.Module):
    """What `linear` does, without gradients, on a CPU: from a copy in blocks, the order in which
    oneDNN reads a matrix.

    forward: (N, ..., D) -> (N, ..., V), in the type of the weights
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.dtype, self.bias = linear.weight.dtype, linear.bias
        self.blocks = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        product = torch.ops.mkldnn._linear_pointwise
        found: Tensor = product(x.to(self.dtype), self.blocks, self.bias, "none", [], "")
        return found


def pack(network: nn.Module) -> None:
    """Replace every `nn.Linear` inside by a `PackedLinear` where that is faster: a network that
    only searches from now on.

    On two cores the product of 5 x 512 and 512 x 32,000 takes 1.4 ms instead of 10.8 in fp32 and
    0.7 instead of 2.9 in bf16; that of 80 x 256 and 256 x 8,000 1.8 instead of 3.8, and 0.9 instead
    of 1.0.
    """
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and _packs(child.weight):
                setattr(module, name, PackedLinear(child))


def _packs(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return supported
    return weight.dtype == torch.float32 and weight.numel() >= WORTH_PACKING
