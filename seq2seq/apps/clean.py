"""Write a corpus without the pairs that rules reject, and the rejected pairs beside it.

The corpus is two text files or one PATH with both sides, and stays as it is. A rejected pair is a
line of rule TAB line number TAB source TAB target, with tab, carriage return, newline and backslash
written as \\t, \\r, \\n and \\\\; kept and rejected pairs together are the corpus, nothing is lost.
Files appear complete or not at all; those named .gz or .zst are packed. A device is written to.
"""

import argparse
import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from seq2seq.apps.corpus_flags import (
    add_corpus_flags,
    add_languages,
    add_limits,
    corpus_files,
    limits_of,
    progress,
)
from seq2seq.apps.flag_names import told_as_flags
from seq2seq.data.cleaning import DEFAULT, NAMES, Cleaning, judge
from seq2seq.data.corpus import files_of
from seq2seq.data.formats import reader_of
from seq2seq.data.lines import PACKERS
from seq2seq.data.output import as_opened, check_output, in_place, replacing
from seq2seq.errors import ConfigError

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\r": r"\r", "\n": r"\n"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("corpus", metavar="SRC TGT", nargs="+", help="two text files, or one PATH")
    parser.add_argument(
        "--output",
        metavar=("SRC", "TGT"),
        nargs=2,
        type=Path,
        required=True,
        help="the two sides of the pairs that stay",
    )
    parser.add_argument(
        "--rejected", metavar="TSV", type=Path, required=True, help="the pairs that do not"
    )
    parser.add_argument(
        "--rules",
        metavar="RULE",
        nargs="+",
        choices=NAMES,
        default=DEFAULT,
        help=f"of {', '.join(NAMES)}; the first of them that rejects a pair is named "
        f"(default: all but markup)",
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        nargs="+",
        default=[],
        help="text files of evaluation sentences, either language: a pair with one of them on "
        "either side, whatever its case and punctuation, is rejected by the rule overlap",
    )
    add_corpus_flags(parser)
    add_languages(parser)
    add_limits(parser)


@told_as_flags
def run(args: argparse.Namespace) -> None:
    """Sort every pair into one of the outputs, tell how many went where."""
    limits, languages = limits_of(args), (args.src_lang, args.tgt_lang)
    files = corpus_files("SRC TGT", args.corpus, args)
    _check(args, files_of(files, languages))
    cleaning = Cleaning(
        files=files,
        rules=args.rules,
        against=args.against,
        languages=languages,
        limits=limits,
    )
    outputs = _outputs(args)
    try:
        with ExitStack() as held:
            unfinished = [
                as_opened(path)
                if in_place(path)
                else held.enter_context(replacing(path, f"{flag} {path}"))
                for flag, path in outputs
            ]
            counts = _sort(cleaning, [path for _, path in outputs], unfinished)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"the outputs cannot be written: {error.strerror or error}.") from None
    total = counts.total()
    for name in NAMES:
        if counts[name]:
            print(f"{name:12} {counts[name]:>9,} {counts[name] / total:>7.2%}", file=sys.stderr)
    print(f"{'kept':12} {counts['']:>9,} of {total:,}", file=sys.stderr)


def _check(args: argparse.Namespace, read: list[Path]) -> None:
    """Nothing may be overwritten that is read, or written twice."""
    if args.against and "overlap" not in args.rules:
        raise ConfigError("--against needs the rule overlap; add it to --rules.")
    if args.rules != DEFAULT and "overlap" in args.rules and not args.against:
        raise ConfigError("--rules overlap needs --against, the sentences not to overlap with.")
    for path in filter(reader_of, args.against):
        raise ConfigError(f"--against {path} holds both sides of a corpus; give text files.")
    taken = [*read, *args.against]
    for flag, path in _outputs(args):
        check_output(flag, path, taken)
        taken.append(path)


def _outputs(args: argparse.Namespace) -> list[tuple[str, Path]]:
    """With their flags, in the order in which they are written."""
    src, tgt = args.output
    return [("--output", src), ("--output", tgt), ("--rejected", args.rejected)]


def ending(output: Path) -> str:
    """Of what is written: of a link, that of what it leads to."""
    return os.path.splitext(os.path.realpath(output))[1]


def _sort(cleaning: Cleaning, outputs: list[Path], unfinished: list[Path | int]) -> Counter[str]:
    """Rule -> rejected pairs, "" -> kept ones. Bytes that are not UTF-8 go out as they came."""
    counts: Counter[str] = Counter()
    with ExitStack() as files:
        src, tgt, rejected = (
            files.enter_context(PACKERS.get(ending(output), open)(path, "wb"))
            for output, path in zip(outputs, unfinished, strict=True)
        )
        for line, pair, rule in judge(cleaning, progress):
            counts[rule] += 1
            if rule:
                columns = [rule, str(line), *(text.translate(_ESCAPES) for text in pair)]
                rejected.write("\t".join(columns).encode("utf-8", "surrogateescape") + b"\n")
            else:
                for file, text in zip((src, tgt), pair, strict=True):
                    line_of_text = text.replace("\n", " ")  # some formats have longer texts
                    file.write(line_of_text.encode("utf-8", "surrogateescape") + b"\n")
    return counts
