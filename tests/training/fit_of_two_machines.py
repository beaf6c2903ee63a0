"""A fit of processes of which only the first one sees the run folder, as on several machines that
share no disk: python fit_of_two_machines.py fit ...
"""

import os
import sys
from typing import Any, NoReturn

from seq2seq.cli import main
from seq2seq.training import choice


def fail(*_: Any, **__: Any) -> NoReturn:
    raise FileNotFoundError("this process has no such folder")


if __name__ == "__main__":
    if os.environ.get("LOCAL_RANK", "0") != "0":
        choice.is_complete = choice.average = choice._read = fail  # type: ignore[attr-defined]
    sys.exit(main())
