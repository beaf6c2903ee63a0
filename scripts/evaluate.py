"""`python scripts/evaluate.py HYP REF` is the command `seq2seq evaluate HYP REF`."""

import sys

from seq2seq.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "evaluate")
    sys.exit(main())
