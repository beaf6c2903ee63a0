"""Each symptom is seen where it is, and not where things are as they should be."""

import math
import re
from collections.abc import Callable

import pytest

from seq2seq.data.glance import Glance
from seq2seq.training.recipe import Recipe
from seq2seq.training.symptoms import (
    Symptom,
    degenerate_output,
    exploding_gradients,
    ignored_source,
    no_learning_rate,
    overlapping_validation,
    skipped_steps,
)

RECIPE = Recipe(lr=0.003, warmup_steps=200)
REFERENCES = [f"Sentence {number} says something, and it is its own." for number in range(20)]


def said(symptom: Symptom | None) -> str:
    assert symptom is not None
    return symptom.says


def test_a_rate_of_zero_and_a_warm_up_longer_than_the_run_are_seen() -> None:
    assert "training.lr=0, " in said(no_learning_rate(Recipe(lr=0), 100))
    assert "200 is more than the 50 steps" in said(no_learning_rate(RECIPE, 50))
    assert "ends at 25% of training.lr=0.003" in said(no_learning_rate(RECIPE, 50))
    for steps in (200, 201, math.inf):
        assert no_learning_rate(RECIPE, steps) is None


def test_skipped_steps_are_told_again_when_they_have_doubled() -> None:
    assert skipped_steps(0, RECIPE) is None
    assert "1 step was skipped" in said(skipped_steps(1, RECIPE))
    told = [skipped_steps(number, RECIPE) for number in range(1, 33)]
    grades = [each.grade for each in told if each is not None]
    news = [number for number in range(2, 33) if grades[number - 1] > grades[number - 2]]
    assert news == [2, 4, 8, 16, 32]


def test_gradients_explode_against_the_median_and_not_where_all_norms_are_small() -> None:
    usual = [0.5, 0.9, 30.0]
    told = exploding_gradients(19.0, usual, RECIPE, 1.0)
    assert "up to 19, where the median of this run is 0.9" in said(told)
    assert "trainer.gradient_clip_val=1.0 cuts it off" in said(told)
    assert "nothing cuts it off" in said(exploding_gradients(19.0, usual, RECIPE, None))
    assert exploding_gradients(18.1, usual, RECIPE, 1.0) is not None
    assert exploding_gradients(17.9, usual, RECIPE, 1.0) is None
    assert exploding_gradients(10.1, [0.0] * 3, RECIPE, 1.0) is not None
    assert exploding_gradients(9.9, [0.0] * 3, RECIPE, 1.0) is None
    assert exploding_gradients(9.0, [0.001] * 3, RECIPE, 1.0) is None
    worse = exploding_gradients(1900.0, usual, RECIPE, 1.0)
    assert told is not None
    assert worse is not None
    assert worse.grade == told.grade + 2
    for factor in (5, 10):
        scaled = [factor * norm for norm in usual]
        wilder = exploding_gradients(factor * 19.0, scaled, RECIPE, 1.0)
        assert wilder is not None
        assert wilder.grade == told.grade


@pytest.mark.parametrize("usual", [[], [1.0, 1.0], [300.0] * 3], ids=["none", "few", "all wild"])
def test_gradients_that_no_learning_network_has_explode_whatever_is_usual(
    usual: list[float],
) -> None:
    assert exploding_gradients(99.0, usual, RECIPE, 1.0) is None
    told = exploding_gradients(101.0, usual, RECIPE, 1.0)
    assert "up to 101, where networks that learn stay below 10;" in said(told)


def test_a_decoder_that_loses_nothing_with_other_sources_ignores_its_source() -> None:
    told = said(ignored_source(math.log(12), math.log(12.5), RECIPE))
    assert "12 with the true sources and 12.5 with those of other" in told
    assert ignored_source(2.0, 2.04, RECIPE) is not None
    assert ignored_source(2.0, 2.06, RECIPE) is None
    assert ignored_source(math.nan, math.nan, RECIPE) is None
    unmoved = said(ignored_source(8.9, 8.9, Recipe(lr=0)))
    assert unmoved.endswith("If so, train longer, or raise training.lr=0.")
    for diverged in (90.0, 1e9):  # nats, of which fp32 has no perplexity
        told = said(ignored_source(diverged, diverged, RECIPE))
        assert "perplexity is inf with the true sources and inf with those of other" in told


@pytest.mark.parametrize(
    ("translate", "seen"),
    [
        (lambda number, text: text, ""),
        (lambda number, text: " " if number > 0 else text, "95% of .* are empty"),
        (lambda number, text: "A man." if number > 8 else text, "11 of 20 .* same .* 'A man.'"),
        (lambda number, text: "so " * (20 + number) if number > 16 else text, "15% .* repeat"),
        (lambda number, text: text * 3, "3.0 times as long"),
        (lambda number, text: text[:20], "0.4 times as long"),
    ],
    ids=["sound", "empty", "one for all", "endless", "long", "short"],
)
def test_output_is_degenerate_where_its_references_are_not(
    translate: Callable[[int, str], str], seen: str
) -> None:
    translations = [translate(number, text) for number, text in enumerate(REFERENCES)]
    symptom = degenerate_output(translations, REFERENCES)
    assert bool(symptom) == bool(seen)
    assert re.search(seen, said(symptom) if symptom else "")
    assert degenerate_output(translations, translations) is None
    assert degenerate_output([], []) is None


@pytest.mark.parametrize(
    ("output", "fine"),
    [(" ", 5), ("A man.", 50), ("so " * 20, 10)],
    ids=["empty", "one", "endless"],
)
def test_so_many_of_a_hundred_are_no_symptom_but_one_more(output: str, fine: int) -> None:
    references = [f"{line} {number}" for number in range(5) for line in REFERENCES]
    for count in (fine, fine + 1):
        translations = [output] * count + references[count:]
        assert bool(degenerate_output(translations, references)) == (count > fine)


@pytest.mark.parametrize(("fault", "seen"), [(" ", "are empty"), ("so " * 20, "repeat")])
def test_the_share_that_is_told_is_of_all_translations(fault: str, seen: str) -> None:
    """Also where references have the same fault."""
    references = [fault] * 4 + REFERENCES[4:]
    translations = [fault] * 10 + REFERENCES[10:]
    told = said(degenerate_output(translations, references))
    assert re.match(f"50% of the validation translations {seen}", told)


@pytest.mark.parametrize(
    ("count", "same", "told"), [(50, 61, True), (50, 60, False), (51, 70, False), (50, 51, False)]
)
def test_references_may_say_one_thing_as_well(count: int, same: int, told: bool) -> None:
    references = ["A man."] * count + [f"Sentence {number}" for number in range(100 - count)]
    translations = ["A cat."] * same + references[same:]
    assert bool(degenerate_output(translations, references)) == told


@pytest.mark.parametrize(("same", "grade"), [(11, 1), (18, 1), (19, 2)])
def test_output_that_is_nearly_all_degenerate_is_worse(same: int, grade: int) -> None:
    translations = ["A man."] * same + REFERENCES[same:]
    told = degenerate_output(translations, REFERENCES)
    assert told is not None
    assert told.grade == grade


@pytest.mark.parametrize(("letters", "odd"), [(9, True), (10, False), (40, False), (41, True)])
def test_translations_of_half_to_twice_the_length_are_not_odd(letters: int, odd: bool) -> None:
    translations = [f"{number:0{letters}}" for number in range(20)]
    references = [f"{number:020}" for number in range(20)]
    assert bool(degenerate_output(translations, references)) == odd
    assert degenerate_output(translations, [""] * 20) is not None


def test_overlap_is_told_where_scores_suffer_from_it() -> None:
    told = said(overlapping_validation(Glance(pairs=30, sources=40, looked_at=900, of=900), 1000))
    assert "30 of 1000 validation pairs, and 40 of their sources" in told
    assert "judging by 900 of 900 training pairs" in told
    for fine in (
        Glance(pairs=10, sources=250, looked_at=900, of=900),
        Glance(pairs=2, sources=2, looked_at=100, of=90_000),  # too few to guess from
    ):
        assert overlapping_validation(fine, 1000) is None
    sources = Glance(pairs=0, sources=251, looked_at=900, of=900)
    assert overlapping_validation(sources, 1000) is not None, "with other translations"
    few = Glance(pairs=3, sources=3, looked_at=100, of=90_000)
    assert overlapping_validation(few, 1000) is not None, "three of a small part"
