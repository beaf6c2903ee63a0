"""A line that is too long becomes pieces, and what was made of them one line again."""

import re
import unicodedata
from collections.abc import Callable, Sequence

from seq2seq.text.scripts import script_of

# After a full stop and what closes around it if a space follows, or after a CJK one anywhere.
_SENTENCE_ENDS = re.compile(r"[.!?…]+[\"'»”’)\]]*(?=\s)|[。｡\uff01\uff1f]+[」』”’\uff09]*")
_SPACES = re.compile(r"\s")


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Pieces that fit, as long as they are more than one character each.

    What does not fit is cut in two as near to its middle as sentences end there, otherwise as there
    are spaces, otherwise in the middle. Nothing is lost but white space around cuts.
    """
    text = text.strip()
    if fits(text) or len(text) < 2:
        return [text]
    cut = _nearest_cut(text)
    return split(text[:cut], fits) + split(text[cut:], fits)


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
