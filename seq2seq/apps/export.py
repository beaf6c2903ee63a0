"""Write a model in the format of another library, and check that it says the same there.

OUT is a new folder with all that the library needs and our subword models, so that
`seq2seq translate --engine LIBRARY OUT` works. Both engines then translate some lines, of FILE or
made up, and a table tells what changed. Without --quantize an export whose log-probabilities or
greedy translations differ is wrong: it is not kept, and the status is 1.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.apps.new_folder import check_new, check_writable
from seq2seq.config import SearchConfig, at_least
from seq2seq.data.corpus import read_sentences
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.evaluation.metrics import bleu
from seq2seq.interop.formats import TARGETS
from seq2seq.provenance import with_command, without_scores

if TYPE_CHECKING:
    from seq2seq.interop.agreement import Agreement
    from seq2seq.interop.exported import Exported
    from seq2seq.interop.sample import Example
    from seq2seq.model_folder import SavedModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("--to", choices=TARGETS, required=True, help="the library")
    parser.add_argument("output", metavar="OUT", type=Path, help="the folder to write")
    parser.add_argument(
        "--quantize",
        metavar="TYPE",
        help="store weights as int8, int8_bfloat16 or float16, with ctranslate2 (default: fp32)",
    )
    parser.add_argument(
        "--check", metavar="N", type=int, default=100, help="lines to compare, or 0 (default: 100)"
    )
    parser.add_argument(
        "--check-src", metavar="FILE", help="compare on its first lines (default: made up)"
    )
    parser.add_argument("--check-tgt", metavar="FILE", help="their translations, for BLEU")


def run(args: argparse.Namespace) -> int:
    """Export into a folder beside OUT, check it, move it to its place."""
    at_least("--check", args.check, 0)
    text = _text(args.check_src, args.check_tgt)
    check_new(args.output)
    place = Path(os.path.realpath(args.output))  # a link stays one
    check_writable(place.parent)
    from seq2seq.interop.targets import export
    from seq2seq.model_facts import load_provenance
    from seq2seq.model_folder import find_model, load_model
    from seq2seq.process import prepare_process

    prepare_process()
    known, words = load_provenance(args.model), ["--to", args.to]
    if args.quantize is not None:
        known, words = without_scores(known), [*words, "--quantize", args.quantize]
    saved = replace(
        load_model(args.model),
        provenance=with_command(known, "export", args.model, *words, args.output),
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    told = list[str]()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".exporting-") as scratch:
        exported = export(saved, args.to, Path(scratch) / "model", args.quantize)
        kept = True
        if args.check:
            examples = _examples(text, args.check, exported)
            agreement = _compare(args.to, saved, exported, examples)
            sizes = [_size(folder) for folder in (find_model(args.model), exported.folder)]
            told += report(agreement, examples, exported, sizes)
            kept = args.quantize is not None or agreement.equal
        if kept:  # moved before anything is told: whoever listens may leave
            exported.folder.replace(place)
    for line in told:
        print(line)
    if not kept:
        print(
            f"error: {args.to} does not say what {args.model} says, so {args.output} is not "
            f"written; please report it.",
            file=sys.stderr,
        )
        return 1
    print(f"{args.output}: {args.to}, {exported.about.quantization}")
    return 0


def _size(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _text(src: str | None, tgt: str | None) -> tuple[list[str], list[str] | None] | None:
    """Lines to compare on, and their translations; None where no file is named."""
    if src is None:
        if tgt is not None:
            raise ConfigError(f"--check-tgt {tgt} translates --check-src; name that, too.")
        return None
    lines, references = read_sentences(src, tgt)
    if not any(line.strip() for line in lines):
        raise CorpusError(f"{src} has no line to translate.")
    return lines, references


def _examples(
    text: tuple[list[str], list[str] | None] | None, count: int, exported: "Exported"
) -> "list[Example]":
    from seq2seq.interop.sample import made_up, of_text

    if text is None:
        return made_up(count, exported)
    examples = of_text(*text, count, exported)
    if not examples:
        _, references = text
        what = "has no line" if references is None else "and --check-tgt have no pair of lines"
        raise CorpusError(f"--check-src {what} of less than {exported.about.max_length} subwords.")
    return examples


def _compare(
    name: str, saved: "SavedModel", exported: "Exported", examples: "Sequence[Example]"
) -> "Agreement":
    from seq2seq.engine import NativeEngine
    from seq2seq.interop.agreement import compare
    from seq2seq.interop.targets import target

    other = target(name).engine(exported, "cpu", "fp32")
    return compare(NativeEngine(saved.network), other, examples, SearchConfig())


def report(
    agreement: "Agreement",
    examples: "Sequence[Example]",
    exported: "Exported",
    sizes: Sequence[int],
) -> Iterator[str]:
    """Lines of text: a table of before and after, and every translation that differs."""
    before, after = agreement.native, agreement.other
    total, about = len(examples), exported.about
    said = [
        [exported.tgt_subwords.decode(each.tokens) for each in found.best]
        for found in (before, after)
    ]

    title = f"{about.target} {about.quantization}"
    width = max(20, len(title) + 2)

    def row(name: str, *cells: str) -> str:
        return f"{name:12}" + "".join(f"{cell:>{width}}" for cell in cells)

    yield row("", "native", title)
    yield row("MB", *(f"{each / 1e6:.1f}" for each in sizes))
    yield row("sentences/s", *(f"{total / found.seconds:.1f}" for found in (before, after)))
    references = [each.reference for each in examples if each.reference is not None]
    if references:
        scores = [bleu(texts, [references], about.tgt_lang) for texts in said]
        yield row("BLEU", *(f"{score.value:.2f}" for score in scores)) + f"  {scores[0].signature}"
    yield (
        f"given translations: log-probabilities differ by at most {agreement.forced:.1e} "
        f"({total} sentences)"
    )
    ties = f", {len(agreement.ties)} of them ties" if agreement.ties else ""
    yield f"greedy search: {len(agreement.greedy)} of {total} translations differ{ties}"
    differing = agreement.differing
    yield (
        f"beam search: {len(differing)} of {total} translations differ, scores by at most "
        f"{agreement.score_difference:.1e}"
    )
    for number in differing:
        yield f"  line {examples[number].number}"
        for found, texts in zip((before, after), said, strict=True):
            yield f"    {found.best[number].score:.4f}  {texts[number]}"
