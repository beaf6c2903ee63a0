"""Download a public corpus, check it, and write it as plain text into data/NAME.

The folder's SOURCE.md says where the text comes from and under which terms it may be used.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from seq2seq.data.fetch import RECIPES
from seq2seq.errors import ConfigError
from seq2seq.provenance import TERMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument(
        "name", metavar="NAME", choices=RECIPES, help=f"one of {', '.join(RECIPES)}"
    )
    parser.add_argument(
        "--from",
        dest="local",
        metavar="DIR",
        type=Path,
        help="take the original files from this folder instead of the network",
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="default: data/NAME")


def run(args: argparse.Namespace) -> None:
    """Fetch into a hidden sibling that is renamed at the end: a killed fetch leaves no corpus."""
    name: str = args.name
    output: Path = args.output or Path("data") / name
    if _holds(output, name):
        print(f"{output} is already there", file=sys.stderr)
        return
    if os.path.lexists(output):  # a link that leads nowhere, too
        raise ConfigError(
            f"{output} exists but does not hold {name}; remove it, or choose another --output."
        )

    def say(step: str) -> None:
        print(f"{name}: {step}", file=sys.stderr)

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
            folder = Path(scratch) / "corpus"
            folder.mkdir()
            RECIPES[name](folder, args.local, say)
            folder.rename(output)
    except OSError as error:
        raise ConfigError(
            f"{output} cannot be written: {error}; choose another --output."
        ) from error
    print(f"{output} is ready; its SOURCE.md has the terms of use", file=sys.stderr)


def _holds(output: Path, name: str) -> bool:
    """Whether `output` is the finished fetch of this corpus."""
    source = output / TERMS
    return source.is_file() and source.read_bytes().startswith(f"# {name}\n".encode())
