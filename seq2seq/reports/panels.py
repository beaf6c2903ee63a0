"""What a run has logged, arranged for drawing: a panel for each number, a curve for each run."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import NamedTuple

Points = Mapping[int, float]
"""Optimizer steps done -> what was logged then; steps ascend."""

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
"""Told apart by the colour-blind (Okabe and Ito 2008), and visible on white and on black."""
DASHES = [(), (5, 2), (1, 2)]
"""Lengths drawn and left out, for more runs than colours."""


def stroke(run: int) -> tuple[str, tuple[int, ...]]:
    """Colour and dash of the run of this index."""
    return COLOURS[run % len(COLOURS)], DASHES[run // len(COLOURS) % len(DASHES)]


class Kind(NamedTuple):
    """How a number is drawn."""

    title: str
    unit: str
    log: bool = False
    """On a logarithmic axis."""
    smooth: bool = False
    """Noisy, so the mean with neighbours is drawn over it."""


KINDS = {
    "loss": Kind("Training loss", "nats per target token", smooth=True),
    "val_bleu": Kind("Validation BLEU", "BLEU"),
    "val_ppl": Kind("Validation perplexity", "perplexity per target token", log=True),
    "val_source_gain": Kind("Loss with the sources of others, minus loss", "nats per target token"),
    "lr": Kind("Learning rate", "learning rate"),
    "grad_norm": Kind("Gradient norm", "norm before clipping", log=True, smooth=True),
    "tokens_per_second": Kind("Speed", "target tokens per second", smooth=True),
    "padding": Kind("Padding", "share of positions", smooth=True),
}
"""Numbers in the order of their panels; others follow under their own names."""


class Axis(NamedTuple):
    """A range of numbers, on a line from 0 to 1."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Where the value stands: 0 at the low end, 1 at the high one."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Three to ten round numbers of the range; fewer if it has no more whole ones."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            powers = range(first, last, 1 + (last - first) // 10)
            for ticks in (
                [factor * 10.0**n for n in powers for factor in (1, 2, 5)],
                [10.0**n for n in powers],
            ):
                inside = [tick for tick in ticks if self.low <= tick <= self.high]
                if 3 <= len(inside) <= 10:
                    return inside
        magnitude = 10.0 ** math.floor(math.log10(self.high - self.low))
        for step in (magnitude * factor for factor in (2, 1, 0.5, 0.2, 0.1)):
            step = max(step, 1) if whole else step
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            if last - first >= 3:
                break
        return [n * step for n in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One number against the optimizer step."""

    kind: Kind
    curves: Mapping[str, Points]
    """Run -> points, none where the run has not logged it."""
    steps: Axis
    """All steps of all runs, the same for every panel."""

    @cached_property
    def values(self) -> Axis:
        """The axis of the number."""
        values = chain.from_iterable(points.values() for points in self.curves.values())
        return _axis(values, log=self.kind.log)

    @property
    def empty(self) -> bool:
        """Whether nothing can be drawn, because no number is finite."""
        values = chain.from_iterable(points.values() for points in self.curves.values())
        return not any(map(math.isfinite, values))

    def marked(self, points: Points) -> bool:
        """Are there so few points that each is marked? Means of neighbours were not logged, so they
        are not marked, except a lone one, which would not be seen."""
        return len(points) <= (1 if self.kind.smooth else 50)


def panels(logs: Mapping[str, Mapping[str, Points]]) -> list[Panel]:
    """`logs`: run -> name of a number -> points."""
    logged = set(chain.from_iterable(logs.values()))
    all_points = chain.from_iterable(log.values() for log in logs.values())
    steps = _axis(chain.from_iterable(all_points), log=False)
    names = [name for name in KINDS if name in logged] + sorted(logged - KINDS.keys())
    return [
        Panel(
            kind=KINDS.get(name, Kind(name, name)),
            curves={run: log.get(name, {}) for run, log in logs.items()},
            steps=steps,
        )
        for name in names
    ]


def smoothed(points: Points) -> Points:
    """Each value's mean with its neighbours, a fortieth of the points on either side; in the
    steep beginning as many after it as there are before it. What is not finite stays, and counts
    for no other."""
    values = list(points.values())
    sums = [0.0, *accumulate(value if math.isfinite(value) else 0.0 for value in values)]
    counts = [0, *accumulate(int(math.isfinite(value)) for value in values)]
    means = {}
    for index, (step, value) in enumerate(points.items()):
        reach = min(len(values) // 40, index)
        start, end = index - reach, min(index + reach + 1, len(values))
        mean = (sums[end] - sums[start]) / max(counts[end] - counts[start], 1)
        means[step] = mean if math.isfinite(value) else value
    return means


def number(value: float) -> str:
    """For an axis."""
    return f"{value:,.10g}"


def brief(value: float) -> str:
    """For a sentence: four digits, and all those before the point."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def _axis(values: Iterable[float], *, log: bool) -> Axis:
    """Around all finite values, with a little room."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    if log and low > 0:
        room = max((high / low) ** 0.04, 1.01)
        return Axis(low / room, high * room, log=True)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return Axis(low - room, high + room)
