"""Without a GPU, kernels for one are interpreted: Triton is told before anything imports it."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
