"""Flags of the commands that read corpora, and the corpora that they mean."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from tqdm import tqdm

from seq2seq.apps.flag_names import flag_of
from seq2seq.config import at_least
from seq2seq.data.corpus import CorpusFiles, Pair
from seq2seq.data.normal import SLACK, Limits
from seq2seq.errors import ConfigError


def add_languages(parser: argparse.ArgumentParser) -> None:
    """The languages of the sides."""
    for flag, side, example in (("--src-lang", "source", "en"), ("--tgt-lang", "target", "ja")):
        parser.add_argument(
            flag,
            metavar="LANG",
            default="",
            help=f"language of the {side}, e.g. {example}: tells its script, and which of the "
            f"languages in PATH to read",
        )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The limits of the rules `long` and `ratio`."""
    parser.add_argument(
        "--max-words",
        metavar="N",
        type=int,
        default=Limits.max_words,
        help=f"most words of a side, or characters where words are not spaced (default: "
        f"{Limits.max_words})",
    )
    parser.add_argument(
        "--max-ratio",
        metavar="X",
        type=float,
        default=Limits.max_ratio,
        help=f"one side may be at most so many times as long as the other; the corpus's own "
        f"median ratio counts as 1, and {SLACK} characters are added to both (default: "
        f"{Limits.max_ratio:g})",
    )


def limits_of(args: argparse.Namespace) -> Limits:
    """ConfigError where a limit would reject everything."""
    at_least("--max-words", args.max_words, 1)
    if not args.max_ratio >= 1:
        raise ConfigError(
            f"--max-ratio {args.max_ratio} must be at least 1, which rejects all but pairs of the "
            f"usual ratio; the default is {Limits.max_ratio:g}."
        )
    return Limits(max_words=args.max_words, max_ratio=args.max_ratio)


def add_corpus_flags(parser: argparse.ArgumentParser) -> None:
    """Where in a corpus the sentences are."""
    group = parser.add_argument_group("corpus")
    for name, what in (
        ("src_field", "of JSONL and datasets: the field of the source sentence"),
        ("tgt_field", "of JSONL and datasets: the field of the translation"),
        ("split", "of datasets: which split"),
    ):
        default = getattr(CorpusFiles, name)
        group.add_argument(
            flag_of(name), metavar="NAME", default=default, help=f"{what} (default: {default})"
        )


def corpus_files(flag: str, values: Sequence[str], args: argparse.Namespace) -> CorpusFiles:
    """One path or two of the command line, read as the flags say."""
    if len(values) == 1:
        return CorpusFiles(
            path=values[0],
            src_field=args.src_field,
            tgt_field=args.tgt_field,
            split=args.split,
        )
    if len(values) == 2:
        return CorpusFiles(src=values[0], tgt=values[1])
    raise ConfigError(f"{flag} {' '.join(values)}: expected SRC TGT, or one PATH with both sides.")


def progress(pairs: Iterable[Pair], name: str, total: int | None) -> Iterator[Pair]:
    """A bar on standard error where that is a terminal."""
    quiet = not sys.stderr.isatty()
    yield from tqdm(pairs, name, total, unit="pair", leave=False, file=sys.stderr, disable=quiet)
