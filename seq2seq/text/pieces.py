"""A line that is too long becomes pieces, and what was made of them one line again."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq.text.scripts import script_of

# After a full stop and what closes around it if a space follows, or after a CJK one anywhere. A run
# of full stops is looked at once, not from each of its places.
_SENTENCE_ENDS = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'»”’)\]]*+(?=\s)|[。｡\uff01\uff1f]+[」』”’\uff09]*"
)
_SPACES = re.compile(r"\s")
# As converted OPUS-MT models read it, >>fra<<, or as in Johnson et al. (2017), <2fr>.
_LANGUAGE_TAG = re.compile(r"\s*(?:>>[^\s<>]+<<|<2[^\s<>]+>)\s+(?=\S)")


class Piece(NamedTuple):
    """Of a text that was split."""

    start: int
    """Where it begins in the whole text, by character."""
    text: str
    """With the language tag of the whole text before it, if that has one."""


def split(text: str, fits: Callable[[str], bool]) -> list[Piece]:
    """Pieces that fit, as long as they are more than one character each.

    What does not fit is cut in two as near to its middle as sentences end there, otherwise as there
    are spaces, otherwise in the middle. Nothing is lost but white space around cuts, and a language
    tag at the beginning is put before every piece.
    """
    start = len(language_tag(text))
    tag = text[:start].lstrip()
    pieces = _split(text[start:], start, lambda piece: fits(tag + piece))
    return [Piece(start, tag + piece) for start, piece in pieces]


def language_tag(text: str) -> str:
    """What tells a model at the beginning of a text which language it should answer in, with the
    spaces around it; "" where nothing does."""
    found = _LANGUAGE_TAG.match(text)
    return found.group() if found else ""


def _split(text: str, start: int, fits: Callable[[str], bool]) -> list[Piece]:
    start += len(text) - len(text.lstrip())
    text = text.strip()
    if fits(text) or len(text) < 2:
        return [Piece(start, text)]
    cut = _nearest_cut(text)
    return _split(text[:cut], start, fits) + _split(text[cut:], start + cut, fits)


def _nearest_cut(text: str) -> int:
    middle = len(text) // 2
    for ends in (_SENTENCE_ENDS, _SPACES):
        cuts = [found.end() for found in ends.finditer(text) if found.end() < len(text)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return middle


def join(pieces: Sequence[str]) -> str:
    """With spaces, except next to letters and full stops of Chinese and Japanese."""
    whole = ""
    for piece in filter(None, pieces):
        close = not whole or _stands_close(whole[-1]) or _stands_close(piece[0])
        whole += piece if close else f" {piece}"
    return whole


def _stands_close(character: str) -> bool:
    wide = unicodedata.east_asian_width(character) in "WF"
    said = unicodedata.category(character)[0] in "LP"  # no emoji
    return wide and said and script_of(character) != "HANGUL"
