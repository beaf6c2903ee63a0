"""The sentences that two systems translate most differently, and in which words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from seq2seq.evaluation.metrics import new_chrf
from seq2seq.evaluation.words import Token, tokens

Mark = Literal["same", "right", "wrong"]
"""Of words: in both translations; in this one alone and in the reference; in this one alone."""


@dataclass(frozen=True)
class Side:
    """One of two translations of a sentence."""

    chrf: float
    """Of this sentence alone, from 0 to 100."""
    marked: list[tuple[str, Mark]]
    """The translation, cut where the mark changes."""


@dataclass(frozen=True)
class Difference:
    """A sentence and two translations."""

    line: int
    """Counted from 1."""
    source: str | None
    reference: str
    baseline: Side
    system: Side


@dataclass(frozen=True)
class Differences:
    """Where a system and the baseline differ most, by the chrF of single sentences."""

    system: str
    better: int
    """Sentences with a higher chrF than the baseline's."""
    worse: int
    same: int
    """Sentences with equal chrF."""
    gains: list[Difference]
    """Where the system is better, the largest difference first."""
    losses: list[Difference]


def differences(
    name: str,
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None = None,
    *,
    most: int = 10,
    lowercase: bool = False,
) -> Differences:
    """Up to `most` gains and as many losses; words are marked against the first reference."""
    before, after = (sentence_chrf(each, references, lowercase) for each in (baseline, system))
    change = [b - a for a, b in zip(before, after, strict=True)]
    order = sorted(range(len(change)), key=lambda n: change[n])

    def difference(n: int) -> Difference:
        reference = references[0][n]
        first, second = marked(baseline[n], system[n], reference, lowercase)
        return Difference(
            n + 1,
            None if sources is None else sources[n],
            reference,
            Side(before[n], first),
            Side(after[n], second),
        )

    better, worse = sum(each > 0 for each in change), sum(each < 0 for each in change)
    return Differences(
        name,
        better,
        worse,
        len(change) - better - worse,
        [difference(n) for n in order[::-1][: min(most, better)]],
        [difference(n) for n in order[: min(most, worse)]],
    )


def sentence_chrf(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
) -> list[float]:
    """chrF2 of each sentence alone, against the reference that it is nearest to."""
    metric = new_chrf(lowercase=lowercase)
    return [
        metric.sentence_score(hypothesis, each).score
        for hypothesis, each in zip(hypotheses, zip(*references, strict=True), strict=True)
    ]


def marked(
    first: str, second: str, reference: str, lowercase: bool = False
) -> tuple[list[tuple[str, Mark]], list[tuple[str, Mark]]]:
    """Both translations, with the words marked that the other does not have in that place; case
    is no difference with `lowercase`.

    A marked word is right as often as the reference has it beside the words that are the same.
    """
    shown = [tokens(text) for text in (first, second, reference)]
    form = str.lower if lowercase else str
    one, other, asked = ([form(each.text) for each in words] for words in shown)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    common = {
        (block.a + n, block.b + n)
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    }
    wanted = Counter(asked) - Counter(one[a] for a, _ in common)
    return (
        _cut(shown[0], one, {a for a, _ in common}, wanted.copy()),
        _cut(shown[1], other, {b for _, b in common}, wanted.copy()),
    )


def _cut(
    shown: Sequence[Token], compared: Sequence[str], same: set[int], wanted: Counter[str]
) -> list[tuple[str, Mark]]:
    """A space between words of two marks goes with the unmarked one, or before the second."""
    pieces: list[tuple[str, Mark]] = []
    for n, (word, key) in enumerate(zip(shown, compared, strict=True)):
        mark: Mark = "same"
        if n not in same:
            mark = "right" if wanted[key] > 0 else "wrong"
            wanted[key] -= 1
        text = f" {word.text}" if word.spaced else word.text
        if pieces and pieces[-1][1] == mark:
            pieces[-1] = (pieces[-1][0] + text, mark)
        elif word.spaced and mark != "same":
            if pieces and pieces[-1][1] == "same":
                pieces[-1] = (f"{pieces[-1][0]} ", "same")
            elif pieces:
                pieces.append((" ", "same"))
            pieces.append((word.text, mark))
        else:
            pieces.append((text, mark))
    return pieces
