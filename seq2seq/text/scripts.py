"""Which scripts a text is written in, and which ones a language uses.

A script is the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK (Han), HIRAGANA ...
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

Unit = Literal["words", "characters"]
JAPANESE = ("CJK", "HIRAGANA", "KATAKANA")
UNSPACED = frozenset([*JAPANESE, "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"])
"""Scripts that put no spaces between words."""

_LANGUAGES = {
    ("LATIN",): "af ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lt lv ms mt nb nl "
    "nn no pl pt ro sk sl sq sv sw tl tr vi",
    ("CYRILLIC",): "be bg kk ky mk ru tg uk",
    ("CYRILLIC", "LATIN"): "sr uz",
    ("CYRILLIC", "MONGOLIAN"): "mn",
    ("ARABIC",): "ar fa ps ur",
    ("DEVANAGARI",): "hi mr ne sa",
    JAPANESE: "ja",
    ("HANGUL", "CJK"): "ko",
    ("CJK",): "zh",
    ("GREEK",): "el",
    ("HEBREW",): "he yi",
    ("ARMENIAN",): "hy",
    ("GEORGIAN",): "ka",
    ("ETHIOPIC",): "am",
    ("BENGALI",): "bn",
    ("GUJARATI",): "gu",
    ("GURMUKHI",): "pa",
    ("KANNADA",): "kn",
    ("MALAYALAM",): "ml",
    ("TAMIL",): "ta",
    ("TELUGU",): "te",
    ("SINHALA",): "si",
    ("THAI",): "th",
    ("LAO",): "lo",
    ("KHMER",): "km",
    ("MYANMAR",): "my",
    ("TIBETAN",): "bo",
}
_SCRIPTS = {code: scripts for scripts, codes in _LANGUAGES.items() for code in codes.split()}
# Letters of no script: signs (micro, ordinals, mathematical), marks shared by several scripts.
_COMMON = frozenset(
    [
        "MICRO",
        "FEMININE",
        "MASCULINE",
        "MODIFIER",
        "MATHEMATICAL",
        "SCRIPT",
        "DOUBLE-STRUCK",
        "BLACK-LETTER",
        "PLANCK",
        "INFORMATION",
        "KELVIN",
        "ANGSTROM",
        "OHM",
        "ALEF",
        "BET",
        "GIMEL",
        "DALET",
        "TURNED",
        "IDEOGRAPHIC",
        "KATAKANA-HIRAGANA",
    ]
)


def language_of(code: str) -> str:
    """zh of "zh-TW", "zh_CN" and "ZH"."""
    return re.split("[-_]", code.lower())[0]


def may_be_same_languages(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each of some codes may name the language of the one in its place among others: so may
    two letters (ISO 639-1) and three (639-3), which only a long table could compare."""
    pairs = zip(map(language_of, some), map(language_of, others), strict=True)
    return all(one == other or {len(one), len(other)} == {2, 3} for one, other in pairs)


def scripts_of_language(code: str) -> frozenset[str]:
    """Of a code such as "ja" or "zh-TW"; empty where this table does not know it."""
    return frozenset(_SCRIPTS.get(language_of(code), ()))


@cache
def script_of(character: str) -> str:
    """Of a letter; "" of anything else."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    words = unicodedata.name(character, "").split() or [""]
    width = words[0] in ("FULLWIDTH", "HALFWIDTH")
    script = words[1] if width else words[0]
    return "" if script in _COMMON else script


def scripts_in(text: str) -> Counter[str]:
    """Script -> number of its letters."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of(character):
            counts[script] += count
    return counts


def mostly_unspaced(letters: Counter[str]) -> bool:
    """Whether most letters, counted by script, are of scripts without spaces between words."""
    return sum(letters[script] for script in UNSPACED) * 2 > letters.total()


def has_words(texts: Iterable[str]) -> bool:
    """Whether texts of an unspaced script were split into words: they are about two long."""
    words = [word for text in texts for word in text.split()]
    return sum(map(len, words)) < 4 * len(words)


def unit_of(letters: Counter[str], texts: Iterable[str]) -> Unit:
    """What lengths of texts with these letters, counted by script, are in: characters where words
    are not spaced."""
    return "characters" if mostly_unspaced(letters) and not has_words(texts) else "words"


def length_in(unit: Unit, text: str) -> int:
    """White space is no character."""
    words = text.split()
    return len(words) if unit == "words" else sum(map(len, words))
