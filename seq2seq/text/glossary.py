"""A user's glossary: how terms of the source are to be called in translations."""

from collections.abc import Iterable, Sequence
from unicodedata import normalize

from seq2seq.errors import ConfigError
from seq2seq.text.normalize import clean
from seq2seq.text.spans import Span
from seq2seq.text.words import cuts


class Glossary:
    """Source term -> target term, both as they are written.

    A source term in lower case is found in any case, one with a capital only as it is written. In
    both kinds an accent may be a separate character, and a space several spaces, or a no-break one.
    """

    def __init__(self, terms: dict[str, str]) -> None:
        self.terms = {_spelled(src): tgt for src, tgt in terms.items()}
        # An accent of its own may be a place where a term could end: Japanese has such.
        self._most = max((len(_places(normalize("NFD", src))) for src in terms), default=0)

    @classmethod
    def parse(cls, lines: Iterable[str], name: str) -> "Glossary":
        """Lines of SOURCE TAB TARGET; blank ones are skipped. `name` is told in errors."""
        terms: dict[str, str] = {}
        seen: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            if not clean(line):
                continue
            columns = [clean(column) for column in line.split("\t")]
            if len(columns) != 2:
                raise ConfigError(
                    f"{name} line {number} has {len(columns)} columns; a glossary has two, source "
                    f"term TAB target term."
                )
            src, tgt = _spelled(columns[0]), columns[1]
            if not src or not tgt:
                side = "target" if src else "source"
                raise ConfigError(f"{name} line {number}: the {side} term is empty.")
            if terms.get(src, tgt) != tgt:
                raise ConfigError(
                    f"{name} line {number}: {src!r} is {tgt!r} here but {terms[src]!r} in line "
                    f"{seen[src]}; keep one of them."
                )
            terms[src] = tgt
            seen.setdefault(src, number)
        return cls(terms)

    def targets(self, sentence: str, protected: Sequence[Span] = ()) -> list[tuple[int, str]]:
        """Where each source term begins in the sentence, and its target term, in order.

        Whole words only; from left to right the longest, and none that touches a protected span.
        """
        taken = {at for span in protected for at in range(span.start, span.end)}
        found, places, done = [], _places(sentence), 0
        for number, start in enumerate(places):
            if start < done or sentence[start : start + 1].isspace():
                continue
            ends = places[number + 1 : number + self._most]
            for end in reversed(ends):
                target = self._target(sentence[start:end])
                if target and taken.isdisjoint(range(start, end)):
                    found.append((start, target))
                    done = end
                    break
        return found

    def _target(self, words: str) -> str | None:
        words = _spelled(words)
        return self.terms.get(words, self.terms.get(words.lower()))


def _spelled(words: str) -> str:
    """As terms are compared."""
    return " ".join(normalize("NFC", words).split())


def _places(text: str) -> list[int]:
    """Where a term could begin or end: as many places, whatever the length of its spaces."""
    return [at for at in cuts(text) if not text[max(at - 1, 0) : at + 1].isspace()]
