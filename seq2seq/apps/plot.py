"""Draw what a run has logged, or where its model looks while it translates.

Without --attention: training curves against the optimizer step, of one run, or of several in one
figure. With --attention FILE: for each sentence of the file, how much the choice of every subword
of the translation looked at every subword of the sentence (cross-attention), in each head of each
layer and on average. Both become a page of HTML and, where matplotlib is installed, a PNG:
RUN/curves.html and RUN/curves.png, or RUN/attention.html and RUN/attention.png.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from seq2seq.apps.attention import MOST_SENTENCES, draw_attention, examples_of
from seq2seq.data.corpus import read_sentences
from seq2seq.data.output import check_output, write
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.reports import curves_page
from seq2seq.reports.drawing import check_drawing
from seq2seq.reports.heat_maps import Example
from seq2seq.reports.panels import Panel, panels
from seq2seq.training.logs import read_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a run folder")
    parser.add_argument(
        "--attention", metavar="FILE", help="heat maps for the sentences in this file"
    )
    parser.add_argument(
        "--translations",
        metavar="FILE",
        help="what the model is made to say, a line for each sentence; default: what it would say",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="only this file, .html or .png; default: both in RUN, or here for several runs",
    )


def run(args: argparse.Namespace) -> None:
    """Collect the numbers, draw them, print the names of the files."""
    if args.translations is not None and args.attention is None:
        raise ConfigError(f"--translations {args.translations} needs --attention: the sentences.")
    if args.attention is not None and len(args.runs) > 1:
        raise ConfigError(f"--attention is of one RUN, but {len(args.runs)} are given.")
    outputs = _outputs(args)
    if args.attention is None:
        drawn = _panels(args.runs)
        contents = (draw_curves(drawn, path) for path in outputs)
    else:
        examples = _examples(args.runs[0], *_sentences(args.attention, args.translations))
        contents = (draw_attention(examples, path) for path in outputs)
    for path, content in zip(outputs, contents, strict=True):
        write("--output", path, content)
        print(path)


def draw_curves(drawn: Sequence[Panel], path: Path) -> str | bytes:
    """What to write into this file."""
    if path.suffix == ".html":
        return curves_page.html_page(drawn)
    from seq2seq.reports.curves_picture import curves_figure
    from seq2seq.reports.picture import png

    return png(curves_figure(drawn))


def _outputs(args: argparse.Namespace) -> list[Path]:
    if args.output is not None:
        check_drawing("--output", args.output)
        check_output("--output", args.output, [args.attention, args.translations])
        return [args.output]
    name = "curves" if args.attention is None else "attention"
    folder = args.runs[0] if len(args.runs) == 1 else Path()
    page, picture = folder / f"{name}.html", folder / f"{name}.png"
    try:
        check_drawing("--output", picture)
    except ConfigError as lacking:
        print(lacking, file=sys.stderr)
        return [page]
    return [page, picture]


def _panels(runs: Sequence[Path]) -> list[Panel]:
    """Curves are named after the folders, or their whole paths where the names are the same."""
    paths = list(map(os.path.realpath, runs))
    if len(set(paths)) < len(paths):
        raise ConfigError(f"RUN {' '.join(map(str, runs))} has the same folder twice.")
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) < len(names):
        names = list(map(str, runs))
    return panels({name: read_log(run) for name, run in zip(names, runs, strict=True)})


def _sentences(source: str, target: str | None) -> tuple[list[str], list[str] | None]:
    """Those with text, and their translations if there is a file of them."""
    lines, translations = read_sentences(source, target)
    shown = [number for number, line in enumerate(lines) if line.strip()]
    sentences = [lines[number] for number in shown]
    if translations is not None:
        translations = [translations[number] for number in shown]
    if not 1 <= len(sentences) <= MOST_SENTENCES:
        raise CorpusError(
            f"--attention {source} has {len(sentences)} sentences; choose 1 to {MOST_SENTENCES}."
        )
    return sentences, translations


def _examples(
    run: Path, sentences: Sequence[str], translations: Sequence[str] | None
) -> list[Example]:
    from seq2seq.process import prepare_process  # both bring torch
    from seq2seq.translator import Translator

    prepare_process()
    # A few sentences; a GPU may be busy training.
    maps = Translator.load(run, device="cpu").attention(sentences, translations)
    return examples_of(sentences, maps)
