"""A translation that kills itself: python killed_translation.py translate ... with KILL_AT=LINE.

The signal is SIGKILL, when so many lines of input are written; nothing can react to it.
"""

import os
import signal
import sys
from collections.abc import Iterable

from seq2seq.cli import main
from seq2seq.data.output import Output

write = Output.write


def write_and_die(self: Output, rows: Iterable[str]) -> None:
    write(self, rows)
    if self.done == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Output.write = write_and_die  # type: ignore[method-assign]
    sys.exit(main())
