"""Every test draws the same random numbers, whichever ran before it. Without a GPU, kernels for one
are interpreted: Triton is told before anything imports it. No command that a test runs begins anew
with another allocator (allocator.py): the first one would begin all tests anew."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("LD_PRELOAD", "")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
