"""All that is known about systems on one test set: scores, where they are good, what went wrong."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from seq2seq.evaluation.differences import Differences, differences
from seq2seq.evaluation.metrics import new_bleu
from seq2seq.evaluation.significance import SURE, SystemScore, compare, how_tested
from seq2seq.evaluation.words import Found, scored_words, word_scores
from seq2seq.text.scripts import Unit, length_in, scripts_in, unit_of

RARE = 10
"""A word that was seen less often than this in training is rare."""
LONG = 2, 5
"""An over-long translation has more than 2 times the words of its longest reference, and at least 5
words more."""


@dataclass(frozen=True)
class Group:
    """Sentences that have something in common."""

    label: str
    sentences: int
    scores: list[SystemScore]


@dataclass(frozen=True)
class Grouping:
    """All sentences, in groups."""

    title: str
    groups: list[Group]


@dataclass(frozen=True)
class Output:
    """What a look at a system's output shows; lines are counted from 1."""

    system: str
    length_ratio: float
    """Words of the output for each word of the nearest references, as BLEU counts them."""
    empty: list[int]
    """Lines without text, where the reference has some."""
    long: list[int]
    copies: list[int] | None
    """Lines that are the source, case aside, where the reference is not; None without sources."""


@dataclass(frozen=True)
class Comparison:
    """Systems on a test set; the first is the baseline."""

    systems: list[str]
    sentences: int
    references: int
    test: str
    """Behind the p-values: its name and size."""
    sure: float
    """Below this p a difference is called "better" or "worse"."""
    scores: list[SystemScore]
    groupings: list[Grouping]
    found: list[Found]
    seen_in: str
    """Where words were counted: "training" or "the references"."""
    outputs: list[Output]
    differences: list[Differences]
    """Of each system and the baseline."""


def compare_in_depth(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None = None,
    train: Iterable[str] | None = None,
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    lowercase: bool = False,
    paired: str = "bootstrap",
    resamples: int = 1000,
) -> Comparison:
    """`train` has sentences of the target language that the systems were trained on; without them
    words are counted in the first references. Groups are scored by the first metric.
    """
    score = partial(compare, target_lang=target_lang, lowercase=lowercase, resamples=resamples)

    def grouping(title: str, members: Mapping[str, Sequence[int]]) -> Grouping:
        groups = [
            Group(
                label,
                len(lines),
                score(
                    {name: [each[n] for n in lines] for name, each in systems.items()},
                    [[each[n] for n in lines] for each in references],
                    metrics=metrics[:1],
                    paired="bootstrap",  # for the intervals: a group is too small for tests
                ),
            )
            for label, lines in members.items()
        ]
        return Grouping(title, groups)

    split = scored_words(target_lang, lowercase)
    words = [split(line) for line in references[0]]
    seen = Counter(
        word for line in (words if train is None else map(split, train)) for word in line
    )
    below = 2 if train is None else RARE
    lengths, unit = measured(references[0] if sources is None else sources)
    of = "reference" if sources is None else "source"
    rare = f"words seen fewer than {RARE} times in training"
    rare = "words seen only once in the references" if train is None else rare
    name, *others = systems
    return Comparison(
        systems=list(systems),
        sentences=len(references[0]),
        references=len(references),
        test=how_tested(paired, resamples),
        sure=SURE[paired],
        scores=score(systems, references, metrics=metrics, paired=paired),
        groupings=[
            grouping(f"Length of the {of}, in {unit}", by_length(lengths)),
            grouping(f"{rare.capitalize()}, in the reference", by_rare_words(words, seen, below)),
        ],
        found=word_scores([[split(h) for h in each] for each in systems.values()], words, seen),
        seen_in="the references" if train is None else "training",
        outputs=[
            look(name, each, references, sources, target_lang) for name, each in systems.items()
        ],
        differences=[
            differences(
                other, systems[name], systems[other], references, sources, lowercase=lowercase
            )
            for other in others
        ],
    )


def measured(lines: Sequence[str]) -> tuple[list[int], Unit]:
    """The length of each line, and its unit."""
    unit = unit_of(scripts_in("".join(lines)), lines)
    return [length_in(unit, line) for line in lines], unit


def by_length(lengths: Sequence[int], number: int = 5) -> dict[str, list[int]]:
    """Indices in `number` groups of about equal size, or fewer: equal lengths stay together."""
    ordered = sorted(lengths)
    bounds = sorted({ordered[len(ordered) * n // number] for n in range(1, number)} - {ordered[0]})
    groups: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for index, length in enumerate(lengths):
        groups[bisect_right(bounds, length)].append(index)
    named = {}
    for group in groups:
        shortest, longest = (f(lengths[n] for n in group) for f in (min, max))
        named[f"{shortest}" if shortest == longest else f"{shortest}–{longest}"] = group
    return named


def by_rare_words(
    lines: Sequence[Sequence[str]], seen: Counter[str], below: int
) -> dict[str, list[int]]:
    """Indices of the lines with no, one, or more words that were seen less than `below` times."""
    groups: dict[str, list[int]] = {"0": [], "1": [], "2+": []}
    for index, line in enumerate(lines):
        rare = sum(seen[word] < below for word in line)
        groups[list(groups)[min(rare, 2)]].append(index)
    return {name: group for name, group in groups.items() if group}


def look(
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None = None,
    target_lang: str = "",
) -> Output:
    """Count what no score shows."""
    score = new_bleu(target_lang).corpus_score(hypotheses, references)
    split = scored_words(target_lang)
    factor, more = LONG
    empty, long, copies = [], [], []
    lines = zip(hypotheses, zip(*references, strict=True), strict=True)
    for number, (hypothesis, each) in enumerate(lines, start=1):
        longest = max(len(split(reference)) for reference in each)
        length = len(split(hypothesis))
        if not hypothesis.strip() and longest:
            empty.append(number)
        if length > factor * longest and length >= more + longest:
            long.append(number)
        if sources is not None and _copied(hypothesis, sources[number - 1], each):
            copies.append(number)
    return Output(
        name,
        score.sys_len / max(score.ref_len, 1),
        empty,
        long,
        None if sources is None else copies,
    )


def _copied(hypothesis: str, source: str, references: Sequence[str]) -> bool:
    said, given, *wanted = (each.casefold().split() for each in (hypothesis, source, *references))
    return bool(said) and said == given and said not in wanted
