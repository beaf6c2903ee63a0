"""Let the C library keep the memory that tensors free, in blocks that are quick to find.

glibc returns large blocks to the system as soon as they are free, and the next step of a training
or a search pays the page faults for the same blocks again. On a CPU that can be half of the time.
What it keeps it sorts by size, and looks through; so free blocks had better join to few. oneDNN
keeps 1,024 kernels, each for one shape, between them, and torch 1,024 handles to kernels, with
270 kB each: of a training whose batches have a thousand shapes, a sixth of the time went into that
list.
"""

import ctypes
import os
import sys

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Of kernels, oneDNN's own and torch's, as variables of the environment."""
KERNELS = "32"
"""That stay in each: more than a layer has, since the next layer needs the same."""

# From malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Never give freed blocks back, grow in steps of 256 MiB; does nothing without glibc.

    To be called before oneDNN first multiplies, in bf16, or packs, which is when both caches read
    their settings; what the environment says of `CACHES` has precedence.
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
    for cache in CACHES:
        os.environ.setdefault(cache, KERNELS)
