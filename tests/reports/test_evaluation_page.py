"""The page shows the numbers and the text that it is given, and needs nothing but itself."""

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from seq2seq.reports.evaluation_page import html_page
from seq2seq.reports.group_chart import BOTTOM, TOP, Estimate, axis_of, chart
from seq2seq.reports.score_words import chance

HOSTILE = "<script>alert(1)</script> & ']]>"


def score(system: str, name: str, value: float, p_value: float | None = None) -> dict[str, Any]:
    return {
        "system": system,
        "name": name,
        "value": value,
        "mean": value + 0.5,
        "interval": 1.25,
        "p_value": p_value,
        "signature": f"nrefs:1|of:{name}",
    }


def comparison(p_value: float = 0.001, names: tuple[str, str] = ("old", "new")) -> dict[str, Any]:
    old, new = names
    group = [score(old, "BLEU", 20.0), score(new, "BLEU", 60.0)]
    side = {"chrf": 12.5, "marked": [("a ", "same"), (HOSTILE, "wrong"), ("b", "right")]}
    return {
        "systems": list(names),
        "sentences": 1234,
        "references": 2,
        "test": "paired bootstrap, 1,000 resamples",
        "sure": 0.025,
        "scores": [
            score(old, "BLEU", 31.25),
            score(new, "BLEU", 33.5, p_value),
            score(old, "TER", 50.0),
            score(new, "TER", 48.0, p_value),
        ],
        "groupings": [
            {
                "title": "Length of the source, in words",
                "groups": [
                    {"label": label, "sentences": 617, "scores": group} for label in ("1–4", "5–9")
                ],
            }
        ],
        "found": [{"words": "10–99", "total": 4321, "f1": [0.0, 87.5]}],
        "seen_in": "training",
        "outputs": [
            {"system": old, "length_ratio": 0.9876, "empty": [], "long": [7], "copies": None},
            {
                "system": new,
                "length_ratio": 1.02,
                "empty": list(range(1, 31)),
                "long": [],
                "copies": [3, 4],
            },
        ],
        "differences": [
            {
                "system": new,
                "better": 700,
                "worse": 34,
                "same": 500,
                "gains": [
                    {
                        "line": 1001,
                        "source": HOSTILE,
                        "reference": "بيت",
                        "baseline": {"chrf": 0.0, "marked": []},
                        "system": side,
                    }
                ],
                "losses": [],
            }
        ],
    }


def tree(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


def text(page: str) -> str:
    return " ".join("".join(tree(page).itertext()).split())


def test_scores_stand_with_interval_difference_chance_and_signature() -> None:
    shown = text(html_page(comparison()))
    for part in (
        "new against old",
        "1,234 sentences, 2 references.",
        "31.25 ± 1.25",
        "33.50 ± 1.25",
        "+2.25, p = 0.001",
        "\N{MINUS SIGN}2.00, p = 0.001",
        "BLEU|nrefs:1|of:BLEU",
        "TER|nrefs:1|of:TER",
        "paired bootstrap, 1,000 resamples",
        "0.988",
        "30 lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …",
        "1 line 7",
        "2 lines 3, 4",
        "needs --source",
        "line 1,001: chrF2 +12.5",
        "better in 700, equal in 500 and worse in 34",
        "87.50",
    ):
        assert part in shown, part


@pytest.mark.parametrize("values", [(31.0, 33.0), (33.0, 31.0)])
def test_the_best_score_of_a_metric_is_marked(values: tuple[float, float]) -> None:
    given = comparison()
    for first in (0, 2):  # BLEU and TER
        for place, value in enumerate(values):
            given["scores"][first + place]["value"] = value
    cells = [cell for cell in tree(html_page(given)).iter("td") if cell.get("class") == "best"]
    assert sorted((cell.text or "").split()[0] for cell in cells) == ["31.00", "33.00"]


@pytest.mark.parametrize(
    ("p_value", "values", "said"),
    [
        (0.01, (31.0, 33.0), ["better", "worse"]),
        (0.01, (33.0, 31.0), ["worse", "better"]),
        (0.024, (31.0, 33.0), ["better", "worse"]),
        (0.025, (31.0, 33.0), ["even", "even"]),
    ],
)
def test_the_verdict_knows_which_way_a_metric_goes_and_what_is_chance(
    p_value: float, values: tuple[float, float], said: list[str]
) -> None:
    given = comparison(p_value)
    for first in (0, 2):
        for place, value in enumerate(values):
            given["scores"][first + place]["value"] = value
    page = html_page(given)
    assert re.findall(r'class="chip (\w+)"', page) == said


def test_the_smallest_chance_is_told_as_a_bound() -> None:
    shown = text(html_page(comparison(0.0001)))
    assert "better, p < 0.001" in shown
    assert "+2.25, p < 0.001" in shown


@pytest.mark.parametrize(
    ("p_value", "digits", "said"),
    [
        (1.0, 3, "p = 1.000"),
        (0.0005, 3, "p = 0.001"),
        (0.00049, 3, "p < 0.001"),
        (0.00049, 4, "p = 0.0005"),
        (0.00005, 4, "p = 0.0001"),
        (0.000049, 4, "p < 0.0001"),
    ],
)
def test_a_chance_has_as_many_digits_as_asked_for_and_is_never_zero(
    p_value: float, digits: int, said: str
) -> None:
    assert chance(p_value, digits) == said


def test_a_page_without_intervals_says_so_and_one_system_is_compared_with_none() -> None:
    given = comparison()
    for each in given["scores"]:
        each.update(mean=None, interval=None, p_value=None)
    shown = text(html_page(given))
    assert "no intervals and no tests" in shown
    assert "p = " not in shown
    assert "BLEU +2.25, TER \N{MINUS SIGN}2.00" in shown
    alone = comparison()
    alone.update(systems=["old"], scores=alone["scores"][::2], differences=[])
    alone["outputs"].pop()
    assert 'class="best"' not in html_page(alone)
    shown = text(html_page(alone))
    assert shown.startswith("Evaluation of old")
    assert "new" not in shown.replace("length ratio", "")


def test_words_are_marked_and_text_is_escaped_and_has_its_own_direction() -> None:
    page = html_page(comparison(names=(HOSTILE, "b")))
    marks = [
        (mark.get("class"), mark.text)
        for article in tree(page).iter("article")
        for mark in article.iter("mark")
    ]
    assert marks == [("wrong", HOSTILE), ("right", "b")]
    assert "<script" not in page
    assert HOSTILE in text(page)
    assert '<dd dir="auto">بيت</dd>' in page
    assert "(empty)" in page


def test_the_page_loads_nothing_and_follows_the_browsers_colours() -> None:
    page = html_page(comparison())
    assert not re.findall(r"\b(?:src|href|url|import)\b\s*[=(:]", page.split("</style>")[1])
    assert "url(" not in page
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page


def test_dots_and_whiskers_stand_at_their_numbers() -> None:
    series = [("a", [Estimate(30.0, 31.0, 4.0)]), ("b", [Estimate(50.0)])]
    axis = axis_of([value for _, values in series for value in values])
    assert axis.low < 27 < 50 < axis.high
    drawn = ElementTree.fromstring(chart("title", "unit", ["x"], series))
    heights = [float(dot.get("cy", "")) for dot in drawn.iter("circle")]
    expected = [
        BOTTOM - (value - axis.low) / (axis.high - axis.low) * (BOTTOM - TOP) for value in (30, 50)
    ]
    assert heights == pytest.approx(expected, abs=0.05)
    whiskers = [path.get("d", "") for path in drawn.iter("path") if path.get("class") == "whisker"]
    low, high = (float(each) for each in re.split("[ V]", whiskers[0])[1:])
    assert (low - high) * (axis.high - axis.low) / (BOTTOM - TOP) == pytest.approx(8, abs=0.1)
    assert [dot[0].text for dot in drawn.iter("circle")] == ["a, x: 30.00 ± 4.00", "b, x: 50.00"]
