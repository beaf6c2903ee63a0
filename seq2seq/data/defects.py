"""What can be wrong with one pair: one small function a rule, all of them in RULES.

`seq2seq inspect` counts the pairs that a rule finds, `seq2seq clean` rejects them. Rules see the
text as it stands in the file; a byte that is not UTF-8 is a lone surrogate there.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from seq2seq.data.corpus import Pair
from seq2seq.data.formats import NoPair
from seq2seq.data.normal import Normal
from seq2seq.text.normalize import clean
from seq2seq.text.scripts import scripts_in

ALWAYS, NEVER = 0.0, 1.0
"""Shares of pairs above which a finding gets graver: with the first pair, and with none."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A defect, how to see it, and from which share of the pairs on it matters."""

    says: str
    found_in: Callable[[Pair, Normal], bool]
    warns_above: float = ALWAYS
    spoils_above: float = NEVER
    spoils_evaluation_above: float = NEVER


def undecodable(pair: Pair, normal: Normal) -> bool:
    return any(_BYTES.search(text) is not None for text in pair if not text.isascii())


def malformed(pair: Pair, normal: Normal) -> bool:
    return isinstance(pair, NoPair)


def empty(pair: Pair, normal: Normal) -> bool:
    return not pair.full


def controls(pair: Pair, normal: Normal) -> bool:
    """A carriage return at the very end is left alone: it is how other systems end a line; so is a
    byte-order mark at the beginning, with which they begin a file."""
    texts = (text.removeprefix("\ufeff").removesuffix("\r") for text in pair)
    return any(_CONTROLS.search(text) is not None for text in texts)


def mojibake(pair: Pair, normal: Normal) -> bool:
    return any(_MOJIBAKE.search(text) is not None for text in pair if not text.isascii())


def script(pair: Pair, normal: Normal) -> bool:
    return _strange(pair.src, normal.src.scripts) or _strange(pair.tgt, normal.tgt.scripts)


def identical(pair: Pair, normal: Normal) -> bool:
    """Numbers and signs alone may well be the same in both languages."""
    src = clean(pair.src)
    return src == clean(pair.tgt) and any(map(str.isalpha, src))


def swapped(pair: Pair, normal: Normal) -> bool:
    return normal.languages.of_pair(*pair) == (-1, 1)


def untranslated(pair: Pair, normal: Normal) -> bool:
    return normal.languages.of_pair(*pair) in ((1, 1), (-1, -1))


def long(pair: Pair, normal: Normal) -> bool:
    longest = max(normal.src.length(pair.src), normal.tgt.length(pair.tgt))
    return longest > normal.limits.max_words


def ratio(pair: Pair, normal: Normal) -> bool:
    return normal.length_ratio(pair) > normal.limits.max_ratio


def markup(pair: Pair, normal: Normal) -> bool:
    return any(_MARKUP.search(text) is not None for text in pair)


RULES: dict[str, Rule] = {
    "undecodable": Rule(
        says="bytes that are not UTF-8",
        found_in=undecodable,
        spoils_above=ALWAYS,
        spoils_evaluation_above=ALWAYS,
    ),
    "malformed": Rule(
        says="a line or row that is no pair, with which training ends",
        found_in=malformed,
        spoils_above=ALWAYS,
        spoils_evaluation_above=ALWAYS,
    ),
    "empty": Rule(says="a side without text", found_in=empty, spoils_evaluation_above=ALWAYS),
    "controls": Rule(
        says="control characters, or separators such as U+2028 where some tools end a line",
        found_in=controls,
    ),
    "mojibake": Rule(
        says="text decoded wrongly before it came here, or U+FFFD in its place",
        found_in=mojibake,
        spoils_above=0.1,
        spoils_evaluation_above=0.01,
    ),
    "script": Rule(
        says="a script that does not belong to its side",
        found_in=script,
        spoils_above=0.1,
        spoils_evaluation_above=0.05,
    ),
    "identical": Rule(
        says="both sides are the same text",
        found_in=identical,
        warns_above=0.01,
        spoils_above=0.5,
        spoils_evaluation_above=0.1,
    ),
    "swapped": Rule(
        says="each side is in the other side's language",
        found_in=swapped,
        spoils_above=0.05,
        spoils_evaluation_above=0.05,
    ),
    "untranslated": Rule(
        says="both sides are in one language",
        found_in=untranslated,
        spoils_above=0.2,
        spoils_evaluation_above=0.05,
    ),
    "long": Rule(says="a side is too long (--max-words)", found_in=long),
    "ratio": Rule(says="one side is much longer than the other (--max-ratio)", found_in=ratio),
    "markup": Rule(says="HTML tags or entities", found_in=markup, warns_above=NEVER),
}
"""Gravest first; a pair with one of the first three defects is asked nothing else."""


def defects(pair: Pair, normal: Normal) -> list[str]:
    """Names of the rules that find something in this pair."""
    found = []
    for name, rule in RULES.items():
        if rule.found_in(pair, normal):
            found.append(name)
            if name in ("undecodable", "malformed", "empty"):
                break
    return found


def _strange(text: str, scripts: frozenset[str]) -> bool:
    """No letter is of `scripts`, or a third are of other ones; Latin names and brands may stand
    in any text."""
    if not scripts or ("LATIN" in scripts and text.isascii()):
        return False
    letters = scripts_in(text)
    own = sum(letters[script] for script in scripts)
    foreign = letters.total() - own
    strange = foreign - (0 if "LATIN" in scripts else letters["LATIN"])
    return foreign > 0 and (own == 0 or strange * 3 > letters.total())


_BYTES = re.compile(r"[\udc80-\udcff]")
# C0 and C1 controls, the byte-order mark, and the two Unicode separators of lines.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
# A UTF-8 sequence read as Latin-1 or Windows-1252. Some letters that could begin one are common
# before a closing quotation mark, so they count only twice in a row, or (sharp s ...) not at all;
# those with a tilde or circumflex end words in capitals, where they count before a letter only.
_REST = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"  # noqa: RUF001
_MOJIBAKE = re.compile(
    rf"\ufffd|[ÂÃ](?![”’…–—])[{_REST}]|(?<![A-ZÀ-ÞĐ])[ÂÃ][”’…–—]|[ÂÃ][”’…–—](?=\w)"
    rf"|â[€\x80][{_REST}]|ï»¿|(?:[ÄÅÎÏÐÑ][{_REST}]){{2}}"
)
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9A-Fa-f]+);")
