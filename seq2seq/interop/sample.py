"""What engines are compared on: sentences, each with a translation that is given."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

from seq2seq.interop.exported import Exported


@dataclass(frozen=True)
class Example:
    """Ids are without special tokens."""

    number: int
    """Of the line, from 1."""
    src: Sequence[int]
    tgt: Sequence[int]
    """The given translation, or made-up tokens where there is none."""
    reference: str | None = None
    """Its text; None where there is none."""


def made_up(count: int, exported: Exported) -> list[Example]:
    """Up to 20 random tokens a side."""
    rng = random.Random(1)
    sizes = len(exported.src_subwords), len(exported.tgt_subwords)
    return [
        Example(number, *(rng.choices(range(4, size), k=rng.randint(1, 20)) for size in sizes))
        for number in range(1, count + 1)
    ]


def of_text(
    lines: Sequence[str], references: Sequence[str] | None, exported: Exported
) -> list[Example]:
    """The lines that are not blank and that the exported model takes, with their translations."""
    longest = exported.about.max_length
    src = exported.src_subwords.encode_all(lines)
    if references is None:
        tgt = [example.tgt for example in made_up(len(lines), exported)]
    else:
        tgt = exported.tgt_subwords.encode_all(references)
    texts = references or repeat(None)
    found = map(Example, range(1, len(src) + 1), src, tgt, texts)
    return [
        example
        for example in found
        if example.src and (longest is None or max(len(example.src), len(example.tgt)) < longest)
    ]
