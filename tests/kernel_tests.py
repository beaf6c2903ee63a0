"""Where the kernels for a GPU can be tested on a CPU."""

from importlib.util import find_spec

import pytest
import torch

interpreted = pytest.mark.skipif(
    find_spec("triton") is None or torch.cuda.is_available(),
    reason="without a GPU, Triton interprets the kernels; with one, they refuse a CPU's tensors",
)
