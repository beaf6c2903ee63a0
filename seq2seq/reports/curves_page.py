"""A page of training curves, drawn as SVG."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from seq2seq.reports.page import page
from seq2seq.reports.panels import Panel, Points, brief, number, smoothed, stroke

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 66, WIDTH - 20, 8, HEIGHT - 44
"""Where the curves are; around them is room for labels."""

STYLE = """
body { max-width: 84rem }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)) }
figure { margin: 0 1rem 1.5rem 0 }
h2 { font-size: 1rem; margin: 0 }
figcaption { color: var(--faint); font-size: .85rem }
svg { width: 100% }
text { font: 12px system-ui, sans-serif; fill: var(--faint) }
.grid { stroke: var(--line); stroke-width: .7 }
.curve { fill: none; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round }
.raw { opacity: .4; stroke-width: 1 }
"""


def html_page(panels: Sequence[Panel]) -> str:
    """Under each diagram is a line for each run: the range of its numbers, and the last."""
    runs = ", ".join(panels[0].curves)
    figures = "\n".join(map(_figure, panels))
    return page(f"Training curves of {runs}", f"<main>\n{figures}\n</main>", STYLE)


def _figure(panel: Panel) -> str:
    captions = [_caption(index, *curve) for index, curve in enumerate(panel.curves.items())]
    return f"""<figure>
<h2>{escape(panel.kind.title)}</h2>
{_chart(panel)}
<figcaption>{"<br />".join(captions)}</figcaption>
</figure>"""


def _caption(index: int, run: str, points: Points) -> str:
    finite = [value for value in points.values() if math.isfinite(value)]
    said = "nothing finite logged" if points else "nothing logged"
    if finite:
        step, value = list(points.items())[-1]
        said = f"{brief(min(finite))} to {brief(max(finite))}; {brief(value)} at step {step:,}"
    swatch = f'<svg style="width: 1.5rem" viewBox="0 0 24 8">{_path(index, "M2 4H22")}</svg>'
    return f"{swatch} {escape(run)}: {said}"


def _chart(panel: Panel) -> str:
    elements = [*_grid(panel)]
    for index, points in enumerate(panel.curves.values()):
        elements += _curve(panel, index, points)
    title = f"<title>{escape(panel.kind.title)}</title>"
    return "\n".join(
        [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{title}', *elements, "</svg>"]
    )


def _grid(panel: Panel) -> Iterator[str]:
    for tick in panel.steps.ticks(whole=True):
        x, _ = _place(panel, tick, panel.values.low)
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{BOTTOM}" />'
        yield f'<text x="{x:.1f}" y="{BOTTOM + 16}" text-anchor="middle">{number(tick)}</text>'
    for tick in panel.values.ticks():
        _, y = _place(panel, panel.steps.low, tick)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}" />'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>'
    for place, name in (
        (f"translate({(LEFT + RIGHT) / 2} {HEIGHT - 8})", "optimizer step"),
        (f"translate(12 {(TOP + BOTTOM) / 2}) rotate(-90)", panel.kind.unit),
    ):
        yield f'<text transform="{place}" text-anchor="middle">{escape(name)}</text>'


def _curve(panel: Panel, index: int, points: Points) -> Iterator[str]:
    if panel.kind.smooth:
        yield _path(index, _line(panel, points), "curve raw")
        points = smoothed(points)
    yield _path(index, _line(panel, points))
    if panel.marked(points):
        yield f'<g fill="{stroke(index)[0]}">'
        for step, value in points.items():
            if math.isfinite(value):
                said = f"<title>{brief(value)} at step {step:,}</title>"
                x, y = _place(panel, step, value)
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3">{said}</circle>'
        yield "</g>"


def _line(panel: Panel, points: Points) -> str:
    """With a gap where a value is not finite; a value between two gaps is a dot."""
    line, drawing = [], False
    for step, value in points.items():
        if math.isfinite(value):
            x, y = _place(panel, step, value)
            line.append(f"L{x:.1f} {y:.1f}" if drawing else f"M{x:.1f} {y:.1f}h0")
        drawing = math.isfinite(value)
    return "".join(line)


def _path(index: int, line: str, style: str = "curve") -> str:
    colour, dash = stroke(index)
    dashes = f' stroke-dasharray="{" ".join(map(str, dash))}"' if dash else ""
    return f'<path class="{style}" stroke="{colour}"{dashes} d="{line}" />'


def _place(panel: Panel, step: float, value: float) -> tuple[float, float]:
    x = LEFT + panel.steps.share(step) * (RIGHT - LEFT)
    return x, BOTTOM - panel.values.share(value) * (BOTTOM - TOP)
