"""Running out of memory is told apart from other errors, and survived."""

import re
from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")

SAID = (
    "can't allocate memory",
    "Cannot allocate memory",
    "could not create a primitive$",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""Messages, as regular expressions: of torch's allocator on a CPU; of the system, about a file; of
oneDNN, about a kernel (if "descriptor" follows, there is no such kernel); of CUDA and Triton; of
cuBLAS."""


def attempt(work: Callable[[], Result]) -> Result | None:
    """What `work` returns; None if memory did not suffice. Whatever it made is free afterwards."""
    try:
        return work()
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def ran_out(error: Exception) -> bool:
    """Of memory: torch has a type of its own only for what it allocates itself on a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(re.search(said, str(error)) for said in SAID)
