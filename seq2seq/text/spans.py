"""Parts of a sentence that no translation should touch: addresses, tags, numbers, placeholders.

A new kind is one pattern: one line in KINDS. Where a pattern failed, it must not begin again at
every place inside, or must end after a bound: so time grows only as the length of a line. None
repeats a group possessively, as (...)*+ does: Python before 3.11.5 then matches too much.
"""

import re
from bisect import bisect
from collections.abc import Collection
from typing import NamedTuple

# What neither a URL nor a sentence's end in it holds: space, brackets, quotes, CJK punctuation.
_STOP = r"\s()<>\[\]{}\"“”„«»\u2018\u2019`|\\\u3000-\u303f\uff00-\uff20\uff3b-\uff40\uff5b-\uff65"
_ROUND = rf"\([^{_STOP}]*\)"
_SCHEME = r"\b[A-Za-z][A-Za-z0-9+.-]{0,31}://"
_LEFT = r"(?:(?<!\w)[$€£¥]\s?|(?<![\w.,])(?<!\d[:/])[+\u2212-]?)"
_UNITS = (
    r"km/h|m/s|[kcdmµμn]?m[²³2]?|[kmµμ]?g|[kcdm]?l|[mµμn]?s|[kMGTm]?(?:W|V|J|Pa|Hz|Wh)|"
    r"[kMGT]i?[Bb]|mA|mph|ft|mi|lbs?|oz|min|h|px|dpi|°[CF]?|[%‰€$£¥]|USD|EUR|GBP|CHF"
)

_PERCENT = r"%(?:(?:\d+\$|\(\w+\))?[-+#0]*+\d*+(?:\.\d+)?(?:hh?|ll?|z)?[diouxXeEfgGcsp@]|\d{1,2})"
_BRACES = r"[$%#]?(?:\{[\w.:]*\}|\{\{[\w.:]*\}\})"

KINDS = {
    # name    what it looks like
    "url": rf"(?:{_SCHEME}|\bwww\.)(?:{_ROUND}|[^{_STOP}])*(?:{_ROUND}|[^{_STOP}.,;:!?'])",
    "email": r"(?<![\w.+-])\w[\w.+-]*@\w[\w-]*(?:\.\w[\w-]*)+",
    "tag": r"</?[A-Za-z_][\w:.-]*(?:\s[^<>]*)?/?>",
    "number": rf"{_LEFT}\d++(?:[.,:/]\d++)*(?![.,:/]\d)(?:\s?(?:{_UNITS}))?(?!\w)",
    "placeholder": rf"(?<![\d%]){_PERCENT}(?![A-Za-z\d])|{_BRACES}",
}  # fmt: skip


class Span(NamedTuple):
    """text is sentence[start:end]."""

    start: int
    end: int
    text: str


def find_spans(sentence: str, kinds: Collection[str]) -> list[Span]:
    """Those of these kinds, in order; of two that overlap the longer one, of equals the first."""
    found = [
        Span(*match.span(), match[0])
        for kind in kinds
        for match in re.finditer(KINDS[kind], sentence)
    ]
    found.sort(key=lambda span: (span.start - span.end, span.start))
    kept: list[Span] = []
    for span in found:
        place = bisect(kept, span)
        if all(
            span.end <= other.start or other.end <= span.start
            for other in kept[max(place - 1, 0) : place + 1]
        ):
            kept.insert(place, span)
    return kept
