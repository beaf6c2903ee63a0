"""Heat maps of attention, for the commands that draw them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.reports import attention_page
from seq2seq.reports.heat_maps import Example
from seq2seq.text.normalize import clean

if TYPE_CHECKING:
    from seq2seq.second_look import AttentionMap

MOST_SENTENCES = 20
"""That can be looked at."""


def examples_of(sentences: Sequence[str], maps: Sequence["AttentionMap"]) -> list[Example]:
    """What is drawn of each sentence; its controls, which no page may have, are spaces."""
    return [
        Example(clean(sentence), each.translation, each.src, each.tgt, each.weights.tolist())
        for sentence, each in zip(sentences, maps, strict=True)
    ]


def draw_attention(examples: Sequence[Example], path: Path) -> str | bytes:
    """What to write into this file; says which letters a PNG lacks."""
    if path.suffix == ".html":
        return attention_page.html_page(examples)
    from seq2seq.reports.attention_picture import attention_figure
    from seq2seq.reports.picture import png

    figure, missing = attention_figure(examples)
    if missing:
        print(
            f"{path}: no installed font has {''.join(sorted(missing))}; it shows their code "
            f"points, a page of HTML shows them",
            file=sys.stderr,
        )
    return png(figure)
