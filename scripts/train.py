"""seq2seq fit, validate, test, predict: `python scripts/train.py fit --config configs/...`."""

import sys

from seq2seq.cli import main

sys.exit(main())
