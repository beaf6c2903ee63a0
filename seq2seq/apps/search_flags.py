"""The flags that say how translations are searched for, and the settings that they make."""

import argparse
from dataclasses import fields
from typing import Any

from seq2seq.apps.flag_names import flag_of
from seq2seq.config import Diversity, Sampling, SearchConfig
from seq2seq.errors import ConfigError


def add_search_flags(parser: argparse.ArgumentParser) -> None:
    """A flag that is not given is None, or as in `config.py`, where the defaults are."""
    flag = parser.add_argument_group("search").add_argument
    flag(
        "--beam",
        metavar="N",
        type=int,
        default=SearchConfig.beam,
        help="hypotheses kept, 1 is greedy (default: 5)",
    )
    flag(
        "--n-best",
        metavar="N",
        type=int,
        default=SearchConfig.n_best,
        help="translations of each line (default: 1)",
    )
    flag(
        "--length-penalty",
        choices=("length", "gnmt"),
        help="what a score is divided by (default: length)",
    )
    flag("--alpha", metavar="X", type=float, help="its exponent (default: 1.0)")
    flag(
        "--coverage-penalty",
        metavar="X",
        type=float,
        help="weight of how much of the source was looked at, e.g. 0.1 with gnmt (default: 0)",
    )
    flag(
        "--min-target-length",
        metavar="N",
        type=int,
        help="least subwords of a translation (default: 0)",
    )
    flag(
        "--max-target-length",
        metavar="N",
        type=int,
        help="most subwords of a translation (default: what its line allows, as follows)",
    )
    flag(
        "--max-length-ratio",
        metavar="X",
        type=float,
        help="most subwords of a translation for each subword of its line (default: 2)",
    )
    flag("--max-length-offset", metavar="N", type=int, help="added to that (default: 10)")
    flag(
        "--no-repeat-ngram",
        metavar="N",
        type=int,
        help="no N subwords in a row twice (default: 0, no rule)",
    )
    flag(
        "--repetition-penalty",
        metavar="X",
        type=float,
        help="factor on the log-probability of subwords that were said already, e.g. 1.2 "
        "(default: 1)",
    )
    flag(
        "--diversity-groups",
        metavar="N",
        type=int,
        dest="groups",
        help="split the beam into groups that avoid each other's words (default: 1)",
    )
    flag(
        "--diversity-strength",
        metavar="X",
        type=float,
        dest="strength",
        help="how strongly they avoid them (default: 0.5)",
    )
    flag("--sample", action="store_true", help="draw --n-best translations instead of searching")
    flag(
        "--temperature",
        metavar="X",
        type=float,
        help="below 1 bolder choices are rarer (default: 1)",
    )
    flag(
        "--top-k",
        metavar="N",
        type=int,
        help="draw from the N likeliest subwords only (default: from all)",
    )
    flag(
        "--top-p",
        metavar="X",
        type=float,
        help="draw from the likeliest that reach the probability X together (default: 1)",
    )
    flag("--seed", metavar="N", type=int, help="of the draws (default: 1)")


def search_config(args: argparse.Namespace) -> SearchConfig:
    """What the flags ask for."""
    diversity, sampling = _given(Diversity, args), _given(Sampling, args)
    if "strength" in diversity and diversity.get("groups", 1) == 1:
        raise ConfigError(
            f"--diversity-strength {args.strength} is between groups; add --diversity-groups."
        )
    if sampling and not args.sample:
        name, value = next(iter(sampling.items()))
        raise ConfigError(f"{flag_of(name)} {value} is for random draws; add --sample.")
    return SearchConfig(
        **_given(SearchConfig, args),
        diversity=Diversity(**diversity),
        sampling=Sampling(**sampling) if args.sample else None,
    )


def _given(kind: type[Any], args: argparse.Namespace) -> dict[str, Any]:
    """Fields of a dataclass that flags set."""
    values = {field.name: getattr(args, field.name, None) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}
