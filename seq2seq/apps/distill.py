"""Write what a student learns from: a teacher's translations, beside the references.

Sequence-level knowledge distillation (Kim and Rush 2016): the sentences of a corpus, translated by
a large model, are easier to learn for a small one. CORPUS is SRC TGT, one PATH with both sides, or
one text file of sources. Rows are source TAB translation TAB line TAB score, a corpus to train on
(data.train.path); lines are counted from 0. For each line comes the reference, without a score,
then the --n-best translations of the teacher, best first, each text once. What nobody should learn
is left out and counted: translations that are empty, as long as the search allows, repeat
themselves without end, or copy the source. FILE.SOURCE.md beside the output has the terms of the
corpus.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from seq2seq.apps import mbr
from seq2seq.apps.corpus_flags import add_corpus_flags, corpus_files
from seq2seq.apps.engine_flags import (
    add_engine_flags,
    check_engine_flags,
    load_translator,
    same_translations,
)
from seq2seq.apps.flag_names import told_as_flags
from seq2seq.apps.output_flags import add_output_flags, check_output_flags, made_with, opened
from seq2seq.apps.rows import decimal
from seq2seq.apps.search_flags import add_search_flags, search_config
from seq2seq.data.corpus import CorpusFiles, Languages, Pair, files_of, stream_pairs
from seq2seq.data.formats import reader_of
from seq2seq.data.lines import read_lines, refuse_pipe
from seq2seq.data.origin import terms_beside
from seq2seq.data.output import Output, write
from seq2seq.errors import ConfigError
from seq2seq.model_card import license_in, quoted
from seq2seq.provenance import CARD, terms_paths
from seq2seq.text.normalize import clean

if TYPE_CHECKING:
    from seq2seq.distillation import Distillation

LINE_COLUMN = 2
"""Of a row, from 0."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("model", metavar="TEACHER", help="a model folder or a run folder")
    parser.add_argument(
        "corpus", metavar="CORPUS", nargs="+", help="SRC TGT, one PATH with both sides, or one SRC"
    )
    add_corpus_flags(parser)
    add_output_flags(parser)
    parser.add_argument(
        "--teacher-only", action="store_true", help="leave out the references of the corpus"
    )
    parser.add_argument(
        "--closest",
        choices=mbr.UTILITIES,
        help="of the --n-best translations only the one that is most like the reference "
        "(sequence-level interpolation)",
    )
    mbr.add_flags(parser)
    add_engine_flags(parser)
    add_search_flags(parser)


@told_as_flags
def run(args: argparse.Namespace) -> None:
    """Read the corpus to its end, which may have a mistake; then translate it."""
    check_engine_flags(args)
    _check(args)
    check_output_flags(args, args.corpus)
    config = mbr.with_candidates(search_config(args), args)
    lines = size = 0
    for pair in _pairs(args):
        lines, size = lines + 1, size + len(pair.src.encode())
    terms = _terms(args)
    translator = load_translator(args, config, size)
    from seq2seq.distillation import Distillation

    utility = mbr.utility_for(args.closest, args.model) if args.closest else None
    distillation = Distillation(translator, utility)
    inputs = dict(zip(("src", "tgt"), args.corpus, strict=False))
    settings = made_with(args, inputs, same_translations(args) | {"corpus"})
    with opened(args, settings, number_column=LINE_COLUMN) as output:
        _distill(args, distillation, output, lines)
        if args.output is not None:
            _, path = terms_paths(args.output)
            write("--output", path, terms)


def _check(args: argparse.Namespace) -> None:
    if args.output is not None and args.output.suffix != ".tsv":
        raise ConfigError(
            f"--output {args.output} must end in .tsv: training tells formats by their endings."
        )
    for path in args.corpus:
        refuse_pipe(path)
    if args.closest is not None and args.n_best == 1:
        raise ConfigError(f"--closest {args.closest} needs a choice: add e.g. --n-best 5.")
    if args.closest is not None and _only_sources(args.corpus):
        raise ConfigError(f"--closest {args.closest} needs references: give SRC TGT, or one PATH.")


def _only_sources(corpus: list[str]) -> bool:
    return len(corpus) == 1 and Path(corpus[0]).is_file() and reader_of(corpus[0]) is None


def _pairs(args: argparse.Namespace) -> Iterator[Pair]:
    """Of the corpus, with "" where there is no reference."""
    if _only_sources(args.corpus):
        return (Pair(line, "") for line in read_lines(args.corpus[0]))
    return stream_pairs(*_corpus(args))


def _corpus(args: argparse.Namespace) -> tuple[CorpusFiles, Languages]:
    """One with both sides, and the languages to read it with: the teacher's."""
    from seq2seq.interop.targets import languages

    return corpus_files("CORPUS", args.corpus, args), languages(args.model)


def _terms(args: argparse.Namespace) -> str:
    """What the output is made of, the licences of the models, and the terms beside the corpus."""
    only = _only_sources(args.corpus)
    files = [Path(args.corpus[0])] if only else files_of(*_corpus(args))
    corpus = " and ".join(f"`{each}`" for each in args.corpus)
    made = f"What `seq2seq distill` made of {corpus} with {' and '.join(_models(args))}."
    return "\n\n".join([made, *quoted(terms_beside(files))]) + "\n"


def _models(args: argparse.Namespace) -> Iterator[str]:
    """Each model, with the licence that its card names."""
    from seq2seq.interop.targets import find

    others = [*args.ensemble, *filter(None, [args.rerank])]
    for model, engine in [(args.model, args.engine), *((each, "native") for each in others)]:
        license = license_in(find(model, engine) / CARD)
        yield f"`{model}`" + (f" (licence: {license})" if license else "")


def _distill(
    args: argparse.Namespace, distillation: "Distillation", output: Output, lines: int
) -> None:
    translator, done = distillation.translator, output.done
    if done > lines:
        raise ConfigError(f"--resume: the corpus has {lines} lines, but more are finished.")
    choose, references = mbr.chooser(args, translator.config), 0
    pairs, again = tee(islice(_pairs(args), done, None))
    bar = tqdm(total=lines, initial=done, unit="line", disable=not sys.stderr.isatty())
    with bar, closing(translator.stream((pair.src for pair in pairs), first=done + 1)) as stream:
        for found, pair in zip(stream, again, strict=True):
            beside = not args.teacher_only and pair.full
            rows = [_row(pair.src, pair.tgt, output.done)] if beside else []
            rows += [
                _row(pair.src, each.text, output.done, decimal(each.score))
                for each in distillation.choose(pair, choose(found, True))
            ]
            output.write(rows)
            references += beside
            bar.update()
    left_out = ", ".join(f"{count:,} {what}" for what, count in distillation.left_out.items())
    print(
        f"{lines - done:,} lines: {references:,} references, {distillation.kept:,} translations; "
        f"left out: {left_out or 'none'}",
        file=sys.stderr,
    )


def _row(src: str, tgt: str, line: int, score: str = "") -> str:
    return "\t".join([clean(src), clean(tgt), str(line), score])
