"""seq2seq fit, validate, test, predict: `python scripts/train.py fit --config configs/...`."""

import sys

from seq2seq.cli import main

if __name__ == "__main__":
    sys.exit(main())
