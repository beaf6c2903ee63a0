"""How long the sentences of one side are, in words or characters and in subwords."""

from collections import Counter

from seq2seq.data.findings import SideReport
from seq2seq.data.normal import Side
from seq2seq.text.subwords import Subwords

BARS = 20
"""Of a histogram of lengths; the last holds all that is longer."""


class SideCount:
    """Lengths and subwords of one side."""

    def __init__(self, side: Side, subwords: Subwords | None) -> None:
        self.side, self.subwords = side, subwords
        self.lengths: Counter[int] = Counter()
        self.pieces = self.unlearned = 0

    def add(self, text: str) -> None:
        self.lengths[self.side.length(text)] += 1
        if self.subwords is not None:
            ids = self.subwords.encode(text)
            self.pieces += len(ids)
            self.unlearned += sum(i in self.subwords.unlearned for i in ids)

    def unlearned_share(self) -> float:
        return self.unlearned / max(1, self.pieces)

    def report(self, lines: int) -> SideReport:
        units = sum(length * count for length, count in self.lengths.items())
        percentile99 = self._quantile(0.99)
        width = -(-max(1, percentile99) // (BARS - 1))
        bars = [0] * BARS
        for length, count in self.lengths.items():
            bars[min(BARS - 1, max(0, length - 1) // width)] += count
        longest = max(self.lengths, default=0)
        ends = [*range(width, BARS * width, width), max(BARS * width, longest)]
        return SideReport(
            lines=lines,
            unit=self.side.unit,
            mean=units / max(1, self.lengths.total()),
            median=self._quantile(0.5),
            percentile99=percentile99,
            longest=longest,
            histogram=list(zip(ends, bars, strict=True)),
            subwords_per_unit=None if self.subwords is None else self.pieces / max(1, units),
            unlearned_share=None if self.subwords is None else self.unlearned_share(),
        )

    def _quantile(self, share: float) -> int:
        """The least length that this share of the sentences does not exceed."""
        so_far, enough = 0, share * self.lengths.total()
        for length in sorted(self.lengths):
            so_far += self.lengths[length]
            if so_far >= enough:
                return length
        return 0
