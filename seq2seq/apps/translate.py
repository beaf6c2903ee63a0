"""Translate lines of text with a trained model.

Reads a file or standard input, UTF-8, one sentence a line; writes one translation a line in the
same order. A blank line gives a blank line. With --n-best N each sentence gives N lines of
index TAB score TAB translation, best first.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from seq2seq.allocator import keep_freed_memory
from seq2seq.config import SearchConfig, at_least
from seq2seq.data.lines import decode_lines, read_lines
from seq2seq.errors import ConfigError
from seq2seq.interop.extras import TARGETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="a file; default: stdin")
    parser.add_argument("--output", metavar="FILE", type=Path, help="default: stdout")
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
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, help="source tokens of a batch (default: 4096)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ...")
    parser.add_argument(
        "--engine",
        choices=["native", *TARGETS],
        default="native",
        help="what translates: our own network, or another library that MODEL may be exported to",
    )
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
    if args.input is None:
        lines = list(decode_lines(sys.stdin.buffer, "standard input"))
    else:
        lines = list(read_lines(args.input))
    translator = Translator.load(
        args.model,
        config,
        device=args.device,
        precision=args.precision,
        engine=args.engine,
        batch_tokens=args.batch_tokens,
    )
    with tqdm(
        total=len(lines), unit="line", file=sys.stderr, disable=not sys.stderr.isatty()
    ) as bar:
        found = translator.n_best(lines, bar.update)

    def rows() -> Iterator[str]:
        for index, each in enumerate(found):
            if config.n_best == 1:
                yield each[0].text
            else:
                for translation in each:
                    yield f"{index}\t{translation.score:.4f}\t{translation.text}"

    _write(rows(), args.output)


def _write(rows: Iterator[str], output: Path | None) -> None:
    if output is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        for row in rows:
            print(row)
        sys.stdout.flush()
        return
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{row}\n" for row in rows)
        unfinished.replace(output)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise ConfigError(f"--output {output} cannot be written: {error}.") from None
