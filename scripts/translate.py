"""Translate lines of text: `python scripts/translate.py MODEL [INPUT]`."""

import sys

from seq2seq.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "translate")
    sys.exit(main())
