"""What the processes of a run tell each other."""

from typing import Any, TypeVar, cast

import torch

T = TypeVar("T")


def gathered(own: T) -> list[T]:
    """What each process has, by rank; all processes must call it."""
    if not torch.distributed.is_initialized():
        return [own]
    parts: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, own)
    return cast(list[T], parts)
