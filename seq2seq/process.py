"""What an application decides for its process, and a library should not decide for its host."""

import sys
import warnings

from seq2seq.allocator import keep_freed_memory
from seq2seq.cores import limit_threads


def prepare_process() -> None:
    """To be called once, before the first model is there: keep the memory that tensors free, and
    have no more threads than cores. A warning is one line on stderr."""
    keep_freed_memory()
    limit_threads()
    warnings.showwarning = lambda said, *_: print(f"warning: {said}", file=sys.stderr)
