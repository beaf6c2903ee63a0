"""Every test draws the same random numbers, whichever ran before it. Without a GPU, kernels for one
are interpreted: Triton is told before anything imports it."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
