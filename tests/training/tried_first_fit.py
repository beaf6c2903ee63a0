"""A fit that tries the longest batch before its first step, as on a GPU: python tried_first_fit.py
fit ...
"""

import sys

from seq2seq.cli import main
from seq2seq.training.module import TranslationModule
from seq2seq.training.pilot import try_longest

start = TranslationModule.on_train_start


def try_first(self: TranslationModule) -> None:
    start(self)
    with self.trainer.precision_plugin.forward_context():
        try_longest(self.learner, self.data, self.trainer.optimizers[0])


if __name__ == "__main__":
    TranslationModule.on_train_start = try_first  # type: ignore[method-assign]
    sys.exit(main())
