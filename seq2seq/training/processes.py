"""The processes of a run: what they tell each other, and that none outlives the first one."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytorch_lightning as pl
import torch

T = TypeVar("T")

FIRST = "SEQ2SEQ_FIRST_PROCESS"
"""The number of the process that starts the others: a variable of the environment."""
_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def gathered(own: T) -> list[T]:
    """What each process has, by rank; all processes must call it."""
    if not torch.distributed.is_initialized():
        return [own]
    parts: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, own)
    return cast(list[T], parts)


def share_weights(network: torch.nn.Module) -> None:
    """Give a network the weights that the first process has; all processes must call it."""
    if torch.distributed.is_initialized():
        for weights in network.parameters():
            torch.distributed.broadcast(weights.data, src=0)


@contextmanager
def ending_with_first() -> Iterator[None]:
    """Have Linux kill this process when the one that started it for the same run is gone.

    Otherwise it would wait for the first process, which was killed before both had met, for half an
    hour. Processes that others start, e.g. torchrun, are left to those.
    """
    if os.environ.get("LOCAL_RANK", "0") == "0":
        os.environ[FIRST] = str(os.getpid())
    elif FIRST in os.environ and sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.environ[FIRST] != str(os.getppid()):  # gone already
            sys.exit(1)
    try:
        yield
    finally:
        os.environ.pop(FIRST, None)


def wait_for_others(trainer: pl.Trainer) -> None:
    """For the processes that this one has started, which end when it does."""
    for process in getattr(trainer.strategy.launcher, "procs", []):
        if isinstance(process, subprocess.Popen):
            process.wait()


def end_exchange() -> None:
    """End the threads through which this process talks to the others of its run.

    A thread of gloo that still had a tensor to free when Python ends would abort the process
    (pytorch/pytorch#179291).
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        gc.collect()  # they end when nothing refers to the group
