"""A picture of training curves."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from seq2seq.reports.panels import COLOURS, Panel, number, smoothed, stroke
from seq2seq.reports.picture import typeface_for


def curves_figure(panels: Sequence[Panel]) -> Figure:
    """Two panels a row; above them the names of the runs."""
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(12, 3.4 * rows), layout="constrained")
    drawn = [
        _draw(panel, figure.add_subplot(rows, 2, place))
        for place, panel in enumerate(panels, start=1)
    ]
    typeface = typeface_for(panels[0].curves)
    legend = figure.legend(
        drawn[0],
        list(map(typeface.spelled, panels[0].curves)),
        loc="outside upper center",
        ncols=len(COLOURS),
        prop={"family": typeface.fonts},
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _draw(panel: Panel, axes: Axes) -> list[Line2D]:
    """A line for each run, over the paler one of its noisy numbers."""
    steps, values = panel.steps.ticks(whole=True), panel.values.ticks()
    axes.set_title(panel.kind.title)
    axes.set_yscale("log" if panel.values.log else "linear")
    axes.minorticks_off()
    axes.set_xticks(steps, list(map(number, steps)))
    axes.set_yticks(values, list(map(number, values)))
    axes.set_xlabel("optimizer step")
    axes.set_ylabel(panel.kind.unit)
    axes.grid(alpha=0.3)
    lines = []
    for index, points in enumerate(panel.curves.values()):
        colour, dash = stroke(index)
        style = (0, dash) if dash else "-"
        mark = "." if panel.marked(points) else ""
        if panel.kind.smooth:
            raw = list(points.values())
            axes.plot(list(points), raw, color=colour, linestyle=style, linewidth=0.8, alpha=0.4)
            points = smoothed(points)
        drawn = list(points.values())
        lines += axes.plot(list(points), drawn, color=colour, linestyle=style, marker=mark)
    if panel.empty:
        place = axes.transAxes
        axes.text(0.5, 0.5, "nothing finite logged", ha="center", va="center", transform=place)
    axes.set_xlim(panel.steps.low, panel.steps.high)
    axes.set_ylim(panel.values.low, panel.values.high)
    return lines
