"""Score translations against one or more references with sacreBLEU.

Prints a line for each metric: name, value, half of the width of its 95 % bootstrap interval, and
the signature that says how it was computed. BLEU and chrF reach up to 100; TER counts errors, so
lower is better. All files hold one sentence a line, UTF-8, plain or packed. Lines of .jsonl are
objects: "translation" is scored, "tgt" is the reference, "text" or "src" the source.

With --systems HYP is the baseline, as sacreBLEU's first system is: every other system gets its
difference from HYP and a p-value: how likely equal systems are to differ this much by chance.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from seq2seq.data.formats import check_sentences, read_jsonl, reader_of
from seq2seq.data.json_lines import SENTENCE_FIELDS, check_characters, json_object, text_in
from seq2seq.data.lines import read_lines
from seq2seq.data.output import check_output, write
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.evaluation.comparison import compare_in_depth
from seq2seq.evaluation.metrics import METRICS, doubt
from seq2seq.evaluation.significance import PAIRED, SystemScore, compare
from seq2seq.reports.evaluation_page import html_page
from seq2seq.reports.score_words import chance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("hypotheses", metavar="HYP", help="the translations to score")
    parser.add_argument(
        "references",
        metavar="REF",
        nargs="*",
        help="a reference translation (default: the field tgt of HYP, if that is .jsonl)",
    )
    parser.add_argument(
        "--systems",
        metavar="HYP",
        nargs="+",
        action="extend",
        default=[],
        help="translations of other systems, to compare with those of the first",
    )
    parser.add_argument(
        "--names",
        metavar="NAME",
        nargs="+",
        help="what to call the systems, the first one first; default: what tells the files apart",
    )
    parser.add_argument(
        "--target-lang",
        metavar="LANG",
        default="",
        help="language of the translations; zh, ja and ko choose BLEU's tokenizer",
    )
    parser.add_argument(
        "--metrics", nargs="+", choices=METRICS, default=list(METRICS), help="default: all"
    )
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="case does not count; signatures say case:lc (TER never looks at case)",
    )
    parser.add_argument(
        "--paired",
        choices=PAIRED,
        default="bootstrap",
        help="the test behind p-values; bootstrap's count one direction, so their 0.025 is the "
        "0.05 of randomization (default: bootstrap)",
    )
    parser.add_argument(
        "--resamples",
        metavar="N",
        type=int,
        default=1000,
        help="of the test set, for intervals and tests; 0: neither (default: 1000)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array of the scores")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page about it, too")
    parser.add_argument("--source", metavar="FILE", help="--html: the sentences to translate")
    parser.add_argument(
        "--train",
        metavar="FILE",
        help="--html: training sentences of the target language, which tell the rare words; "
        "default: the reference itself",
    )


def run(args: argparse.Namespace) -> None:
    """Read the files, print the scores, write the page."""
    for setting in ("source", "train"):
        if getattr(args, setting) is not None and args.html is None:
            raise ConfigError(f"--{setting} {getattr(args, setting)} is for --html FILE.")
    paths = [args.hypotheses, *args.systems]
    if not args.references and reader_of(args.hypotheses) is not read_jsonl:
        raise ConfigError(f"{args.hypotheses} is to be scored against REF; name it.")
    args.references = args.references or [args.hypotheses]
    if args.html is not None:
        inputs = [*paths, *args.references, args.source, args.train]
        check_output("--html", args.html, inputs)
    hypotheses = [list(read(path, ["translation"])) for path in paths]
    systems = dict(zip(names(paths, args.names), hypotheses, strict=True))
    references = [list(read(path, ["tgt"])) for path in args.references]
    sources = None if args.source is None else list(read(args.source, SENTENCE_FIELDS))
    _check_lines(paths, systems, [*args.references, args.source], [*references, sources])
    if "bleu" in args.metrics and (said := doubt([*chain(*references)], args.target_lang)):
        print(f"warning: {said}", file=sys.stderr)
    options: dict[str, Any] = {
        "target_lang": args.target_lang,
        "metrics": args.metrics,
        "lowercase": args.lowercase,
        "paired": args.paired,
        "resamples": args.resamples,
    }
    if args.html is None:
        scores = compare(systems, references, **options)
    else:
        train = None if args.train is None else read(args.train, ["tgt"])
        found = compare_in_depth(systems, references, sources, train, **options)
        scores = found.scores
    if args.json:
        print(json.dumps([dataclasses.asdict(score) for score in scores], ensure_ascii=False))
    else:
        print(*_lines(scores), sep="\n")
    if args.html is not None:
        write("--html", args.html, html_page(dataclasses.asdict(found)))


def names(paths: Sequence[str], chosen: Sequence[str] | None = None) -> list[str]:
    """Of systems: as chosen, or the parts of their paths that are not the same for all."""
    if chosen is not None:
        if len(chosen) != len(paths) or len(set(chosen)) < len(chosen):
            raise ConfigError(
                f"--names {' '.join(chosen)}: {len(paths)} systems need as many names, all "
                f"different."
            )
        return list(chosen)
    parts = [Path(os.path.abspath(path)).parts for path in paths]
    if len(set(parts)) < len(parts):
        raise ConfigError(f"--systems: {' '.join(paths)} has the same file twice.")
    if len({each[-1] for each in parts}) == len(parts):
        return [each[-1] for each in parts]
    while len({each[:1] for each in parts}) == 1:
        parts = [each[1:] for each in parts]
    while len({each[-1:] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    return ["/".join(each) or "." for each in parts]


def read(path: str, fields: Sequence[str]) -> Iterator[str]:
    """The lines of a file; of a .jsonl in each line the first of these fields that it has."""
    is_json = reader_of(path) is read_jsonl
    if not is_json:
        check_sentences(path)
    for number, line in enumerate(read_lines(path), start=1):
        if is_json:
            where = f"{path} line {number}"
            line = text_in(json_object(line, where), fields, where)
            check_characters(line, where)
        yield line


def _check_lines(
    paths: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    other_paths: Sequence[str],
    others: Sequence[Sequence[str] | None],
) -> None:
    first = next(iter(systems.values()))
    for path, lines in zip([*paths, *other_paths], [*systems.values(), *others], strict=True):
        if lines is not None and len(lines) != len(first):
            raise CorpusError(
                f"{paths[0]} has {len(first)} lines but {path} has {len(lines)}; "
                f"line n of one must translate the same sentence as line n of the other."
            )
    if not first:
        raise CorpusError(f"{paths[0]} has 0 lines; there is nothing to score.")


def _lines(scores: Sequence[SystemScore]) -> Iterator[str]:
    """One for each metric, and one for each system below it if there are several."""
    width = max(len(score.system) for score in scores)
    for name, group in groupby(scores, key=lambda score: score.name):
        baseline, *others = group
        if not others:
            yield f"{name} {_value(baseline)}  {baseline.signature}"
            continue
        yield f"{name}  {baseline.signature}"
        yield f"  {baseline.system:{width}}  {_value(baseline)}  baseline"
        for score in others:
            tested = "" if score.p_value is None else f"  {chance(score.p_value, 4)}"
            yield (
                f"  {score.system:{width}}  {_value(score)}  "
                f"{score.value - baseline.value:+.2f}{tested}"
            )


def _value(score: SystemScore) -> str:
    interval = "" if score.interval is None else f" ± {score.interval:.2f}"
    return f"{score.value:.2f}{interval}"
