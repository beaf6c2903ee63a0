"""Look at corpora before training on them: what would spoil it, what is worth a look.

Each corpus is two text files, line n of one translating line n of the other, or one PATH with both
sides. Prints a finding a line: how grave it is, its name, how many pairs, which share of them, and
some of them below. The exit status is 1 if something would spoil training or evaluation, else 0.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.apps.corpus_flags import (
    add_corpus_flags,
    add_languages,
    add_limits,
    corpus_files,
    limits_of,
    progress,
)
from seq2seq.apps.flag_names import told_as_flags
from seq2seq.data.corpus import files_of
from seq2seq.data.findings import CorpusReport, Finding, SideReport
from seq2seq.data.inspection import Plan, inspect
from seq2seq.data.output import check_output, write
from seq2seq.errors import ConfigError
from seq2seq.reports.inspection import html_page

if TYPE_CHECKING:
    from seq2seq.text.subwords import Subwords


SETS = {
    "--train": "the training corpus",
    "--validation": "a validation set",
    "--test": "a test set; once for each set",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    for flag, what in SETS.items():
        parser.add_argument(
            flag,
            nargs="+",
            action="append",
            default=[],
            metavar="FILE",
            help=f"{what}: SRC TGT, or one PATH with both sides",
        )
    add_corpus_flags(parser)
    add_languages(parser)
    parser.add_argument("--model", metavar="MODEL", help="count what its subwords do not know")
    add_limits(parser)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page about it, too")
    parser.add_argument(
        "--json", metavar="FILE", help="write it as JSON, too; - prints that and nothing else"
    )


@told_as_flags
def run(args: argparse.Namespace) -> int:
    """Inspect, write, print; 1 if something is spoilt."""
    limits, languages = limits_of(args), (args.src_lang, args.tgt_lang)
    evaluation = [
        (role, corpus_files(f"--{role}", values, args))
        for role, sets in (("validation", args.validation), ("test", args.test))
        for values in sets
    ]
    if len(args.train) != 1:
        raise ConfigError(f"--train is given {len(args.train)} times; give it once.")
    train = corpus_files("--train", args.train[0], args)
    taken = [
        path
        for files in (train, *(files for _, files in evaluation))
        for path in files_of(files, languages)
    ]
    for flag, output in (("--json", args.json), ("--html", args.html)):
        if output not in (None, "-"):
            check_output(flag, Path(output), taken)
            taken.append(Path(output))
    plan = Plan(
        train=train,
        evaluation=evaluation,
        languages=languages,
        subwords=_subwords(args.model),
        limits=limits,
    )
    reports = inspect(plan, progress)
    spoilt = [f"{report.role} ({report.files})" for report in reports if report.spoilt]
    verdict = _verdict(spoilt, reports)
    content = [dataclasses.asdict(report) for report in reports]
    serialized = json.dumps({"spoilt": bool(spoilt), "corpora": content}, ensure_ascii=False)
    try:
        if args.json not in (None, "-"):
            write("--json", Path(args.json), f"{serialized}\n")
        if args.html is not None:
            write("--html", args.html, html_page(content, verdict))
    finally:  # what cannot be written is told at least
        if args.json == "-":
            print(serialized)
        else:
            for report in reports:
                print(*_lines(report), sep="\n", end="\n\n")
            print(verdict)
    return 1 if spoilt else 0


def _verdict(spoilt: Sequence[str], reports: Sequence[CorpusReport]) -> str:
    if spoilt:
        return f"Spoilt: {', '.join(spoilt)}."
    warned = any(each.severity == "warns" for report in reports for each in report.findings)
    return f"Nothing spoils this data{', but see the warnings' if warned else ''}."


def _subwords(model: str | None) -> "tuple[Subwords, Subwords] | None":
    if model is None:
        return None
    from seq2seq.model_folder import find_model, load_subwords  # brings torch

    return load_subwords(find_model(model))


def _lines(report: CorpusReport) -> Iterator[str]:
    yield f"{report.role}: {report.files}, {report.pairs:,} pairs looked at"
    yield f"  source {_side(report.src)}"
    yield f"  target {_side(report.tgt)}"
    if not report.findings:
        yield "  nothing was found"
    for finding in report.findings:
        yield from _finding(finding)


def _side(side: SideReport) -> str:
    line = (
        f"{side.unit}: mean {side.mean:.1f}, median {side.median}, 99 % up to "
        f"{side.percentile99}, longest {side.longest:,}"
    )
    if side.subwords_per_unit is not None:
        line += f"; {side.subwords_per_unit:.2f} subwords each, {side.unlearned_share:.2%} unknown"
    return line


def _finding(finding: Finding) -> Iterator[str]:
    mark = finding.severity.upper() if finding.severity == "spoils" else finding.severity
    yield (
        f"  {mark:6} {finding.name:22} {finding.count:>9,} {finding.share:>7.2%}  {finding.says}"
    )
    for example in finding.examples:
        note = f" ({example.note})" if example.note else ""
        yield f"{'':11}line {example.line:,}{note}: {example.src} | {example.tgt}"
