"""Running out of memory is told apart from other errors, and survived."""

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


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
    """Of memory, on a GPU or (where torch has no type of its own for it) on the CPU."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)
