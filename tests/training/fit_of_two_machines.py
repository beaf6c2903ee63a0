"""A fit of processes of which only the first one sees the run folder, as on several machines that
share no disk: python fit_of_two_machines.py fit ...
"""

import os
import sys
from pathlib import Path

from seq2seq.cli import main
from seq2seq.training import choice


def sees_none(path: Path) -> bool:
    return False


if __name__ == "__main__":
    if os.environ.get("LOCAL_RANK", "0") != "0":
        choice.is_complete = sees_none  # type: ignore[attr-defined]
    sys.exit(main())
