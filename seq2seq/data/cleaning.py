"""Sort the pairs of a corpus into those that stay and those that a rule rejects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seq2seq.data.corpus import CorpusFiles, Languages, Pair
from seq2seq.data.defects import RULES
from seq2seq.data.lines import read_lines
from seq2seq.data.normal import LIMITS, Limits, Normal, learn_normal
from seq2seq.data.survey import Survey, Track, fingerprint, survey, whole_pairs
from seq2seq.errors import CorpusError
from seq2seq.text.normalize import clean, fold

DUPLICATE, OVERLAP = "duplicate", "overlap"
NAMES = [*RULES, DUPLICATE, OVERLAP]
"""Of all rules, in the order in which they are asked: the first that rejects a pair is named."""
DEFAULT = [name for name in NAMES if name != "markup"]
"""`overlap` rejects nothing unless there are sentences to hold the pairs against."""


class Verdict(NamedTuple):
    """A pair, and what became of it."""

    line: int
    """From 1."""
    pair: Pair
    rejected_by: str
    """A rule's name; "" if the pair stays."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What to clean, and by which rules."""

    files: CorpusFiles
    rules: Sequence[str]
    against: Sequence[str] = ()
    """Text files of evaluation sentences, of either language."""
    languages: Languages = ("", "")
    limits: Limits = LIMITS


def judge(cleaning: Cleaning, track: Track) -> Iterator[Verdict]:
    """Every pair of the corpus once, in order; it is read twice.

    Memory: 16 bytes at most for each pair, and some 100 for each evaluation sentence.
    """
    evaluation = frozenset(_folded_keys(cleaning.against))
    seen = survey(cleaning.files, cleaning.languages, track, "clean")
    if seen.src_lines != seen.tgt_lines:
        raise CorpusError(
            f"{cleaning.files}: the source has {seen.src_lines} lines but the target has "
            f"{seen.tgt_lines}; `seq2seq inspect` guesses where they part."
        )
    normal = learn_normal(seen.sample, cleaning.languages, cleaning.limits)
    judged = _Judge(cleaning.rules, normal, seen, evaluation)
    pairs = whole_pairs(cleaning.files, cleaning.languages)
    for line, pair in enumerate(track(pairs, "clean: sorting", seen.pairs), start=1):
        yield Verdict(line, pair, judged.rule(line, pair))


class _Judge:
    """The chosen rules, and what they remember."""

    def __init__(
        self, rules: Iterable[str], normal: Normal, seen: Survey, evaluation: frozenset[int]
    ) -> None:
        self.rules = [name for name in NAMES if name in set(rules)]
        self.normal, self.repeated, self.evaluation = normal, seen.repeated, evaluation

    def rule(self, line: int, pair: Pair) -> str:
        """The first rule that rejects the pair; "" if none does."""
        key = fingerprint(*pair)
        for name in self.rules:
            if name == DUPLICATE:
                rejects = bool(self.repeated.line(key))
            elif name == OVERLAP:
                rejects = any(folded in self.evaluation for folded in _keys(pair))
            else:
                rejects = RULES[name].found_in(pair, self.normal)
            if rejects:
                return name
        self.repeated.keep(key, line)
        return ""


def _folded_keys(paths: Iterable[str]) -> Iterator[int]:
    for path in paths:
        yield from _keys(read_lines(path, errors="surrogateescape"))


def _keys(texts: Iterable[str]) -> Iterator[int]:
    """Fingerprints after folding; a text without a letter or digit stands as it is."""
    for text in texts:
        if clean(text):
            yield fingerprint(fold(text) or text)
