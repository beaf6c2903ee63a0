"""Print the card of a model: what it is, what it was made from, how, and what it scores.

The card is the README.md of the model folder; where there is none, what the configuration tells is
printed.
"""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder or a run folder")
    parser.add_argument(
        "--json", action="store_true", help="the facts behind the card, as one object"
    )


def run(args: argparse.Namespace) -> None:
    """Print one of the two."""
    from seq2seq.model_facts import load_card, load_facts

    if args.json:
        print(json.dumps(load_facts(args.model), indent=1, ensure_ascii=False))
    else:
        print(load_card(args.model), end="")
