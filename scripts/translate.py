"""Translate lines of text: `python scripts/translate.py MODEL [INPUT]`."""

import sys

from seq2seq.cli import main

sys.exit(main(["translate", *sys.argv[1:]]))
