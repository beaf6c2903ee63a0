"""What engines are compared on: sentences, each with a translation that is given."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seq2seq.interop.exported import Exported
from seq2seq.text.subwords import Subwords


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

    def tokens(subwords: Subwords) -> list[int]:
        return rng.choices(range(4, len(subwords)), k=rng.randint(1, 20))

    return [
        Example(number, tokens(exported.src_subwords), tokens(exported.tgt_subwords))
        for number in range(1, count + 1)
    ]


def of_text(
    lines: Sequence[str], references: Sequence[str] | None, exported: Exported
) -> list[Example]:
    """The lines that are not blank and that the exported model takes, with their translations."""
    longest = exported.about.max_length or sys.maxsize
    src = exported.src_subwords.encode_all(lines)
    found = [
        replace(example, src=ids)
        for example, ids in zip(made_up(len(lines), exported), src, strict=True)
    ]
    if references is not None:
        tgt = exported.tgt_subwords.encode_all(references)
        found = [
            replace(example, tgt=ids, reference=text)
            for example, ids, text in zip(found, tgt, references, strict=True)
        ]
    return [each for each in found if each.src and max(len(each.src), len(each.tgt)) < longest]
