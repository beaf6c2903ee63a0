"""Make a model folder of another toolkit's model.

What comes out translates, is fine-tuned (fit --init_from) and exported like a model of ours. No
code in the files is run.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from seq2seq.apps.new_folder import check_new
from seq2seq.interop.formats import SOURCES
from seq2seq.provenance import Provenance, with_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("source", metavar="SOURCE", type=Path, help="their folder or file")
    parser.add_argument("output", metavar="MODEL", type=Path, help="the model folder to write")
    parser.add_argument(
        "--from",
        dest="format",
        metavar="FORMAT",
        help=f"{', '.join(SOURCES)}; default: what it looks like",
    )
    parser.add_argument("--src-lang", metavar="CODE", help="language, instead of what theirs names")
    parser.add_argument("--tgt-lang", metavar="CODE", help="language, instead of what theirs names")


def run(args: argparse.Namespace) -> None:
    """Read, write, say what it is."""
    check_new(args.output)
    from seq2seq.interop.sources import read
    from seq2seq.model_folder import save_model
    from seq2seq.software import software

    saved = read(args.source, args.format)
    flags = [("--from", args.format), ("--src-lang", args.src_lang), ("--tgt-lang", args.tgt_lang)]
    given = [word for flag, value in flags if value for word in (flag, value)]
    known: Provenance = {**saved.provenance, "software": software()}
    saved = replace(
        saved,
        src_lang=args.src_lang or saved.src_lang,
        tgt_lang=args.tgt_lang or saved.tgt_lang,
        provenance=with_command(known, "convert", args.source, args.output, *given),
    )
    save_model(saved, args.output)
    settings = ", ".join(f"{name} {value}" for name, value in asdict(saved.network.config).items())
    print(f"{args.output}: {settings}")
