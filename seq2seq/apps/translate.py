"""Translate lines of text with a trained model.

Reads a file or standard input, UTF-8, one sentence a line; writes one translation a line in the
same order. A blank line gives a blank line. With --n-best N each sentence gives N lines of
index TAB score TAB translation, best first. --alignment and --token-scores are columns behind.

Lines may be JSON objects: "text" (or "src") is the sentence, "prefix" what its translation begins
with, other fields are handed on to the output. In JSON all columns are fields.
"""

import argparse
import sys
from itertools import chain, count, repeat
from pathlib import Path

from seq2seq.allocator import keep_freed_memory
from seq2seq.apps import mbr
from seq2seq.apps.attention import MOST_SENTENCES, check_number, draw_attention, examples_of
from seq2seq.apps.rows import READERS, WRITERS, Asked, Line, format_of, tell, write_rows
from seq2seq.config import SearchConfig, at_least
from seq2seq.data.lines import decode_lines, read_lines
from seq2seq.reports.files import check_output, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="a file; default: stdin")
    parser.add_argument("--output", metavar="FILE", type=Path, help="default: stdout")
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-format",
            choices=READERS,
            help="default: jsonl for a file that ends in .jsonl, or else text",
        )
    parser.add_argument(
        "--beam", type=int, default=5, help="hypotheses kept, 1 is greedy (default: 5)"
    )
    parser.add_argument("--n-best", type=int, default=1, help="translations of each line")
    parser.add_argument(
        "--length-penalty",
        choices=("length", "gnmt"),
        default="length",
        help="what a score is divided by (default: length)",
    )
    parser.add_argument(
        "--alpha", type=float, default=1.0, help="exponent of the length penalty (default: 1.0)"
    )
    mbr.add_flags(parser)
    parser.add_argument(
        "--alignment", action="store_true", help="which words translate which: 0-0 1-2 ..."
    )
    parser.add_argument(
        "--token-scores",
        action="store_true",
        help="subwords of the translation and their log-probabilities",
    )
    parser.add_argument(
        "--attention",
        metavar="FILE",
        type=Path,
        help=f"heat maps of where the model looked, .html or .png, of up to {MOST_SENTENCES} "
        f"sentences",
    )
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, help="source tokens of a batch (default: 4096)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ...")
    parser.add_argument(
        "--precision", default="fp32", help="fp32, bf16 or fp16 (default: fp32, the safest)"
    )


def run(args: argparse.Namespace) -> None:
    """Read everything, translate, write."""
    keep_freed_memory()
    # torch is imported only after the arguments are known to be right.
    from tqdm import tqdm

    from seq2seq.translator import Translator

    at_least("batch-tokens", args.batch_tokens, 1)
    config = SearchConfig(
        beam=args.beam,
        n_best=args.n_best,
        length_penalty=args.length_penalty,
        alpha=args.alpha,
    )
    if args.attention is not None:
        check_output("--attention", args.attention)
    lines = _read(args)
    utility = mbr.utility_for(args.mbr, args.model) if args.mbr else None
    translator = Translator.load(
        args.model,
        mbr.with_candidates(config, args),
        device=args.device,
        precision=args.precision,
        batch_tokens=args.batch_tokens,
    )
    with tqdm(
        total=len(lines), unit="line", file=sys.stderr, disable=not sys.stderr.isatty()
    ) as bar:
        found = translator.n_best([line.sentence for line in lines], bar.update)
    if utility is not None:
        found = [mbr.reranked(each, utility, config)[: config.n_best] for each in found]
    told = tell(translator, lines, found, Asked(args.token_scores, args.alignment))
    writer = WRITERS[args.output_format or format_of(args.output)]
    rows = chain.from_iterable(map(writer, count(), lines, told, repeat(config.n_best)))
    write_rows(rows, args.output)
    if args.attention is not None:
        with_text = [number for number, line in enumerate(lines) if line.sentence.text.strip()]
        sentences = [lines[number].sentence.text for number in with_text]
        maps = translator.attention(sentences, [found[number][0] for number in with_text])
        content = draw_attention(examples_of(sentences, maps), args.attention)
        write("--attention", args.attention, content)


def _read(args: argparse.Namespace) -> list[Line]:
    if args.input is None:
        name, texts = "standard input", decode_lines(sys.stdin.buffer, "standard input")
    else:
        name, texts = args.input, read_lines(args.input)
    read = READERS[args.input_format or format_of(args.input)]
    lines = [read(text, f"{name} line {number}") for number, text in enumerate(texts, start=1)]
    if args.attention is not None:
        with_text = sum(bool(line.sentence.text.strip()) for line in lines)
        check_number(f"--attention {args.attention}: {name}", with_text)
    return lines
