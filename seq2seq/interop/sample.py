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
    """Up to 20 random tokens a side, if the model takes so many."""
    rng = random.Random(1)
    most = min(20, longest_of(exported))

    def tokens(subwords: Subwords) -> list[int]:
        return rng.choices(range(4, len(subwords)), k=rng.randint(1, most))

    return [
        Example(number, tokens(exported.src_subwords), tokens(exported.tgt_subwords))
        for number in range(1, count + 1)
    ]


def of_text(
    lines: Sequence[str], references: Sequence[str] | None, count: int, exported: Exported
) -> list[Example]:
    """The first lines that are not blank and that the exported model takes, with their
    translations; up to `count`."""
    longest, invented = longest_of(exported), made_up(count, exported)
    found: list[Example] = []
    for place, line in enumerate(lines):
        if len(found) == count:
            break
        example = replace(
            invented[len(found)], number=place + 1, src=exported.src_subwords.encode(line)
        )
        if references is not None:
            tgt = exported.tgt_subwords.encode(references[place])
            example = replace(example, tgt=tgt, reference=references[place])
        if example.src and max(len(example.src), len(example.tgt)) <= longest:
            found.append(example)
    return found


def longest_of(exported: Exported) -> int:
    """Most tokens of a sentence that the model takes, the end token not counted."""
    return (exported.about.max_length or sys.maxsize) - 1
