"""Make a line safe for the subword model, without changing what it says."""

import re
import unicodedata
from functools import cache

# C0 and C1 controls (tab, carriage return, NUL ...) and the byte-order mark.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff]")
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Controls become spaces, lone surrogates U+FFFD; white space at both ends goes.

    U+2028 and other separators inside a line are text and stay.
    """
    return _LONE_SURROGATES.sub("\ufffd", _CONTROLS.sub(" ", text)).strip()


def fold(sentence: str) -> str:
    """The letters, vowel signs and digits alone, in one case and one Unicode spelling (NFKC)."""
    spelled = unicodedata.normalize("NFKC", sentence)  # first, since ℃ becomes °C
    spelled = unicodedata.normalize("NFKC", spelled.casefold())
    return "".join(filter(_is_said, spelled))


@cache
def _is_said(character: str) -> bool:
    """Vowel signs are kept, accents are not. Accents have a combining class; a few vowel signs (of
    Thai, Lao, Tibetan) have one, too, and are known by their names. Variation selectors and
    enclosing marks only change how a character is drawn."""
    if unicodedata.category(character) not in ("Mc", "Mn"):
        return character.isalnum()
    name = unicodedata.name(character, "")
    if unicodedata.combining(character):
        return "VOWEL SIGN" in name or "THAI CHARACTER SARA" in name
    return "VARIATION" not in name


def shortened(text: str, longest: int = 80) -> str:
    """For a line on the terminal: cleaned, no line separators, an ellipsis for what is too long."""
    text = clean(text).replace("\u2028", " ").replace("\u2029", " ")
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
