"""Translate lines of text: `python scripts/translate.py MODEL [INPUT]`."""

import sys

from seq2seq.cli import main

if __name__ == "__main__":
    sys.exit(main(["translate", *sys.argv[1:]]))
