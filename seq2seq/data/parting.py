"""Where two files stop translating each other line by line.

Translations have similar lengths and share numbers, names and the final sign. Every STEP lines a
block of both sides is compared as it stands and with one side shifted; the first block that a
shift fits clearly better lies behind the place, and the best cut before it is the place.
"""

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee
from statistics import fmean

STEP, BLOCK = 500, 300
SHIFTS = 20
"""Lines tried in both directions, besides the difference of the line counts itself."""
FARTHEST = 1000
"""A larger difference is not tried as a shift."""
NEAR = [shift for shift in range(-SHIFTS, SHIFTS + 1) if shift]
CLEARLY = 5.0
"""Standard errors by which a shift must fit better; 40 shifts are tried."""
RELATED = 3.0
"""Standard errors by which pairs differ from pairs made by chance."""
FEWEST = 8
"""Lines that can tell anything."""


@dataclass(frozen=True)
class Parting:
    """The guess: from `line` of the source on, line n fits line n + shift of the target.

    A shift of 0 says that the sides fit up to about `line`, and no shift is clear behind it.
    """

    line: int
    shift: int


@dataclass(frozen=True, slots=True)
class _Line:
    length: float
    words: frozenset[str]
    end: str


def find_parting(src: Iterable[str], tgt: Iterable[str], difference: int) -> Parting | None:
    """None where neither a shift nor none fits clearly; `difference` is target minus source lines.

    Holds 2 STEP + BLOCK + FARTHEST lines of each side at most.
    """
    shifts = list(NEAR)
    if SHIFTS < abs(difference) <= FARTHEST:
        shifts.append(difference)
    fitting = 0  # lines up to the end of the last block that fits as it stands
    for first, block in _blocks(src, tgt, shifts):
        if shift := block.better_shift():
            return Parting(first + block.cut(shift) + 1, shift)
        if block.fits():
            fitting = first + block.end
    if abs(difference) <= FARTHEST:
        # Too few lines may be left behind the place to decide the block.
        rest = _Block(block.src, block.tgt, block.cut(difference), block.end, [difference])
        if rest.better_shift():
            return Parting(first + rest.start + 1, difference)
    return Parting(fitting, 0) if fitting else None


def find_shifted(pairs: Iterable[tuple[str, str]]) -> list[Parting | None]:
    """For every STEP pairs the one shift that fits clearly better than none, if there is one, and
    from which line on."""
    one, other = tee(pairs)
    blocks = _blocks((pair[0] for pair in one), (pair[1] for pair in other), NEAR)
    return [
        Parting(first + block.cut(shift) + 1, shift) if (shift := block.only_shift()) else None
        for first, block in blocks
    ]


def related(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether sources fit their own targets clearly otherwise than targets drawn from all of them;
    where long lines go with short ones they fit them worse."""
    src, tgt = ([_features(pair[side]) for pair in pairs] for side in (0, 1))
    ratio = fmean(line.length for line in tgt) - fmean(line.length for line in src)
    drawn = random.Random(1).sample(tgt, len(tgt))
    gains = [
        _likeness(one, own, ratio) - _likeness(one, other, ratio)
        for one, own, other in zip(src, tgt, drawn, strict=True)
    ]
    return abs(_clarity(gains)) > RELATED


def _blocks(
    src: Iterable[str], tgt: Iterable[str], shifts: Sequence[int]
) -> Iterator[tuple[int, "_Block"]]:
    """One at least, and before each the line where its windows begin; the last one ends where the
    shorter side does."""
    reach = BLOCK + STEP + max(map(abs, shifts))
    sides = (map(_features, src), map(_features, tgt))
    windows: tuple[list[_Line], list[_Line]] = ([], [])
    first = start = 0  # line where both windows begin, and line in them where the block begins
    while True:
        for window, side in zip(windows, sides, strict=True):
            window += islice(side, start + reach - len(window))
        shorter = min(map(len, windows))
        at_end = shorter < start + reach
        place = max(0, shorter - BLOCK) if at_end else start
        yield first, _Block(*windows, place, shorter, shifts)
        if at_end:
            return
        for window in windows:
            del window[:start]
        first, start = first + start, STEP


def _features(line: str) -> _Line:
    words = frozenset(re.findall(r"\d+|[^\W\d_]{3,}", line.casefold()))
    end = line.strip()[-1:].translate(_ENDS)
    return _Line(math.log(len(line.strip()) + 5), words, end if end in "?!:;" else "")


_ENDS = str.maketrans("？！：；", "?!:;")  # noqa: RUF001


def _likeness(src: _Line, tgt: _Line, ratio: float) -> float:
    """How well two lines go together, about -1 to 2."""
    shared = min(2, len(src.words & tgt.words))
    return shared / 2 + (src.end == tgt.end) / 2 - abs(tgt.length - src.length - ratio)


class _Block:
    """BLOCK lines from `start` on, and how well they go together under any shift of the target."""

    def __init__(
        self, src: list[_Line], tgt: list[_Line], start: int, shorter: int, shifts: Sequence[int]
    ) -> None:
        self.src, self.tgt, self.start, self.end = src, tgt, start, min(start + BLOCK, shorter)
        lengths = [[line.length for line in side[start : self.end]] or [0.0] for side in (src, tgt)]
        self.ratio = fmean(lengths[1]) - fmean(lengths[0])
        both = zip(src[: self.end], tgt[: self.end], strict=True)
        self.unshifted = [_likeness(*lines, self.ratio) for lines in both]
        self.clarity = {
            shift: _clarity([self._gain(n, shift) for n in range(start, self.end)])
            for shift in shifts
        }

    def better_shift(self) -> int:
        """The shift that fits best if one fits clearly better than none, else 0."""
        best = max(self.clarity, key=self.clarity.__getitem__)
        return best if self.clarity[best] > CLEARLY else 0

    def only_shift(self) -> int:
        """The same if no other shift comes near; where long lines go with short ones, all do."""
        second, best = sorted(self.clarity.values())[-2:]
        return self.better_shift() if best - second > CLEARLY / 2 else 0

    def fits(self) -> bool:
        """Whether the lines fit better as they stand than shifted, over all shifts together."""
        return fmean(self.clarity.values()) < -CLEARLY / 2

    def cut(self, shift: int) -> int:
        """The line, up to the block's end, from which on the shift gains most."""
        total = best = 0.0
        place = self.end
        for n in range(self.end - 1, -1, -1):
            total += self._gain(n, shift)
            if total > best:
                best, place = total, n
        return place

    def _gain(self, n: int, shift: int) -> float:
        """What the shift gains at a line; nothing where it leads out of the file."""
        src, tgt = (n - shift, n) if shift < 0 else (n, n + shift)
        if src >= len(self.src) or tgt >= len(self.tgt):
            return 0.0
        return _likeness(self.src[src], self.tgt[tgt], self.ratio) - self.unshifted[n]


def _clarity(gains: list[float]) -> float:
    """The mean in standard errors; 0 where there are too few lines to tell."""
    if len(gains) < FEWEST:
        return 0.0
    mean = fmean(gains)
    variance = math.fsum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1)
    return mean / (math.sqrt(variance / len(gains)) + 1e-9)
