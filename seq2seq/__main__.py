"""`python -m seq2seq` is the command `seq2seq`."""

import sys

from seq2seq.cli import main

sys.exit(main())
