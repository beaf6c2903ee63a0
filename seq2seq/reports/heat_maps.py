"""Where the decoder looked in the source while it said a translation, arranged for drawing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

Weights = Sequence[Sequence[float]]
"""T rows of S numbers: how much the choice of each target subword looked at each source subword."""

KEY = (
    "How much the choice of each subword of the translation (row) looked at each subword of the "
    "sentence (column)"
)


@dataclass(frozen=True)
class Example:
    """A sentence, a translation, and what the decoder looked at."""

    source: str
    translation: str
    src: Sequence[str]
    """S subwords."""
    tgt: Sequence[str]
    """T subwords."""
    heads: Sequence[Sequence[Weights]]
    """By layer and head."""

    @property
    def maps(self) -> Iterator[list[tuple[str, Weights]]]:
        """Row by row, each with a title: the mean of all heads, then the heads of each layer."""
        flat = list(chain.from_iterable(self.heads))
        mean = [
            [sum(cells) / len(flat) for cells in zip(*rows, strict=True)]
            for rows in zip(*flat, strict=True)
        ]
        yield [(f"mean of {len(flat)} heads", mean)]
        for layer, heads in enumerate(self.heads, start=1):
            yield [(f"layer {layer}, head {n}", each) for n, each in enumerate(heads, start=1)]
