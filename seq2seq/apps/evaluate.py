"""Score translations against one or more references with sacreBLEU.

Prints a line for each metric: name, value, and the signature that says how it was computed. BLEU
and chrF reach up to 100; TER counts errors, so lower is better. All files hold one sentence a
line, UTF-8, plain or .gz.
"""

import argparse
import dataclasses
import json

from seq2seq.data.lines import read_lines
from seq2seq.errors import CorpusError
from seq2seq.evaluation.metrics import METRICS, evaluate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("hypotheses", metavar="HYP", help="the translations to score")
    parser.add_argument("references", metavar="REF", nargs="+", help="a reference translation")
    parser.add_argument(
        "--target-lang",
        metavar="LANG",
        default="",
        help="language of the translations; zh, ja and ko choose BLEU's tokenizer",
    )
    parser.add_argument(
        "--metrics", nargs="+", choices=METRICS, default=list(METRICS), help="default: all"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array of the scores")


def run(args: argparse.Namespace) -> None:
    """Read the files, print the scores."""
    hypotheses = list(read_lines(args.hypotheses))
    references = [list(read_lines(path)) for path in args.references]
    for path, reference in zip(args.references, references, strict=True):
        if len(reference) != len(hypotheses):
            raise CorpusError(
                f"{args.hypotheses} has {len(hypotheses)} lines but {path} has {len(reference)}; "
                f"line n of one must translate the same sentence as line n of the other."
            )
    if not hypotheses:
        raise CorpusError(f"{args.hypotheses} has 0 lines; there is nothing to score.")
    scores = evaluate(hypotheses, references, args.target_lang, args.metrics)
    if args.json:
        print(json.dumps([dataclasses.asdict(score) for score in scores]))
    else:
        print(*scores, sep="\n")
