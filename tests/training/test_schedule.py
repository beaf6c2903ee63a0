"""The learning rate over a run."""

import math
from itertools import pairwise
from typing import get_args, get_type_hints

import pytest

from seq2seq.training.recipe import Recipe
from seq2seq.training.schedule import SCHEDULES, factor


def test_a_recipe_can_name_every_schedule_and_no_other() -> None:
    assert get_args(get_type_hints(Recipe)["schedule"]) == tuple(SCHEDULES)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_linearly_to_its_peak_and_never_exceeds_it(name: str) -> None:
    rates = [factor(name, step, 40, 200) for step in range(1, 201)]
    assert rates[:40] == pytest.approx([step / 40 for step in range(1, 41)])
    assert max(rates) == 1.0
    assert all(later <= earlier for earlier, later in pairwise(rates[39:]))


def test_inverse_sqrt_halves_when_the_steps_quadruple() -> None:
    assert factor("inverse-sqrt", 400, 100, -1) == pytest.approx(0.5)
    assert factor("inverse-sqrt", 1600, 100, -1) == pytest.approx(0.25)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_schedule_with_an_end_is_half_way_in_the_middle_and_zero_at_the_end(name: str) -> None:
    assert factor(name, 150, 100, 200) == pytest.approx(0.5)
    assert factor(name, 200, 100, 200) == pytest.approx(0.0)
    assert factor(name, 500, 100, 200) == pytest.approx(0.0)


def test_cosine_follows_the_cosine() -> None:
    assert factor("cosine", 125, 100, 200) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warm_up_starts_at_the_peak_or_just_below(name: str) -> None:
    assert 0.9 <= factor(name, 1, 0, 100) <= 1.0


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_warm_up_as_long_as_the_run_ends_at_the_peak_and_the_rate_after_it_is_zero(
    name: str,
) -> None:
    """Torch asks for the rate of the step after the last one, too."""
    assert factor(name, 100, 100, 100) == 1
    assert factor(name, 101, 100, 100) == 0
