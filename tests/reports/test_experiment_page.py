"""The page has every number of the report, and takes names as text."""

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from seq2seq.reports.experiment_page import html_page

NAME = "<b>&wide"


def score(
    config: str, name: str, values: dict[int, float], p_value: float | None
) -> dict[str, Any]:
    return {
        "config": config,
        "name": name,
        "mean": sum(values.values()) / len(values),
        "deviation": 0.25 if len(values) > 1 else None,
        "values": values,
        "p_value": p_value,
        "signature": f"plain:{name}",
        "test_signature": f"bs:{name}",
    }


def report(p_value: float = 0.25) -> dict[str, Any]:
    scores = [
        score("base", "BLEU", {1: 30.0, 2: 31.0}, None),
        score(NAME, "BLEU", {2: 33.5}, p_value),
        score("base", "TER", {1: 50.0, 2: 51.0}, None),
        score(NAME, "TER", {2: 48.5}, p_value),
    ]
    return {
        "configs": ["base", NAME],
        "seeds": [1, 2],
        "missing": [f"{NAME}, seed 1: fit failed with status 2"],
        "sure": 0.025,
        "test_sets": {"flickr & co": {"sentences": 1000, "scores": scores}},
    }


def test_means_seeds_tests_signatures_and_what_is_missing_are_shown() -> None:
    tree = ElementTree.fromstring(html_page(report()).removeprefix("<!DOCTYPE html>"))
    text = " ".join("".join(tree.itertext()).split())
    for part in (
        f"{NAME} against base",
        f"{NAME}, seed 1: fit failed with status 2",
        "flickr & co 1,000 sentences",
        "30.50 ± 0.252 seeds, baseline",
        "33.501 seed, +3.00 p = 0.250",
        "48.501 seed, \N{MINUS SIGN}2.00 p = 0.250",
        "BLEU|plain:BLEU",
        "TER|bs:TER",
    ):
        assert part in text, part
    rows = [[cell.text for cell in row] for row in list(tree.iter("table"))[1]]
    assert rows[1:] == [
        ["base", "1", "30.00", "50.00"],
        ["base", "2", "31.00", "51.00"],
        [NAME, "2", "33.50", "48.50"],
    ]
    assert [len(list(svg.iter("circle"))) for svg in tree.iter("svg")] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("p_value", "deviations", "said"),
    [
        (0.02, (0.3, 0.2), ["better", "better"]),
        (0.03, (0.3, 0.2), ["even", "even"]),
        (0.02, (2.5, 0.2), ["better", "even"]),  # the differences are 3 BLEU and 2 TER
        (0.02, (0.2, 3.5), ["even", "even"]),
        (0.02, (None, 0.2), ["even", "even"]),
        (0.02, (0.2, None), ["even", "even"]),
    ],
)
def test_a_difference_that_other_sentences_or_seeds_may_change_has_no_colour(
    p_value: float, deviations: tuple[float | None, float | None], said: list[str]
) -> None:
    made = report(p_value)
    for each in made["test_sets"]["flickr & co"]["scores"]:
        each["deviation"] = deviations[each["config"] == NAME]
    assert re.findall(r'class="chip (\w+)"', html_page(made)) == said


def test_the_smallest_chance_is_a_bound() -> None:
    tree = ElementTree.fromstring(html_page(report(0.0001)).removeprefix("<!DOCTYPE html>"))
    chips = [chip.text for chip in tree.iter("span") if "chip" in chip.get("class", "")]
    assert chips == ["p < 0.001"] * 2


def test_a_report_on_nothing_is_a_page() -> None:
    nothing = {**report(), "configs": ["base"], "test_sets": {}}
    ElementTree.fromstring(html_page(nothing).removeprefix("<!DOCTYPE html>"))
