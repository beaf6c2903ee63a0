"""Where words begin and end, in scripts with spaces between words and in those without."""

import re
import unicodedata
from functools import cache

from seq2seq.text.scripts import UNSPACED

SPACED = frozenset(".,:;!?…%)]}»”")
"""After these a word has a space before it."""


@cache
def in_words(character: str) -> bool:
    """Letters, digits, their marks and _ make words, but for scripts without spaces: there every
    character stands for itself. No character, "", is in no word."""
    if character != "_" and unicodedata.category(character or " ")[0] not in "LMN":
        return False
    return UNSPACED.isdisjoint(re.split("[ -]", unicodedata.name(character, ""))[:2])


def cuts(text: str) -> list[int]:
    """Every position, both ends too, that is not inside a word."""
    inside = [False, *map(in_words, text), False]
    return [at for at in range(len(text) + 1) if not (inside[at] and inside[at + 1])]
