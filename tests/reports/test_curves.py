"""Diagrams show the numbers that they are given, wherever they are drawn."""

import math
import re
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.reports.curves_page import BOTTOM, LEFT, RIGHT, TOP, html_page
from seq2seq.reports.panels import COLOURS, DASHES, KINDS, Axis, Panel, panels, smoothed, stroke

NAN, INF = math.nan, math.inf
HOSTILE = "_<b>&amp; $\\frac{1}{ $x_1$ \"' 今"
FIRST = {
    "loss": {50: 6.5, 100: 5.25, 150: 4.0, 200: 4.5},
    "val_ppl": {100: 900.0, 200: 30.0},
    "lr": {50: 5e-4, 100: 1e-3, 150: 7.5e-4, 200: 5e-4},
    "zeal": {200: 1.0},
}
SECOND = {"loss": {100: 7.0, 300: 3.0}, "bravery": {100: -2.0, 300: NAN}}


def inside(axis: Axis, value: float) -> bool:
    return axis.low < value < axis.high


def test_every_number_has_a_panel_known_ones_first_and_all_runs_in_each() -> None:
    drawn = panels({"a": FIRST, "b": SECOND})
    titles = [KINDS["loss"].title, KINDS["val_ppl"].title, KINDS["lr"].title, "bravery", "zeal"]
    assert [panel.kind.title for panel in drawn] == titles
    assert all(list(panel.curves) == ["a", "b"] for panel in drawn)
    assert drawn[0].curves == {"a": FIRST["loss"], "b": SECOND["loss"]}
    assert drawn[1].curves == {"a": FIRST["val_ppl"], "b": {}}
    assert {panel.steps for panel in drawn} == {drawn[0].steps}  # easy to compare
    for panel in drawn:
        for points in panel.curves.values():
            assert all(inside(panel.steps, step) for step in points)
            assert all(inside(panel.values, each) for each in points.values() if each == each)


def test_lines_that_follow_one_another_differ_in_colour_or_dash() -> None:
    strokes = [stroke(run) for run in range(len(COLOURS) * len(DASHES))]
    assert len(set(strokes)) == len(strokes)
    page = html_page(panels({str(run): {"x": {1: 1.0}} for run in range(len(strokes))}))
    paths = [path for path in tree_of(page).iter("path") if path.attrib["class"] == "curve"]
    drawn = [(path.attrib["stroke"], path.get("stroke-dasharray")) for path in paths]
    lines, legend = drawn[: len(strokes)], drawn[len(strokes) :]
    assert len(set(lines)) == len(strokes)
    assert legend == lines


def mean_of_neighbours(values: list[float], index: int) -> float:
    reach = min(len(values) // 40, index)
    near = [each for each in values[index - reach : index + reach + 1] if math.isfinite(each)]
    return sum(near) / len(near)


def test_smoothing_takes_the_mean_of_finite_neighbours() -> None:
    values = [float((7 * n) % 31) for n in range(130)]
    values[40], values[70] = NAN, INF
    found = smoothed(dict(enumerate(values)))
    assert list(found) == list(range(130))
    for index, value in enumerate(values):
        if math.isfinite(value):
            assert found[index] == pytest.approx(mean_of_neighbours(values, index))
    assert math.isnan(found[40])
    assert found[70] == INF
    assert smoothed({5: 3.0}) == {5: 3.0}
    assert smoothed({}) == {}


@settings(deadline=None)
@given(
    low=st.floats(1e-8, 1e8),
    span=st.floats(1e-3, 1e12),
    log=st.booleans(),
    whole=st.booleans(),
)
def test_ticks_are_a_few_different_numbers_of_the_range(
    low: float, span: float, log: bool, whole: bool
) -> None:
    axis = Axis(low, low * (1 + span), log)
    ticks = axis.ticks(whole=whole and not log)
    least = min(3, math.floor(axis.high) - math.ceil(axis.low) + 1) if whole and not log else 3
    assert least <= len(ticks) <= 11
    assert ticks == sorted(set(ticks))
    assert all(-1e-9 <= axis.share(tick) <= 1 + 1e-9 for tick in ticks)
    if whole and not log:
        assert all(tick == round(tick) for tick in ticks)


def test_ticks_are_round() -> None:
    assert Axis(-100.0, 6200.0).ticks(whole=True) == [0, 2000, 4000, 6000]
    assert Axis(0.0, 8.4).ticks(whole=True) == [0, 2, 4, 6, 8]
    assert Axis(3.9, 300.0, log=True).ticks() == [5, 10, 20, 50, 100, 200]
    assert Axis(4.5, 11.0, log=True).ticks() == [5, 6, 7, 8, 9, 10, 11]
    assert Axis(0.5, 2e7, log=True).ticks() == [10.0**n for n in range(8)]


def test_an_axis_in_logarithms_goes_by_ratios() -> None:
    axis = Axis(2.0, 32.0, log=True)
    assert [axis.share(value) for value in (2, 4, 16, 32)] == pytest.approx([0, 0.25, 0.75, 1])
    zero = panels({"a": {"val_ppl": {1: 0.0, 2: 8.0}}})[0]
    assert not zero.values.log  # where it has no place


def tree_of(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


def points_of(line: str, panel: Panel) -> list[tuple[float, float]]:
    """(step, value), read back from a path of the diagram."""
    places = re.findall(r"[ML]([\d.]+) ([\d.]+)", line)
    steps, values = panel.steps, panel.values
    found = []
    for x, y in places:
        across, up = (float(x) - LEFT) / (RIGHT - LEFT), (BOTTOM - float(y)) / (BOTTOM - TOP)
        value = (
            values.low * (values.high / values.low) ** up
            if values.log
            else values.low + up * (values.high - values.low)
        )
        found.append((steps.low + across * (steps.high - steps.low), value))
    return found


def lines_of(page: str) -> list[list[str]]:
    """The paths of the curves in each diagram of a page."""
    diagrams = [svg for svg in tree_of(page).iter("svg") if svg.get("role") == "img"]
    return [
        [path.attrib["d"] for path in svg.iter("path") if "curve" in path.attrib["class"]]
        for svg in diagrams
    ]


def test_the_page_draws_the_numbers_where_they_belong() -> None:
    drawn = panels({"a": FIRST, "b": SECOND})
    loss, perplexity, rate, bravery, _ = lines_of(html_page(drawn))
    for line, expected, panel in (
        (loss[0], FIRST["loss"], drawn[0]),
        (loss[2], SECOND["loss"], drawn[0]),  # after the smoothed line of the first run
        (perplexity[0], FIRST["val_ppl"], drawn[1]),
        (rate[0], FIRST["lr"], drawn[2]),
        (bravery[1], {100: -2.0}, drawn[3]),
    ):
        found = points_of(line, panel)
        assert [step for step, _ in found] == pytest.approx(list(expected), abs=0.1)
        assert [value for _, value in found] == pytest.approx(list(expected.values()), rel=5e-3)


@pytest.mark.parametrize("curves", [FIRST, {"x": {1: -2e3, 2: 5e3}}], ids=["several", "short"])
def test_lines_of_the_grid_are_where_their_numbers_are_across_the_whole_diagram(
    curves: dict[str, dict[int, float]],
) -> None:
    drawn = panels({"a": curves})
    diagrams = [svg for svg in tree_of(html_page(drawn)).iter("svg") if svg.get("role") == "img"]
    for svg, panel in zip(diagrams, drawn, strict=True):
        *_, width, height = map(float, svg.attrib["viewBox"].split())
        lines = [path.attrib["d"] for path in svg.iter("path") if path.attrib["class"] == "grid"]
        labels = [text for text in svg.iter("text") if text.get("transform") is None]
        told = [float((text.text or "").replace(",", "")) for text in labels]
        ticks = [*panel.steps.ticks(whole=True), *panel.values.ticks()]
        assert told == pytest.approx(ticks)
        for line, label, number in zip(lines, labels, told, strict=True):
            ((step, value),) = points_of(line, panel)
            x, y = float(label.attrib["x"]), float(label.attrib["y"])
            at, size = re.findall(r"[\d.]+", line), 7 * len(label.text or "")
            if line.endswith(f"V{BOTTOM}"):
                assert at[1] == str(TOP)
                assert step == pytest.approx(number, abs=1e-3 * panel.steps.high)
                assert (label.attrib["text-anchor"], x) == ("middle", float(at[0]))
                assert 0 < x - size / 2 < x + size / 2 < width
                assert BOTTOM < y < height
            else:
                assert line.endswith(f"H{RIGHT}")
                assert at[0] == str(LEFT)
                assert value == pytest.approx(number, rel=5e-3, abs=1e-3 * panel.values.high)
                assert label.attrib["text-anchor"] == "end"
                assert y == pytest.approx(float(at[1]) + 4)
                assert 0 < x - size < x < LEFT
        titles = [text for text in svg.iter("text") if text.get("transform")]
        assert [title.text for title in titles] == ["optimizer step", panel.kind.unit]
        below, beside = (
            [float(each) for each in re.findall(r"[\d.]+", title.attrib["transform"])[:2]]
            for title in titles
        )
        assert below[0] - LEFT == RIGHT - below[0]
        assert beside[1] - TOP == BOTTOM - beside[1]
        assert BOTTOM + 16 < below[1] < height
        assert 0 < beside[0] < LEFT


def test_over_the_numbers_is_the_mean_of_neighbours_where_it_is_drawn() -> None:
    points = {step: 1 + float((7 * step) % 31) for step in range(1, 131)}
    (panel,) = panels({"a": {"loss": points}})
    ((raw, mean),) = lines_of(html_page([panel]))
    for line, expected in ((raw, points), (mean, smoothed(points))):
        found = [value for _, value in points_of(line, panel)]
        assert found == pytest.approx(list(expected.values()), abs=0.02)


def test_a_number_that_is_not_finite_leaves_a_gap_and_one_between_gaps_a_dot() -> None:
    points = {1: 1.0, 2: 2.0, 3: NAN, 4: 3.0, 5: INF, 6: 1.0, 7: -INF}
    ((line,),) = lines_of(html_page(panels({"a": {"x": points}})))
    assert re.sub(r"[\d. ]+", "", line.replace("h0", "h")) == "MhLMhMh"
    page = html_page(panels({"a": {"x": {1: NAN}}}))
    assert lines_of(page) == [[""]]
    assert "a: nothing finite logged" in page
    page = html_page(panels({"a": {"x": {1: 1.0}}, "b": {}}))
    assert "b: nothing logged" in page


def test_few_points_are_marked_and_told_but_not_means_of_neighbours() -> None:
    def marks(points: dict[int, float], name: str) -> list[str]:
        page = tree_of(html_page(panels({"a": {name: points}})))
        return ["".join(circle.itertext()) for circle in page.iter("circle")]

    assert marks({1500: 2.5, 3000: NAN, 4500: 12345.6}, "val_ppl") == [
        "2.5 at step 1,500",
        "12,346 at step 4,500",
    ]
    assert marks({50: 2.5}, "loss") == ["2.5 at step 50"]
    assert marks({50: 2.5, 100: 2.0}, "loss") == []
    assert marks(dict.fromkeys(range(51), 1.0), "lr") == []


def test_the_page_is_well_formed_needs_no_network_and_escapes_names() -> None:
    page = html_page(panels({HOSTILE: FIRST, "b": {HOSTILE: {1: 2.0}}}))
    tree = tree_of(page)
    text = "".join(tree.itertext())
    assert text.count(HOSTILE) == 2 + 5 + 3  # titles of the page; each legend; a panel of that name
    assert not {"b", "script", "link", "img"} & {element.tag for element in tree.iter()}
    assert not {"src", "href"} & {name for element in tree.iter() for name in element.attrib}
    assert "url(" not in page
    assert "4 to 6.5; 4.5 at step 200" in text


def test_a_picture_has_the_numbers_themselves() -> None:
    pytest.importorskip("matplotlib")
    from seq2seq.reports.curves_picture import curves_figure

    drawn = panels({"a": FIRST, "b": SECOND})
    figure = curves_figure(drawn)
    assert [axes.get_title() for axes in figure.axes] == [panel.kind.title for panel in drawn]
    for axes, panel in zip(figure.axes, drawn, strict=True):
        lines = [np.asarray(line.get_xydata()).tolist() for line in axes.get_lines()]
        for points in panel.curves.values():
            expected = [points, smoothed(points)] if panel.kind.smooth else [points]
            for each in expected:
                wanted = [[float(step), value] for step, value in each.items()]
                assert str(lines.pop(0)) == str(wanted)  # nan is not equal to itself
        assert not lines
        assert axes.get_yscale() == ("log" if panel.kind.log else "linear")
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("optimizer step", panel.kind.unit)


def test_a_picture_says_where_no_number_is_finite() -> None:
    pytest.importorskip("matplotlib")
    from seq2seq.reports.curves_picture import curves_figure

    lost = {"loss": {50: NAN, 100: INF}, "lr": {50: 1.0, 100: NAN}}
    loss, rate = curves_figure(panels({"a": lost, "b": {}})).axes
    assert [text.get_text() for text in loss.texts] == ["nothing finite logged"]
    assert not rate.texts


def test_a_picture_names_its_runs_whatever_their_names() -> None:
    pytest.importorskip("matplotlib")
    from seq2seq.reports.curves_picture import curves_figure
    from seq2seq.reports.picture import png

    figure = curves_figure(panels({"a": FIRST, HOSTILE: SECOND}))
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert [name.replace("[U+4ECA]", "今") for name in names] == ["a", HOSTILE]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert png(figure).startswith(b"\x89PNG")
