"""Translate lines of text with a trained model.

Reads a file or standard input, UTF-8, one sentence a line; writes one translation a line in the
same order. A blank line gives a blank line. With --n-best N each sentence gives N lines of
index TAB score TAB translation, best first. --alignment and --token-scores add columns at the end.

Lines may be JSON objects: "text" (or "src") is the sentence, "prefix" what its translation begins
with, "terms" a list of what it must hold. All fields are handed on to the output, but for those of
an earlier translation. In JSON all columns are fields.
"""

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from seq2seq.apps import mbr
from seq2seq.apps.attention import MOST_SENTENCES, draw_attention, examples_of
from seq2seq.apps.engine_flags import (
    add_engine_flags,
    check_engine_flags,
    load_translator,
    same_translations,
)
from seq2seq.apps.flag_names import told_as_flags
from seq2seq.apps.output_flags import (
    add_format_flag,
    add_output_flags,
    check_output_flags,
    made_with,
    opened,
    output_format,
    skip_finished,
)
from seq2seq.apps.prefixes import begun_with
from seq2seq.apps.rows import READERS, WRITERS, Asked, Line, format_of, tell
from seq2seq.apps.search_flags import add_search_flags, search_config
from seq2seq.apps.term_flags import Requirements, add_term_flags, check_term_flags
from seq2seq.config import at_least
from seq2seq.data.formats import check_sentences
from seq2seq.data.lines import check_aligned, decode_lines, is_pipe, open_bytes, read_lines
from seq2seq.data.output import Output, check_output, write
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.reports.drawing import check_drawing
from seq2seq.text.normalize import clean
from seq2seq.translation import Translation

if TYPE_CHECKING:
    from seq2seq.translator import Translator
    from seq2seq.verification import Sample

LOOKED_AT = 256
"""Lines whose translations are looked at again together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="a file; default: stdin")
    parser.add_argument(
        "--input-format",
        choices=READERS,
        help="default: jsonl for a file that ends in .jsonl, or else text",
    )
    add_output_flags(parser)
    add_format_flag(parser)
    parser.add_argument(
        "--prefix", metavar="FILE", help="how each translation begins, line by line; may be blank"
    )
    mbr.add_flags(parser)
    parser.add_argument(
        "--alignment", action="store_true", help="which words translate which: 0-0 1-2 ..."
    )
    parser.add_argument(
        "--token-scores",
        action="store_true",
        help="subwords of the translation and their log-probabilities",
    )
    parser.add_argument(
        "--attention",
        metavar="FILE",
        type=Path,
        help=f"heat maps of where the model looked, .html or .png, for the first {MOST_SENTENCES} "
        f"sentences",
    )
    parser.add_argument(
        "--verify",
        metavar="N",
        type=int,
        default=0,
        help="translate N lines again, each alone, and tell differences; status 1 if any is not a "
        "tie (default: 0)",
    )
    add_engine_flags(parser)
    add_search_flags(parser)
    add_term_flags(parser)


@told_as_flags
def run(args: argparse.Namespace) -> int:
    """Translate while reading and writing."""
    check_engine_flags(args)
    at_least("--verify", args.verify, 0)
    inputs = [args.input, args.prefix, args.glossary]
    check_output_flags(args, inputs)
    check_term_flags(args)
    _check_looking(args, inputs)
    config = mbr.with_candidates(search_config(args), args)
    if args.prefix is not None:
        check_sentences(args.prefix)
    if args.input is not None and args.input_format is None and format_of(args.input) == "text":
        check_sentences(args.input)
    size = _input_size(args.input)
    if args.prefix is not None and args.input is not None:
        check_aligned(args.prefix, args.input)
    translator = load_translator(args, config, size)
    from seq2seq.verification import Sample

    sample = Sample(args.verify)
    same = same_translations(args) | {"verify", "attention"}
    settings = made_with(args, {"input": args.input}, same)
    number_column = 0 if args.n_best > 1 and output_format(args) == "text" else None
    with opened(args, settings, number_column=number_column) as output:
        drawn = _translate(args, translator, output, sample)
    if args.attention is not None:
        _draw(args.attention, translator, drawn)
    return _verify(sample, translator)


def _check_looking(args: argparse.Namespace, inputs: list[str | None]) -> None:
    """What tells where the model looks, before anything is translated."""
    if args.attention is not None:
        check_drawing("--attention", args.attention)
        check_output("--attention", args.attention, [*inputs, args.output])
    for flag, wanted in (("--attention", args.attention), ("--alignment", args.alignment)):
        if wanted and args.engine != "native":
            raise ConfigError(
                f"{flag}: --engine {args.engine} does not tell where each layer looks; use "
                f"--engine native."
            )


def _input_size(path: str | None) -> int:
    """In bytes; 0 where nobody knows, as of a pipe."""
    if path is not None:
        if is_pipe(path):
            return 0
        with open_bytes(path, unpack=False) as file:
            return os.fstat(file.fileno()).st_size
    if sys.stdin is None:
        raise ConfigError("standard input is closed; give it, or a file INPUT.")
    try:
        return os.fstat(sys.stdin.fileno()).st_size
    except OSError:
        return 0


def _line_count(path: str | None) -> int | None:
    """None where it is not known, as of a pipe, or a file with a defect that reading will name."""
    if path is None or is_pipe(path):
        return None
    try:
        return sum(1 for _ in read_lines(path, errors="surrogateescape"))
    except CorpusError:
        return None


class Finish:
    """What is done with the translations of some lines when they are there."""

    def __init__(
        self, args: argparse.Namespace, translator: "Translator", output: Output, sample: "Sample"
    ) -> None:
        from seq2seq.cores import Sharing  # brings torch

        self.translator, self.output, self.sample = translator, output, sample
        self.sharing = Sharing() if translator.engine.parallel == 0 else None
        self.required = Requirements.of(args)
        self.choose = mbr.chooser(args, translator.config)
        self.asked = Asked(args.token_scores, args.alignment)
        self.write, self.n_best = WRITERS[output_format(args)], args.n_best
        self.split = 0
        """Lines that were too long for one search."""
        self.first: list[tuple[str, Translation]] = []
        """Sentences of which attention may be drawn."""

    def __call__(self, lines: list[tuple[Line, list[Translation]]]) -> None:
        if self.sharing is not None and (words := self.sharing.words()):
            warnings.warn(f"{words}.", stacklevel=2)
        chosen = [(line, self.choose(found, not line.sentence.terms)) for line, found in lines]
        told = tell(self.translator, chosen, self.asked)
        for (line, best), (_, found), fields in zip(chosen, lines, told, strict=True):
            self.output.write(self.write(self.output.done, line, fields, self.n_best))
            self.sample.see(self.output.done, line.sentence, found[0])
            self.split += found[0].pieces > 1
            self.required.see(line.sentence, best[0].text)
            whole = clean(line.sentence.text) and best[0].pieces == 1
            if whole and len(self.first) < MOST_SENTENCES:
                self.first.append((line.sentence.text, best[0]))

    def tell(self) -> None:
        """On stderr, of all lines together."""
        self.required.tell()
        if self.split:
            print(
                f"lines of more than {self.translator.max_length} subwords, which were split: "
                f"{self.split} (see --max-length and --too-long)",
                file=sys.stderr,
            )


def _translate(
    args: argparse.Namespace, translator: "Translator", output: Output, sample: "Sample"
) -> list[tuple[str, Translation]]:
    """Write all translations; the first ones, of which attention may be drawn."""
    if args.attention is not None and output.done:
        raise ConfigError(
            f"--attention {args.attention} draws the first sentences, which are finished; leave it "
            f"out, `seq2seq plot --attention` draws them from the output."
        )
    finish = Finish(args, translator, output, sample)
    lines, again = tee(_given(args, finish.required, output.done))
    sentences = (line.sentence for line in lines)
    shown = sys.stderr.isatty()
    total = _line_count(args.input) if shown else None
    bar = tqdm(total=total, initial=output.done, unit="line", disable=not shown)
    with bar, closing(translator.stream(sentences, first=output.done + 1)) as stream:
        part: list[tuple[Line, list[Translation]]] = []
        try:
            for found, line in zip(stream, again, strict=True):
                part.append((line, found))
                if len(part) == LOOKED_AT or finish.asked == Asked():
                    ready, part = part, []  # what interrupts it must not write it twice
                    finish(ready)
                    bar.update(len(ready))
        finally:
            finish(part)
    finish.tell()
    return finish.first


def _given(args: argparse.Namespace, required: Requirements, skipped: int) -> Iterator[Line]:
    """What is to be translated, without the first lines, with what a translation must hold."""
    name = args.input or "standard input"
    read = READERS[args.input_format or format_of(args.input)]
    numbered = enumerate(_lines(args.input, skipped), start=skipped + 1)
    given = (required.of_line(read(text, f"{name} line {number}")) for number, text in numbered)
    return given if args.prefix is None else begun_with(args.prefix, given, name, skipped)


def _draw(path: Path, translator: "Translator", drawn: list[tuple[str, Translation]]) -> None:
    if not drawn:
        print(
            f"--attention {path} is not written: no sentence was translated whole", file=sys.stderr
        )
        return
    texts = [text for text, _ in drawn]
    maps = translator.attention(texts, [said for _, said in drawn])
    write("--attention", path, draw_attention(examples_of(texts, maps), path))


def _lines(path: str | None, skipped: int) -> Iterator[str]:
    """Without the first ones."""
    lines = decode_lines(sys.stdin.buffer, "standard input") if path is None else read_lines(path)
    skip_finished(lines, skipped)
    return lines


def _verify(sample: "Sample", translator: "Translator") -> int:
    """Tell what differs on stderr; 1 if something does."""
    counts = Counter[str]()
    for number, together, alone, verdict in sample.compare(translator):
        counts[verdict] += 1
        if verdict != "same":
            print(
                f"verify: line {number}, {verdict}: {together.text!r} ({together.score:.5f}) "
                f"in its batch, {alone.text!r} ({alone.score:.5f}) alone",
                file=sys.stderr,
            )
    if sample.count:
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("same", "tie", "different"))
        print(f"verify: {counts.total()} lines translated again, alone: {told}", file=sys.stderr)
    return 1 if counts["different"] else 0
