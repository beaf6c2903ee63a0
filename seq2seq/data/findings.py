"""What an inspection says about a corpus: plain values, ready for JSON."""

from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["spoils", "warns", "note"]
"""Training or evaluation is spoilt; worth a look; good to know."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Gravest first."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """One place where something was found."""

    line: int
    """From 1."""
    src: str
    tgt: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about a corpus."""

    name: str
    says: str
    severity: Severity
    count: int
    share: float
    """Of the corpus's pairs."""
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class SideReport:
    """Numbers about one side."""

    lines: int
    unit: str
    """What lengths count: words or characters."""
    mean: float
    median: int
    percentile99: int
    longest: int
    histogram: list[tuple[int, int]]
    """(lengths up to, sentences)"""
    subwords_per_unit: float | None
    unlearned_share: float | None
    """Of the subwords: unknown ones, and bytes in place of what the vocabulary lacks."""


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """Everything about one corpus."""

    role: str
    """train, validation or test."""
    files: str
    pairs: int
    """That were looked at."""
    src: SideReport
    tgt: SideReport
    ratio: float
    """Median of target characters per source character, in train."""
    findings: list[Finding]

    @property
    def spoilt(self) -> bool:
        return any(finding.severity == "spoils" for finding in self.findings)
