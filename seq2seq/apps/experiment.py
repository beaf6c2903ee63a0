"""Train and test configurations with several seeds, and compare them on their test sets.

Each configuration is trained and tested with each seed, one after the other, in the folder
OUTPUT/NAME/seed-N, NAME being that of its file. The same command goes on where it was stopped:
what is complete is not done again, and a training goes on from its last checkpoint. A training
that fails leaves the others alone. The report, OUTPUT/report.html and report.json, has for each
configuration and test set mean and standard deviation over seeds, and tests its difference from
the first configuration.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from seq2seq.apps.trials import (
    STOPPED,
    Tested,
    Trial,
    other_test_set,
    plan,
    read_tested,
    scored,
    work,
)
from seq2seq.config import at_least
from seq2seq.data.output import write
from seq2seq.errors import ConfigError
from seq2seq.evaluation.metrics import METRICS
from seq2seq.evaluation.seeds import SeedScores, score_seeds
from seq2seq.evaluation.significance import SURE, check_seed
from seq2seq.reports.experiment_page import html_page
from seq2seq.reports.score_words import chance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument(
        "configs",
        metavar="CONFIG",
        nargs="+",
        type=Path,
        help="a YAML file as for seq2seq fit, with test sets; the first is the baseline",
    )
    parser.add_argument(
        "--seeds", metavar="N", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3"
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path("runs/experiment"),
        help="for runs and report (default: runs/experiment)",
    )
    parser.add_argument(
        "--metrics", nargs="+", choices=METRICS, default=["bleu", "chrf"], help="default: bleu chrf"
    )
    parser.add_argument(
        "--resamples",
        metavar="N",
        type=int,
        default=1000,
        help="of each test set, for the tests (default: 1000)",
    )


def run(args: argparse.Namespace) -> int:
    """Do what is not done yet, report on what is; 1 if something failed."""
    at_least("--resamples", args.resamples, 1)
    at_least("--seeds", min(args.seeds), 0)
    if len(set(args.seeds)) < len(args.seeds):
        raise ConfigError(f"--seeds {' '.join(map(str, args.seeds))} names one twice.")
    check_seed()
    trials = plan(args.configs, args.seeds, args.output, args.resamples)
    failed, status = dict[Trial, str](), 0
    for trial in trials:
        status = work(trial)
        if status in STOPPED:
            print("stopped; the same command goes on", file=sys.stderr)
            status = max(status, 128 - status)
            break
        if status:
            failed[trial] = f"{trial}: {trial.command[0]} failed with status {status}"
    else:
        status = 1 if failed else 0
    complete = [trial for trial in trials if not trial.command]
    missing = [failed.get(trial, f"{trial}: not done") for trial in trials if trial.command]
    report = {
        "configs": [config.stem for config in args.configs],
        "seeds": args.seeds,
        "missing": missing,
        "sure": SURE["bootstrap"],
        "test_sets": {
            name: {"sentences": size, "scores": [dataclasses.asdict(score) for score in scores]}
            for name, size, scores in results(
                sorted(complete, key=lambda trial: args.configs.index(trial.config)),
                args.metrics,
                args.resamples,
                args.configs[0].stem,
            )
        },
    }
    print(*lines(report), sep="\n")
    serialized = json.dumps(report, ensure_ascii=False, indent=1)
    for name, content in (("report.json", f"{serialized}\n"), ("report.html", html_page(report))):
        write("--output", args.output / name, content)
        print(args.output / name)
    return status


def results(
    trials: Sequence[Trial], metrics: Sequence[str], resamples: int, baseline: str
) -> Iterator[tuple[str, int, list[SeedScores]]]:
    """For each test set: its name, how many sentences it has, all scores; without p-values where
    the configuration `baseline` has none. Its trials come first."""
    by_set: dict[str, dict[Trial, Tested]] = {}
    for trial in trials:
        for path in scored(trial.run):
            by_set.setdefault(path.stem, {})[trial] = read_tested(path)
    for name, tested in by_set.items():
        (first, shown), *others = tested.items()
        for trial, other in others:
            if other.test_set != shown.test_set:
                raise ConfigError(other_test_set(name, str(trial), str(first)))
        translations: dict[str, dict[int, list[str]]] = {}
        for trial, each in tested.items():
            translations.setdefault(trial.config.stem, {})[trial.seed] = each.translations
        language, references = shown.test_set
        scores = score_seeds(translations, references, language, metrics, resamples=resamples)
        if baseline not in translations:
            scores = [dataclasses.replace(score, p_value=None) for score in scores]
        yield name, len(references), scores


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report for the terminal."""
    for name, found in report["test_sets"].items():
        yield f"{name}, {found['sentences']:,} sentences"
        for metric, group in groupby(found["scores"], key=lambda score: score["name"]):
            first, *others = group
            yield f"  {metric}  {first['signature']}"
            baseline = first["config"] == report["configs"][0]
            yield f"    {_line(first)}{'  baseline' if baseline else ''}"
            for score in others:
                difference = ""
                if baseline:
                    change = score["mean"] - first["mean"]
                    difference = f"  {change:+.2f}  {chance(score['p_value'], 4)}"
                yield f"    {_line(score)}{difference}"
    for each in report["missing"]:
        yield f"missing: {each}"


def _line(score: dict[str, Any]) -> str:
    deviation = "" if score["deviation"] is None else f" ± {score['deviation']:.2f}"
    count = len(score["values"])
    return f"{score['config']}  {score['mean']:.2f}{deviation} ({count} seed{'s'[: count > 1]})"
