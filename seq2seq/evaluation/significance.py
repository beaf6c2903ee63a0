"""How sure a score is, and a difference: sacreBLEU's bootstrap and paired tests.

The interval comes from scores of resampled test sets (Koehn 2004). A test asks how often a
difference as large as the observed one comes up by chance: in resampled sets (bootstrap), or when
the systems swap their translations of random sentences (approximate randomization, Riezler and
Maxwell 2005). Randomization counts differences in either direction; sacreBLEU's bootstrap hardly
does: between equal systems its p is below 0.05 twice as often as it should be. The random numbers
are sacreBLEU's: seed 12345, which stands in every signature, unless the environment variable
SACREBLEU_SEED says otherwise.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.significance import PairedTest

from seq2seq.config import at_least, one_of
from seq2seq.errors import ConfigError
from seq2seq.evaluation.metrics import check_lines, evaluate, new_metrics

PAIRED = {"bootstrap": "bs", "randomization": "ar"}
"""Tests, and sacreBLEU's names for them."""
SURE = {"bootstrap": 0.025, "randomization": 0.05}
"""Equally good systems get a p below this, for a difference of either sign, in at most some 5 % of
comparisons."""
TRIALS = 10
"""Swaps of approximate randomization for each resample of the interval, as in sacreBLEU."""
MOST_LINES = 30_000_000
"""In all resamples together."""
BYTES = 110
"""That sacreBLEU needs for each, at most: chrF under randomization."""


@dataclass(frozen=True)
class SystemScore:
    """A system's score, its interval, and how likely its difference from the first is chance."""

    system: str
    name: str
    value: float
    """From 0 to 100; TER counts errors, so lower is better, and it may exceed 100."""
    mean: float | None
    """Of the resampled scores; None without resamples."""
    interval: float | None
    """Half of the width of the 95 % interval around the mean."""
    p_value: float | None
    """None for the first system, the baseline."""
    signature: str


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    lowercase: bool = False,
    paired: str = "bootstrap",
    resamples: int = 1000,
) -> list[SystemScore]:
    """For each metric, each system's score; the first system is the baseline of the others.

    0 resamples: scores alone, without intervals and tests.
    """
    one_of("paired", paired, PAIRED)
    check_seed()
    at_least("resamples", resamples, 0)
    for hypotheses in systems.values():
        check_lines(hypotheses, references)
    if not resamples:
        return _scores_alone(systems, references, target_lang, metrics, lowercase)
    refuse_too_many(resamples, len(references[0]), ", or 0 for scores without intervals")
    return _tested(
        {name: [each] for name, each in systems.items()},
        references,
        new_metrics(metrics, target_lang, lowercase),
        paired,
        resamples,
    )


def compare_seeds(
    systems: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[Sequence[str]],
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    resamples: int = 1000,
) -> list[SystemScore]:
    """As `compare`, for systems that were trained several times: each is a list of translations of
    the whole test set, one for each seed.

    The value is the score of all of a system's translations together. A sentence is drawn with all
    of its translations (after Clark et al. 2011): drawing them one by one would take k translations
    of a sentence for k sentences, and find differences where there are none.
    """
    check_seed()
    for translations in systems.values():
        for hypotheses in translations:
            check_lines(hypotheses, references)
    refuse_too_many(resamples, len(references[0]))
    return _tested(systems, references, new_metrics(metrics, target_lang), "bootstrap", resamples)


class Pooled:
    """A sacreBLEU metric whose segments are all translations of a sentence.

    Their counts are added up before anything is drawn; the rest is the metric's own.
    """

    def __init__(self, metric: Any) -> None:
        self.metric = metric
        self.counts: list[Any] = []
        """Of each system that was counted, in turn: a row for each sentence."""

    def _extract_corpus_statistics(
        self, segments: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
    ) -> Any:
        systems = zip(*segments, strict=True)
        counts = [self.metric._extract_corpus_statistics(each, references) for each in systems]
        self.counts.append(np.sum(counts, axis=0))
        return self.counts[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.metric, name)


def how_tested(paired: str, resamples: int) -> str:
    """For readers."""
    if paired == "bootstrap":
        return f"paired bootstrap, {resamples:,} resamples"
    return f"approximate randomization, {TRIALS * resamples:,} trials"


def _tested(
    systems: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[Sequence[str]],
    metrics: Mapping[str, Any],
    paired: str,
    resamples: int,
) -> list[SystemScore]:
    randomized = paired == "randomization" and len(systems) > 1
    pooled = {name: Pooled(metric) for name, metric in metrics.items()}
    paired_test: Any = PairedTest
    signatures, found = paired_test(
        [(name, list(zip(*each, strict=True))) for name, each in systems.items()],
        pooled,
        references,
        test_type=PAIRED["randomization" if randomized else "bootstrap"],
        n_samples=TRIALS * resamples if randomized else resamples,
        n_ar_confidence=resamples,
    )()
    seeds = [len(each) for each in systems.values()]
    return [
        SystemScore(
            system,
            name,
            float(result.score),
            float(result.mean),
            float(result.ci),
            _p_value(result, found[name][0], _chance_of_all_or_none(means[0], mean)),
            signatures[name].format(),
        )
        for name, metric in zip(signatures, pooled.values(), strict=True)
        for means in [[counts / k for counts, k in zip(metric.counts, seeds, strict=True)]]
        for system, mean, result in zip(systems, means, found[name], strict=True)
    ]


def _p_value(result: Any, baseline: Any, least: float) -> float | None:
    """sacreBLEU's p, corrected: 1 for no difference, else `least` or more. sacreBLEU counts what
    exceeds a difference, not what equals it, as swapping all lines or none does. With few lines
    its bootstrap finds the same difference again and again, as if that proved it."""
    if result.p_value is None:
        return None
    return 1.0 if result.score == baseline.score else max(least, float(result.p_value))


def _chance_of_all_or_none(one: Any, other: Any) -> float:
    """That random swaps leave the systems as they are, or exchange them; swapping translations
    whose counts (a row for each sentence, of a mean translation) are equal changes nothing."""
    different = int((one != other).any(axis=1).sum())
    least: float = 2.0 ** (1 - different)
    return min(1.0, least)


def _scores_alone(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    target_lang: str,
    metrics: Sequence[str],
    lowercase: bool,
) -> list[SystemScore]:
    by_system = [
        [
            SystemScore(system, score.name, score.value, None, None, None, score.signature)
            for score in evaluate(each, references, target_lang, metrics, lowercase=lowercase)
        ]
        for system, each in systems.items()
    ]
    return [score for by_metric in zip(*by_system, strict=True) for score in by_metric]


def check_seed() -> None:
    """Raise ConfigError for what sacreBLEU would take for another seed, or none."""
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if seed.lower() != "none" and not (seed.isdecimal() and int(seed) > 0):
        raise ConfigError(
            f"SACREBLEU_SEED={seed} in the environment is not a seed; use a whole number above 0, "
            f"or none."
        )


def refuse_too_many(resamples: int, lines: int, otherwise: str = "") -> None:
    """Raise ConfigError where resamples of so many lines would need too much memory."""
    if resamples * lines > MOST_LINES:
        gigabytes = resamples * lines * BYTES / 1e9
        raise ConfigError(
            f"resamples={resamples} of {lines:,} lines need {gigabytes:.0f} GB of "
            f"memory; use at most {MOST_LINES // lines}{otherwise}."
        )
