"""Values with intervals as SVG: of a few groups side by side, or in the row of a table."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from seq2seq.reports.panels import Axis, number, stroke

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 8, 10, HEIGHT - 52
ROW_WIDTH, MIDDLE = 150, 11

STYLE = """
svg.chart { width: 100% } svg.row { width: 9.5rem; vertical-align: middle }
svg text { font: 12px system-ui, sans-serif; fill: var(--faint) }
.grid { stroke: var(--line); stroke-width: .7 }
.joined { fill: none; opacity: .45; stroke-width: 1.5 } .whisker { stroke-width: 2 }
"""


class Estimate(NamedTuple):
    """A value, and the middle and half the width of its interval where there is one."""

    value: float
    middle: float | None = None
    half: float | None = None

    @property
    def low(self) -> float:
        return self.value if self.middle is None or self.half is None else self.middle - self.half

    @property
    def high(self) -> float:
        return self.value if self.middle is None or self.half is None else self.middle + self.half

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if self.half is None else f" ± {self.half:.2f}")


def axis_of(estimates: Sequence[Estimate]) -> Axis:
    """With a little room around all intervals."""
    low, high = min(each.low for each in estimates), max(each.high for each in estimates)
    room = (high - low) * 0.06 or 1.0
    return Axis(low - room, high + room)


def row(estimate: Estimate, axis: Axis, index: int) -> str:
    """The interval of the series of this index, on an axis that all rows share."""
    low, high = (_place(axis, value) for value in (estimate.low, estimate.high))
    line = f"M{low:.1f} {MIDDLE}H{high:.1f}"
    whisker = f'<path class="whisker" stroke="{stroke(index)[0]}" d="{line}" />'
    return _row(str(estimate), whisker, [estimate.value], axis, index)


def dots(values: Sequence[float], axis: Axis, index: int) -> str:
    """Several values of the series of this index, on an axis that all rows share."""
    return _row(", ".join(f"{value:.2f}" for value in values), "", values, axis, index)


def _row(said: str, below: str, values: Sequence[float], axis: Axis, index: int) -> str:
    circles = "".join(
        f'<circle cx="{_place(axis, value):.1f}" cy="{MIDDLE}" r="4" fill="{stroke(index)[0]}" />'
        for value in values
    )
    return (
        f'<svg class="row" viewBox="0 0 {ROW_WIDTH} {2 * MIDDLE}" role="img">'
        f'<title>{said}</title><path class="grid" d="M0 {MIDDLE}H{ROW_WIDTH}" />'
        f"{below}{circles}</svg>"
    )


def _place(axis: Axis, value: float) -> float:
    return 6 + axis.share(value) * (ROW_WIDTH - 12)


def chart(
    title: str,
    unit: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[Estimate]]],
) -> str:
    """A place on the horizontal axis for each label, with a value of each series; nothing without
    labels."""
    if not labels:
        return ""
    axis = axis_of([each for _, values in series for each in values])
    elements = [*_frame(axis, labels, title, unit)]
    for index, (name, values) in enumerate(series):
        elements += _series(axis, index, len(series), name, labels, values)
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return "\n".join([f"{head}<title>{escape(title)}</title>", *elements, "</svg>"])


def _frame(axis: Axis, labels: Sequence[str], title: str, unit: str) -> Iterator[str]:
    for tick in axis.ticks():
        y = _height(axis, tick)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}" />'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>'
    for place, label in enumerate(labels):
        x = _middle(place, len(labels))
        yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{escape(label)}</text>'
    x = (LEFT + RIGHT) / 2
    yield f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{escape(title)}</text>'
    turned = f"translate(12 {(TOP + BOTTOM) / 2}) rotate(-90)"
    yield f'<text transform="{turned}" text-anchor="middle">{escape(unit)}</text>'


def _series(
    axis: Axis,
    index: int,
    of: int,
    name: str,
    labels: Sequence[str],
    values: Sequence[Estimate],
) -> Iterator[str]:
    colour, shift = stroke(index)[0], (index - (of - 1) / 2) * 12
    xs = [_middle(place, len(labels)) + shift for place in range(len(labels))]
    line = "L".join(
        f"{x:.1f} {_height(axis, each.value):.1f}" for x, each in zip(xs, values, strict=True)
    )
    yield f'<path class="joined" stroke="{colour}" d="M{line}" />'
    for x, label, each in zip(xs, labels, values, strict=True):
        low, y, high = (_height(axis, value) for value in (each.low, each.value, each.high))
        said = escape(f"{name}, {label}: {each}")
        yield f'<path class="whisker" stroke="{colour}" d="M{x:.1f} {low:.1f}V{high:.1f}" />'
        dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
        yield f"{dot}<title>{said}</title></circle>"


def _middle(place: int, of: int) -> float:
    return LEFT + (place + 0.5) * (RIGHT - LEFT) / of


def _height(axis: Axis, value: float) -> float:
    return BOTTOM - axis.share(value) * (BOTTOM - TOP)
