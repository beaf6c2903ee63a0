"""Let tensors have memory that is quick to find, and keep what they free.

glibc returns large blocks to the system as soon as they are free, and the next step of a training
or a search pays the page faults for the same blocks again. On a CPU that can be half of the time.
If it keeps free blocks, it sorts and searches a list of them, so they had better merge into few.
But between them lie oneDNN's 1,024 kernels, each for one shape, and torch's 1,024 handles to
kernels, of 270 kB each: when a training's batches had a thousand shapes, a sixth of the time went
into that list. tcmalloc has no such list, so more kernels may stay. A process can have it only from
its beginning, so a command restarts itself with it.
"""

import ctypes
import os
import sys

KERNELS, HANDLES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"
"""How many of oneDNN's kernels stay, and of torch's handles to them: variables of the
environment."""

TCMALLOC = "libtcmalloc_minimal.so.4"
GPUS = ("/dev/nvidiactl", "/dev/kfd")
"""Where one of these exists, tensors may be on a GPU, not in the memory of the process."""

# From malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def begin_anew() -> None:
    """Start the program of this process once more, with tcmalloc, where `for_tcmalloc` finds it.

    To be called before anything else is done: what was read is lost. Does nothing where the program
    is not a file, but was typed or read from stdin.
    """
    added = for_tcmalloc()
    if added and hasattr(sys.modules["__main__"], "__file__"):
        program = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, program, {**os.environ, **added})


def for_tcmalloc() -> dict[str, str]:
    """What the environment lacks for a process to begin with tcmalloc, and to keep what tensors
    free. Nothing where the system has no tcmalloc or tensors may be on a GPU, and nothing where
    LD_PRELOAD is set, even if it is empty: on purpose, or by what this function returned."""
    if "LD_PRELOAD" in os.environ or not sys.platform.startswith("linux"):
        return {}
    if any(map(os.path.exists, GPUS)):
        return {}
    try:
        ctypes.CDLL(TCMALLOC)
    except OSError:
        return {}
    wanted = {"LD_PRELOAD": TCMALLOC, "TCMALLOC_RELEASE_RATE": "0"}
    return {name: value for name, value in wanted.items() if name not in os.environ}


def has_tcmalloc() -> bool:
    """Whether this process has begun with it."""
    return hasattr(ctypes.CDLL(None), "tc_malloc")


def keep_freed_memory() -> None:
    """Never give freed blocks back, grow in steps of 256 MiB; does nothing without glibc.

    Call it before oneDNN first multiplies in bf16, or packs: that is when both caches read their
    settings. 32 kernels are more than a layer has, and the next layer needs the same ones; 128 are
    those of a few batches. `KERNELS` and `HANDLES` in the environment take precedence.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 256 * 2**20)
    os.environ.setdefault(KERNELS, "128" if has_tcmalloc() else "32")
    os.environ.setdefault(HANDLES, "32")
