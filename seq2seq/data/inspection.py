"""The data doctor: walks corpora twice, says what is wrong with them, changes nothing.

The first walk counts lines and draws a sample, from which follows what is normal; the second looks
at every pair. Memory: 16 bytes for each training pair at most (0.8 GB for 50 million), and 1 to
2 kB for each evaluation pair; the text itself is never kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from seq2seq.data.corpus import CorpusFiles, Languages, Pair
from seq2seq.data.defects import NEVER, RULES, defects
from seq2seq.data.findings import SEVERITIES, CorpusReport, Example, Finding, Severity
from seq2seq.data.lengths import SideCount
from seq2seq.data.normal import LIMITS, Limits, Normal, learn_normal
from seq2seq.data.overlap import KINDS, Overlap
from seq2seq.data.parting import Parting, find_parting, find_shifted, related
from seq2seq.data.survey import (
    Fingerprints,
    Survey,
    Track,
    all_lines,
    fingerprint,
    survey,
    whole_pairs,
)
from seq2seq.text.normalize import shortened
from seq2seq.text.subwords import Subwords

EXAMPLES = 3
"""Shown of each finding."""
RELATED_FROM = 1000
"""Pairs; of fewer, too little may show that they translate each other."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to inspect, and with what in hand."""

    train: CorpusFiles
    evaluation: Sequence[tuple[str, CorpusFiles]] = ()
    """(validation or test, files), validation first"""
    languages: Languages = ("", "")
    subwords: tuple[Subwords, Subwords] | None = None
    limits: Limits = LIMITS


def no_track(pairs: Iterable[Pair], name: str, total: int | None) -> Iterable[Pair]:
    """Shows nothing."""
    return pairs


def inspect(plan: Plan, track: Track = no_track) -> list[CorpusReport]:
    """Reports on train and on each evaluation set, in the plan's order.

    Evaluation sets are held against what is normal in train.
    """
    with_train, with_validation = Overlap(), Overlap()
    corpora = [("train", plan.train), *plan.evaluation]
    surveys = [survey(files, plan.languages, track, role) for role, files in corpora]
    normal = learn_normal(surveys[0].sample, plan.languages, plan.limits)
    for role, files in plan.evaluation:
        for pair in whole_pairs(files, plan.languages):
            with_train.expect(pair)
            if role == "test":
                with_validation.expect(pair)
    return [
        _Inspection(plan, role, files, seen, normal, with_train, with_validation).report(track)
        for (role, files), seen in zip(corpora, surveys, strict=True)
    ]


@dataclass
class _Count:
    count: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, line: int, pair: Pair, note: str = "") -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            src, tgt = map(shortened, pair)
            self.examples.append(Example(line=line, src=src, tgt=tgt, note=note))


class _Inspection:
    """The second walk over one corpus."""

    def __init__(
        self,
        plan: Plan,
        role: str,
        files: CorpusFiles,
        seen: Survey,
        normal: Normal,
        with_train: Overlap,
        with_validation: Overlap,
    ) -> None:
        self.plan, self.role, self.files, self.seen = plan, role, files, seen
        self.normal, self.with_train, self.with_validation = normal, with_train, with_validation
        self.counts = {name: _Count() for name in [*RULES, *KINDS, "duplicate"]}
        self.full = self.pairs = 0
        self.sources = Fingerprints()
        """Of full pairs."""
        subwords = plan.subwords or (None, None)
        self.sides = (SideCount(normal.src, subwords[0]), SideCount(normal.tgt, subwords[1]))

    def report(self, track: Track) -> CorpusReport:
        parting = self._parting()
        trusted = self.seen.pairs
        if parting is not None:  # behind it every pair would look wrong
            trusted = parting.line - 1 if parting.shift else parting.line
        pairs = islice(whole_pairs(self.files, self.plan.languages), trusted)
        for line, pair in enumerate(track(pairs, f"{self.role}: inspecting", trusted), start=1):
            self._look(line, pair)
        other = self.full - self.counts["duplicate"].count - self.sources.different()
        findings = [*self._lines(parting, track), *self._findings(other)]
        return CorpusReport(
            role=self.role,
            files=str(self.files),
            pairs=self.pairs,
            src=self.sides[0].report(self.seen.src_lines),
            tgt=self.sides[1].report(self.seen.tgt_lines),
            ratio=self.normal.ratio,
            findings=sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)),
        )

    def _look(self, line: int, pair: Pair) -> None:
        self.pairs += 1
        for side, text in zip(self.sides, pair, strict=True):
            side.add(text)
        for name in defects(pair, self.normal):
            self.counts[name].add(line, pair)
        if pair.full:
            self.full += 1
            self.sources.add(fingerprint(pair.src))
            key = fingerprint(*pair)
            if first := self.seen.repeated.line(key):
                self.counts["duplicate"].add(line, pair, f"as line {first}")
            self.seen.repeated.keep(key, line)
        self._compare(line, pair)

    def _compare(self, line: int, pair: Pair) -> None:
        """With the corpora that it should not stand in."""
        if self.role == "train":
            self.with_train.meet(pair, line)
            return
        self._overlap(line, pair, self.with_train.met(pair), "train")
        if self.role == "validation":
            self.with_validation.meet(pair, line)
            return
        met = self.with_validation.met(pair).items()
        pairs = {kind.replace("pair", "validation"): there for kind, there in met if "pair" in kind}
        self._overlap(line, pair, pairs, "validation")

    def _overlap(self, line: int, pair: Pair, met: Mapping[str, int], role: str) -> None:
        """Of what is the same only after folding the folded ones show examples: the others have
        been shown."""
        for kind, there in met.items():
            exact = kind.removesuffix("-folded")
            if exact != kind and exact in met:
                self.counts[kind].count += 1
            else:
                self.counts[kind].add(line, pair, f"{role} line {there}")

    def _findings(self, translated_otherwise: int) -> Iterator[Finding]:
        train = self.role == "train"
        if not self.full and (self.pairs or not self.seen.pairs):  # not all behind the parting
            yield self._finding("no-pairs", "no pair has text on both sides", _Count(), spoils=-1)
        for name, rule in RULES.items():
            spoils = rule.spoils_above if train else rule.spoils_evaluation_above
            yield from self._some(name, rule.says, warns=rule.warns_above, spoils=spoils)
        yield from self._some("duplicate", "pairs that stood here before", warns=0.1)
        if translated_otherwise > 0:
            says = "pairs whose source stood here before, translated otherwise"
            yield self._finding("several-targets", says, _Count(translated_otherwise), warns=NEVER)
        for name, kind in KINDS.items():
            exact = self.counts[name.removesuffix("-folded")].count
            if name.endswith("-folded") and self.counts[name].count <= exact:
                continue  # says nothing new
            yield from self._some(name, kind.says, warns=kind.warns_above, spoils=kind.spoils_above)
        for side, name in zip(self.sides, ("source", "target"), strict=True):
            if side.unlearned_share() > 0.01:
                says = f"subwords of the {name} that the model does not know, or spells in bytes"
                yield Finding(
                    name=f"unlearned-{name}",
                    says=says,
                    severity="warns",
                    count=side.unlearned,
                    share=side.unlearned_share(),
                    examples=[],
                )

    def _some(
        self, name: str, says: str, *, warns: float, spoils: float = NEVER
    ) -> Iterator[Finding]:
        if self.counts[name].count:
            yield self._finding(name, says, self.counts[name], warns=warns, spoils=spoils)

    def _finding(
        self, name: str, says: str, found: _Count, *, warns: float = 0.0, spoils: float = NEVER
    ) -> Finding:
        share = found.count / max(1, self.pairs)
        severity: Severity = "spoils" if share > spoils else "warns" if share > warns else "note"
        return Finding(
            name=name,
            says=says,
            severity=severity,
            count=found.count,
            share=share,
            examples=found.examples,
        )

    def _parting(self) -> Parting | None:
        difference = self.seen.tgt_lines - self.seen.src_lines
        return find_parting(self._side(0), self._side(1), difference) if difference else None

    def _side(self, side: Literal[0, 1]) -> Iterator[str]:
        for lines in all_lines(self.files, self.plan.languages):
            line = lines[side]
            if line is None:
                return
            yield line

    def _lines(self, parting: Parting | None, track: Track) -> Iterator[Finding]:
        seen = self.seen
        if seen.src_lines == seen.tgt_lines:
            yield from self._alignment(track)
            return
        difference = abs(seen.src_lines - seen.tgt_lines)
        says = f"the source has {seen.src_lines} lines, the target {seen.tgt_lines}; "
        if parting is None:
            says += "where the sides part is not clear"
        elif parting.shift:
            says += f"{_shifted(parting)}; inspected up to there"
        elif parting.line == seen.pairs:
            says += f"they seem to fit up to line {parting.line}, where the shorter side ends"
        else:
            says += f"they seem to fit up to about line {parting.line}; inspected up to there"
        yield Finding(
            name="line-counts",
            says=says,
            severity="spoils",
            count=difference,
            share=difference / max(seen.src_lines, seen.tgt_lines),
            examples=[],
        )

    def _alignment(self, track: Track) -> Iterator[Finding]:
        """Of sides with as many lines."""
        pairs = whole_pairs(self.files, self.plan.languages)
        blocks = find_shifted(track(pairs, f"{self.role}: aligning", self.seen.pairs))
        if partings := list(filter(None, blocks)):
            pairs_there = _Count(round(self.pairs * len(partings) / len(blocks)))
            yield self._finding("misaligned", _shifted(partings[0]), pairs_there, spoils=0.05)
        elif self.full >= RELATED_FROM and not related(self.seen.sample):
            says = (
                "nothing shows that line n of the source and line n of the target belong together"
            )
            yield self._finding("unrelated", says, _Count(self.pairs))


def _shifted(parting: Parting) -> str:
    return (
        f"the sides seem to part near line {parting.line}: from there on, line n of the source "
        f"fits line n{parting.shift:+} of the target"
    )
