"""A picture of heat maps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from seq2seq.reports.heat_maps import KEY, Example, Weights
from seq2seq.reports.picture import Typeface, typeface_for

GAP, KEY_WIDTH = 0.3, 8.5
"""Inches between maps, and those that the line above them takes."""


class Labels(NamedTuple):
    """The subwords of one side."""

    texts: list[str]
    longest: float
    """In multiples of the letters' size."""


@dataclass(frozen=True)
class HeatMap:
    """Weights as squares; rows are the target's subwords, columns the source's. In inches."""

    title: str
    weights: Weights
    src: Labels
    tgt: Labels
    square: float

    @property
    def letters(self) -> float:
        """Their size."""
        return 0.6 * self.square

    @property
    def beside(self) -> float:
        """Room for the labels of the rows."""
        return self.tgt.longest * self.letters + self.square

    @property
    def above(self) -> float:
        """Room for the title and the labels of the columns."""
        return self.src.longest * self.letters + 2 * self.square

    @property
    def width(self) -> float:
        return self.beside + self.square * len(self.src.texts)

    @property
    def height(self) -> float:
        return self.above + self.square * len(self.tgt.texts)


def attention_figure(examples: Sequence[Example]) -> tuple[Figure, frozenset[str]]:
    """The figure, and the characters that stand as code points since no installed font has them.

    Each example is the mean, then a row of heads for each layer."""
    labels = [label for example in examples for label in (*example.src, *example.tgt)]
    typeface = typeface_for(labels)
    rows = [
        row for n, example in enumerate(examples, start=1) for row in _rows(n, example, typeface)
    ]  # the maps of a row are equally large
    width = GAP + max(KEY_WIDTH, *(len(row) * (row[0].width + GAP) for row in rows))
    height = 2 * GAP + sum(row[0].height + GAP for row in rows)
    figure, top = Figure(figsize=(width, height)), 2 * GAP
    figure.text(GAP / width, 1 - GAP / height, f"{KEY}: 0 is white, 1 is dark blue", size=7)
    for row in rows:
        for n, each in enumerate(row):
            _draw_map(figure, each, GAP + n * (each.width + GAP), top, typeface)
        top += row[0].height + GAP
    return figure, typeface.missing


def _rows(number: int, example: Example, typeface: Typeface) -> Iterator[list[HeatMap]]:
    """The mean, then the heads of each layer."""
    src, tgt = (_labels(side, typeface) for side in (example.src, example.tgt))
    (mean,), *layers = example.maps
    yield [HeatMap(f"{number}. {mean[0]}", mean[1], src, tgt, square=0.2)]
    for layer in layers:
        yield [HeatMap(*each, src, tgt, square=0.12) for each in layer]


def _labels(subwords: Sequence[str], typeface: Typeface) -> Labels:
    texts = list(map(typeface.spelled, subwords))
    return Labels(texts, max(map(typeface.width, texts)))


def _draw_map(figure: Figure, each: HeatMap, left: float, top: float, typeface: Typeface) -> None:
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        (
            (left + each.beside) / width,
            1 - (top + each.height) / height,
            (each.width - each.beside) / width,
            (each.height - each.above) / height,
        )
    )
    axes.imshow(each.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    points = each.letters * 72
    style: dict[str, Any] = {"size": points, "family": typeface.fonts, "parse_math": False}
    axes.set_xticks(range(len(each.src.texts)), each.src.texts, rotation=90, **style)
    axes.set_yticks(range(len(each.tgt.texts)), each.tgt.texts, **style)
    axes.set_title(each.title, size=points, loc="left")
