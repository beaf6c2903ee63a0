"""Configurations that were trained with several seeds: mean, standard deviation, differences.

Two things make a score vary, and each has its number. The standard deviation over seeds says what
another training of the same configuration would change. The p-value says what other sentences
would change: all translations of a sentence, from all seeds, are drawn together (`compare_seeds`),
so that it is about all these models and not about two of them (Clark et al. 2011). No p-value says
both: seeds are not drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from seq2seq.evaluation.metrics import evaluate
from seq2seq.evaluation.significance import compare_seeds


@dataclass(frozen=True)
class SeedScores:
    """One metric of a configuration on a test set."""

    config: str
    name: str
    mean: float
    deviation: float | None
    """Standard deviation over seeds, with n - 1; None of a single seed."""
    values: dict[int, float]
    """Seed -> its score."""
    p_value: float | None
    """Of the difference from the first configuration; None for that itself, and 1 where the means
    differ one way and all translations together the other, as BLEU's may: nothing is shown then."""
    signature: str
    """Of each seed's score."""
    test_signature: str
    """Of the p-value."""


def score_seeds(
    configs: Mapping[str, Mapping[int, Sequence[str]]],
    references: Sequence[str],
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    resamples: int = 1000,
) -> list[SeedScores]:
    """configs: name -> seed -> translations; for each metric, each configuration's scores."""
    tested = compare_seeds(
        {name: list(seeds.values()) for name, seeds in configs.items()},
        [references],
        target_lang,
        metrics,
        resamples=resamples,
    )
    single = {
        name: {
            seed: evaluate(translations, [references], target_lang, metrics)
            for seed, translations in seeds.items()
        }
        for name, seeds in configs.items()
    }
    found: list[SeedScores] = []
    for place, test in enumerate(tested):
        first = place - place % len(configs)
        scores = {seed: each[place // len(configs)] for seed, each in single[test.system].items()}
        values = {seed: score.value for seed, score in scores.items()}
        p_value = test.p_value
        if p_value is not None:
            apart = mean(values.values()) - found[first].mean, test.value - tested[first].value
            p_value = p_value if apart[0] * apart[1] > 0 else 1.0
        found.append(
            SeedScores(
                config=test.system,
                name=test.name,
                mean=mean(values.values()),
                deviation=stdev(values.values()) if len(values) > 1 else None,
                values=values,
                p_value=p_value,
                signature=next(iter(scores.values())).signature,
                test_signature=test.signature,
            )
        )
    return found
