"""Score given translations with a model: how likely does it find them?

SRC and TGT hold one sentence a line, UTF-8, plain, .gz or .zst; line n of one translates line n of
the other. Each pair gives a line with the natural logarithm of the translation's probability, its
end counted. With --alpha it is divided by a length penalty, as in the scores of `translate`. With
--token-scores two columns follow: the subwords of the translation, end token last, and their
log-probabilities. A character that the model cannot write makes it -inf.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tqdm import tqdm

from seq2seq.apps.flag_names import told_as_flags
from seq2seq.apps.output_flags import (
    add_format_flag,
    add_output_flags,
    check_output_flags,
    made_with,
    opened,
    output_format,
    skip_finished,
)
from seq2seq.apps.rows import DIGITS, columns_of, decimal, token_fields
from seq2seq.config import SearchConfig, at_least
from seq2seq.data.corpus import CorpusFiles, Pair, read_pairs
from seq2seq.data.json_lines import json_fields, json_row
from seq2seq.data.lines import check_aligned
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from seq2seq.translator import Translator

BLOCK = 4096
"""Pairs that are in memory, and sorted by length, at a time."""
SAME_SCORES = {"batch_tokens", "device"}
"""Settings that have no say in what is written: --resume may change them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("src", metavar="SRC", help="sentences")
    parser.add_argument("tgt", metavar="TGT", help="their translations")
    add_output_flags(parser)
    add_format_flag(parser)
    parser.add_argument(
        "--token-scores", action="store_true", help="log-probabilities of the subwords, too"
    )
    parser.add_argument(
        "--length-penalty",
        choices=("length", "gnmt"),
        help="what a score is divided by, with --alpha (default: length)",
    )
    parser.add_argument(
        "--alpha",
        metavar="X",
        type=float,
        help="exponent of the length penalty (default: 0, no penalty)",
    )
    parser.add_argument(
        "--batch-tokens",
        metavar="N",
        type=int,
        default=4096,
        help="tokens of a batch, on its longer side (default: 4096)",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        default="auto",
        help="cpu, cuda, cuda:1 ... (default: auto, a GPU where there is one)",
    )


@told_as_flags
def run(args: argparse.Namespace) -> None:
    """Read and write a block at a time."""
    at_least("--batch-tokens", args.batch_tokens, 1)
    if args.length_penalty is not None and args.alpha is None:
        raise ConfigError(
            f"--length-penalty {args.length_penalty} divides nothing without --alpha; add e.g. "
            f"--alpha 1."
        )
    args.length_penalty, args.alpha = args.length_penalty or "length", args.alpha or 0.0
    check_output_flags(args, [args.src, args.tgt])
    files = CorpusFiles(src=args.src, tgt=args.tgt)
    check_aligned(args.tgt, args.src)
    config = SearchConfig(length_penalty=args.length_penalty, alpha=args.alpha)
    # torch is imported only after the arguments are known to be right.
    from seq2seq.process import prepare_process
    from seq2seq.translator import Translator

    prepare_process()
    translator = Translator.load(
        args.model, config, device=args.device, batch_tokens=args.batch_tokens
    )
    pairs = read_pairs(files)
    inputs = {"src": args.src, "tgt": args.tgt}
    with opened(args, made_with(args, inputs, SAME_SCORES)) as output:
        skip_finished(pairs, output.done)
        bar = tqdm(initial=output.done, unit="line", disable=not sys.stderr.isatty())
        form = output_format(args)
        with bar:
            for row in rows(translator, pairs, output.done + 1, args.token_scores, form):
                output.write([row])
                bar.update()


def rows(
    translator: "Translator", pairs: Iterator[Pair], first: int, token_scores: bool, form: str
) -> Iterator[str]:
    """A row for each pair, in this format; errors number the lines from `first`."""
    from seq2seq.decoding.search import length_penalty

    while block := list(islice(pairs, BLOCK)):
        src, tgt = ([pair[side] for pair in block] for side in (0, 1))
        for pair, scores in zip(block, translator.score(src, tgt, first), strict=True):
            penalty = length_penalty(len(scores.tokens), translator.config)
            fields = {"score": round(scores.total / penalty, DIGITS)}
            if token_scores:
                fields |= token_fields(scores)
            if form == "jsonl":
                yield json_row({**pair._asdict(), **json_fields(fields)})
            else:
                yield "\t".join([decimal(fields["score"]), *columns_of(fields)])
        first += len(block)
