"""Means over seeds and the test of their difference speak of the same thing."""

import random

import pytest

from seq2seq.evaluation.metrics import evaluate
from seq2seq.evaluation.seeds import score_seeds
from seq2seq.evaluation.significance import compare_seeds

DRAW = random.Random(1)
REFERENCES = [" ".join(DRAW.choices("abcdefghijklmnopqrstuvw", k=12)) for _ in range(100)]


def without(share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(w for w in line.split() if draw.random() > share) for line in REFERENCES]


def longer(words: str) -> list[str]:
    return [f"{line} {words}" for line in REFERENCES]


def test_a_test_that_finds_the_opposite_of_the_means_shows_nothing() -> None:
    """BLEU's brevity penalty is of all translations together: long ones make up for short ones."""
    uneven = [without(0.25, 1), longer("x y z")]
    short = [without(0.15, 2), without(0.15, 3)]
    base, other = compare_seeds(
        {"uneven": uneven, "short": short}, [REFERENCES], metrics=["bleu"], resamples=100
    )
    assert other.value < base.value
    assert other.p_value is not None
    assert other.p_value < 0.025
    configs = {name: dict(enumerate(each)) for name, each in (("a", uneven), ("b", short))}
    found = score_seeds(configs, REFERENCES, metrics=["chrf", "bleu"], resamples=100)
    first, second = (score for score in found if score.name == "BLEU")
    for score, translations in ((first, uneven), (second, short)):
        alone = [evaluate(each, [REFERENCES], metrics=["bleu"]) for each in translations]
        assert list(score.values.values()) == [bleu.value for (bleu,) in alone]
        assert score.signature == alone[0][0].signature
    assert second.mean > first.mean
    assert (first.p_value, second.p_value) == (None, 1.0)


@pytest.mark.parametrize("shares", [(0.3, 0.1), (0.1, 0.3), (0.1, 0.103)])
def test_where_both_agree_p_is_that_of_the_test_however_small_the_difference(
    shares: tuple[float, float],
) -> None:
    systems = {str(share): [without(share, 1), without(share, 2)] for share in shares}
    found = score_seeds(
        {name: dict(enumerate(each)) for name, each in systems.items()}, REFERENCES, resamples=100
    )
    tested = compare_seeds(systems, [REFERENCES], resamples=100)
    assert [score.p_value for score in found] == [score.p_value for score in tested]
    assert found[1].p_value is not None
    assert found[1].p_value < 0.025
