"""Let the C library keep the memory that tensors free.

glibc returns large blocks to the system as soon as they are free, and the next step of a training
or a search pays the page faults for the same blocks again. On a CPU that can be half of the time.
Applications call this once at their start; a library should not decide it for its host.
"""

import ctypes
import sys

# From malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Never give freed blocks back, grow in steps of 256 MiB; does nothing without glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 256 * 2**20)
