"""A fit whose process of rank 1 has little memory: python tight_fit.py fit ...

It runs out in the middle of the backward pass, on sources of more than 300 positions.
"""

import sys

import torch
from torch import Tensor

from seq2seq.cli import main
from seq2seq.nn.layout import Layout
from seq2seq.nn.transformer import Transformer

encode = Transformer.encode


def run_out(gradient: Tensor) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory")


def tight(self: Transformer, src: Tensor, src_lens: Tensor, layout: Layout | None = None) -> Tensor:
    memory = encode(self, src, src_lens, layout)
    second = torch.distributed.is_initialized() and torch.distributed.get_rank() == 1
    if memory.requires_grad and second and src.numel() > 300:
        memory.register_hook(run_out)  # the decoder's gradients are there by then
    return memory


if __name__ == "__main__":
    Transformer.encode = tight  # type: ignore[method-assign]
    sys.exit(main())
