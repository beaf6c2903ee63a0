"""A fit that tries the longest batch before its first step, as on a GPU: python tried_first_fit.py
fit ...
"""

import sys

from seq2seq.cli import main
from seq2seq.training.module import TranslationModule

start = TranslationModule.on_train_start


def try_first(self: TranslationModule) -> None:
    start(self)
    self._try_longest()


if __name__ == "__main__":
    TranslationModule.on_train_start = try_first  # type: ignore[method-assign]
    sys.exit(main())
