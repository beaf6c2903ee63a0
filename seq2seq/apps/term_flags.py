"""Flags for what translations must hold: --glossary and --protect."""

import argparse
import sys
from collections import Counter
from dataclasses import replace

from seq2seq.apps.rows import Line
from seq2seq.data.lines import read_lines
from seq2seq.errors import ConfigError
from seq2seq.interop.formats import HOLD_TERMS
from seq2seq.sentence import Sentence
from seq2seq.text.glossary import Glossary
from seq2seq.text.normalize import clean
from seq2seq.text.spans import KINDS, find_spans
from seq2seq.text.terms import not_held

DEFAULT_KINDS = ("url", "email", "tag")
"""Not numbers: languages write them differently."""


def add_term_flags(parser: argparse.ArgumentParser) -> None:
    """Declare what `Requirements.of` reads."""
    parser.add_argument(
        "--glossary",
        metavar="FILE",
        help="lines of SOURCE TAB TARGET: where the source has the one, its translation has the "
        "other, as often",
    )
    parser.add_argument(
        "--protect",
        metavar="KIND",
        nargs="*",
        choices=tuple(KINDS),
        help=f"keep these as they are: {', '.join(KINDS)} (without KIND: "
        f"{', '.join(DEFAULT_KINDS)}); stands after INPUT",
    )


def check_term_flags(args: argparse.Namespace) -> None:
    """ConfigError for a search that knows no terms."""
    flags = {"--glossary": args.glossary, "--protect": args.protect}
    given = " and ".join(flag for flag, value in flags.items() if value is not None)
    if not given:
        return
    if args.sample or (args.groups or 1) > 1:
        other = "--sample" if args.sample else f"--diversity-groups {args.groups}"
        raise ConfigError(f"{given}: only plain beam search can hold terms; leave out {other}.")
    if args.engine not in HOLD_TERMS:
        use = " or ".join(HOLD_TERMS)
        raise ConfigError(f"{given}: --engine {args.engine} holds no terms; use --engine {use}.")


class Requirements:
    """What each translation must hold, and in how many lines it was not to be had."""

    def __init__(self, glossary: Glossary, kinds: tuple[str, ...]) -> None:
        self.glossary, self.kinds = glossary, kinds
        self._lines = self._failed = 0

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Requirements":
        path, kinds = args.glossary, args.protect
        glossary = Glossary.parse(read_lines(path) if path else (), f"--glossary {path}")
        return cls(glossary, () if kinds is None else tuple(kinds) or DEFAULT_KINDS)

    def of_line(self, line: Line) -> Line:
        """The same line, whose translation must hold what it names itself, and these: a term that
        is both is one."""
        text = clean(line.sentence.text)
        spans = find_spans(text, self.kinds)
        found = [(span.start, span.text) for span in spans] + self.glossary.targets(text, spans)
        own = Counter(map(clean, line.sentence.terms)) - Counter(term for _, term in found)
        terms = (*(term for _, term in found), *own.elements())
        origins = [start for start, _ in found]
        return line._replace(sentence=replace(line.sentence, terms=terms, origins=origins))

    def see(self, sentence: Sentence, translation: str) -> None:
        """Count a line with terms, and whether its translation holds them."""
        self._lines += bool(sentence.terms)
        self._failed += bool(not_held(sentence.terms, translation))

    def tell(self) -> None:
        """Say on stderr how many lines failed, if any."""
        if self._failed:
            print(
                f"lines with terms or protected parts: {self._lines}; translations that do not "
                f"hold all of them exactly as often as asked: {self._failed}",
                file=sys.stderr,
            )
