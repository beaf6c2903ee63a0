"""Minimum Bayes risk with the utilities of evaluation, for the commands that choose by it."""

import argparse
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from seq2seq.config import SearchConfig
from seq2seq.decoding.mbr import Utility, rank
from seq2seq.errors import ConfigError
from seq2seq.translation import Translation

UTILITIES = ("chrf", "bleu")
"""Of `evaluation.pairwise`, which is not imported to read a command line."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare --mbr and what belongs to it."""
    parser.add_argument(
        "--mbr",
        choices=UTILITIES,
        help="of the --candidates, the translation that is most like all of them (minimum Bayes "
        "risk); its score is the expected chrF or BLEU",
    )
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="that --mbr has a choice of (default: --beam)"
    )


def with_candidates(config: SearchConfig, args: argparse.Namespace) -> SearchConfig:
    """Searching for all that --mbr has a choice of, if it is asked for."""
    if args.mbr is None:
        if args.candidates is not None:
            raise ConfigError(f"--candidates {args.candidates} needs --mbr, which chooses.")
        return config
    candidates = config.beam if args.candidates is None else args.candidates
    if config.n_best > candidates:
        raise ConfigError(f"--n-best {config.n_best} is more than the {candidates} candidates.")
    if candidates > config.beam and config.sampling is None:
        raise ConfigError(
            f"--candidates {candidates} is more than --beam {config.beam}; a search returns at "
            f"most as many as it keeps."
        )
    return replace(config, n_best=candidates)


def chooser(
    args: argparse.Namespace, config: SearchConfig
) -> Callable[[list[Translation], bool], list[Translation]]:
    """A function from what a search `with_candidates` found to what is written, best first. It is
    told if the search was `free`: scores under terms that a translation must hold are not
    probabilities, nor are those in which a model of the other direction has a say."""
    if args.mbr is None:
        return lambda found, free: found
    utility = utility_for(args.mbr, args.model)

    def choose(found: list[Translation], free: bool) -> list[Translation]:
        known = weights(found, config) if free and args.rerank is None else None
        return reranked(found, utility, known)[: args.n_best]

    return choose


def utility_for(name: str, model: str) -> Utility:
    """In the target language of a model. Imported by name: translating without it needs no
    sacreBLEU."""
    from seq2seq.interop.targets import languages

    _, target_lang = languages(model)
    pairwise = importlib.import_module("seq2seq.evaluation.pairwise").PAIRWISE[name](target_lang)

    def utility(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[float]]:
        matrix: list[list[float]] = pairwise(hypotheses, references).tolist()
        return matrix

    return utility


def reranked(
    candidates: Sequence[Translation], utility: Utility, weights: Sequence[float] | None
) -> list[Translation]:
    """Best first, of those with the same text one; the score is the expected utility."""
    choices = rank([each.text for each in candidates], utility, weights)
    return [candidates[place]._replace(score=expected) for place, expected in choices]


def weights(candidates: Sequence[Translation], config: SearchConfig) -> list[float] | None:
    """In proportion to the probabilities of what a search has found (Kumar and Byrne 2004), None
    where they are not known, as under penalties that change scores, and for samples: the likely
    ones are drawn more often already."""
    if config.sampling is not None or config.coverage_penalty or config.repetition_penalty != 1:
        return None
    from seq2seq.decoding.search import length_penalty

    log_probs = [
        each.score * length_penalty(len(each.tokens) + 1, config)
        for each in candidates
        if each.tokens is not None
    ]
    best = max(log_probs, default=-math.inf)
    if len(log_probs) < len(candidates) or not math.isfinite(best):
        return None
    return [math.exp(each - best) for each in log_probs]
