"""Translate lines of text with a trained model.

Reads a file or standard input, UTF-8, one sentence a line; writes one translation a line in the
same order. A blank line gives a blank line. With --n-best N each sentence gives N lines of
index TAB score TAB translation, best first.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from seq2seq.allocator import keep_freed_memory
from seq2seq.apps.search_flags import add_search_flags, search_config
from seq2seq.config import at_least
from seq2seq.data.lines import decode_lines, read_lines
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.sentence import Sentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="a file; default: stdin")
    parser.add_argument("--output", metavar="FILE", type=Path, help="default: stdout")
    parser.add_argument(
        "--prefix", metavar="FILE", help="how each translation begins, line by line; may be blank"
    )
    parser.add_argument(
        "--ensemble",
        metavar="MODEL",
        nargs="+",
        default=[],
        help="more models, with the same subwords, that decide together with MODEL",
    )
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, help="source tokens of a batch (default: 4096)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ...")
    add_search_flags(parser)


def run(args: argparse.Namespace) -> None:
    """Read everything, translate, write."""
    keep_freed_memory()
    # torch is imported only after the arguments are known to be right.
    from tqdm import tqdm

    from seq2seq.translator import Translator

    at_least("batch-tokens", args.batch_tokens, 1)
    config = search_config(args)
    if args.input is None:
        lines = list(decode_lines(sys.stdin.buffer, "standard input"))
    else:
        lines = list(read_lines(args.input))
    sentences: Sequence[str | Sentence] = lines
    if args.prefix is not None:
        sentences = begun_with(args.prefix, lines, args.input or "standard input")
    translator = Translator.load(
        args.model,
        config,
        device=args.device,
        batch_tokens=args.batch_tokens,
        ensemble=args.ensemble,
    )
    with tqdm(
        total=len(lines), unit="line", file=sys.stderr, disable=not sys.stderr.isatty()
    ) as bar:
        found = translator.n_best(sentences, bar.update)

    def rows() -> Iterator[str]:
        for index, each in enumerate(found):
            if config.n_best == 1:
                yield each[0].text
            else:
                for translation in each:
                    yield f"{index}\t{translation.score:.4f}\t{translation.text}"

    _write(rows(), args.output)


def begun_with(path: str, lines: Sequence[str], source: str) -> list[Sentence]:
    """Each line, and the beginning of its translation from the file `path`."""
    prefixes = list(read_lines(path))
    if len(prefixes) != len(lines):
        raise CorpusError(
            f"{path} has {len(prefixes)} lines but {source} has {len(lines)}; line n of one must "
            f"begin the translation of line n of the other."
        )
    return [Sentence(line, prefix) for line, prefix in zip(lines, prefixes, strict=True)]


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
