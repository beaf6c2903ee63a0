"""Heat maps show the weights that they are given, with the subwords that they belong to."""

import math
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import numpy as np
import pytest

from seq2seq.errors import ConfigError
from seq2seq.reports.attention_page import html_page
from seq2seq.reports.heat_maps import Example, Weights

SRC = ["▁<script>", "alert(1)", "▁今日", "▁$x_1$", "&amp;", "</s>"]
TGT = ["▁النص", "▁\U000f0000", "']]>", "</s>"]  # U+F0000 is for private use: no font has it
LAYERS, HEADS = 2, 3


def weights(layer: int, head: int) -> list[list[float]]:
    """Rows that sum to 1, others in every head."""
    rows = [
        [1.0 + (5 * s + 3 * t + 2 * head + layer) % 7 for s in range(len(SRC))]
        for t in range(len(TGT))
    ]
    return [[each / sum(row) for each in row] for row in rows]


def example() -> Example:
    heads = [[weights(layer, head) for head in range(HEADS)] for layer in range(LAYERS)]
    return Example("<script>alert(1)</script> 今日", "\U000f0000 & ']]>", SRC, TGT, heads)


def mean() -> list[list[float]]:
    every = [weights(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    return [
        [sum(each[t][s] for each in every) / len(every) for s in range(len(SRC))]
        for t in range(len(TGT))
    ]


def close(found: Weights, expected: Weights, abs: float = 1e-12) -> bool:
    return all(
        list(row) == pytest.approx(list(wanted), abs=abs)
        for row, wanted in zip(found, expected, strict=True)
    )


def test_the_mean_stands_before_the_heads_of_each_layer() -> None:
    (first,), *layers = example().maps
    assert first[0] == "mean of 6 heads"
    assert close(first[1], mean())
    titles = [[title for title, _ in row] for row in layers]
    assert titles == [[f"layer {n}, head {m}" for m in (1, 2, 3)] for n in (1, 2)]
    assert [[each for _, each in row] for row in layers] == example().heads


def tables(page: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>")).iter("table"))


def cells(table: ElementTree.Element) -> list[list[float]]:
    rows = list(table.iter("tr"))[1:]
    return [[float(cell.get("title", "0")) for cell in row.iter("td")] for row in rows]


def test_a_table_of_the_page_has_subwords_on_both_sides_and_the_weights_between() -> None:
    found = tables(html_page([example(), example()]))
    assert len(found) == 2 * (1 + LAYERS * HEADS)
    expected = [mean()] + [weights(n, m) for n in range(LAYERS) for m in range(HEADS)]
    for table, wanted in zip(found, 2 * expected, strict=True):
        first, *others = table.iter("tr")
        assert [cell.text for cell in first.iter("th")][1:] == SRC
        assert [cell.text for row in others for cell in row.iter("th")] == TGT
        assert close(cells(table), wanted, abs=0.00501)
        for cell in table.iter("td"):
            assert cell.get("style") == f"--weight:{cell.get('title')}"


def test_what_rounds_to_nothing_or_is_no_number_is_an_empty_cell() -> None:
    row = [0.0, 0.004, 0.006, 1.0, math.nan]
    page = html_page([Example("a", "b", list("abcde"), ["b"], [[[row]]])])
    assert cells(tables(page)[1]) == [[0, 0, 0.01, 1, 0]]
    assert "nan" not in page


def test_the_page_is_well_formed_needs_no_network_and_escapes_sentences() -> None:
    page = html_page([example()])
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert "script" not in {element.tag for element in tree.iter()}
    text = "".join(tree.itertext())
    assert f"1. {example().source}" in text
    assert example().translation in text
    assert not {"src", "href"} & {name for element in tree.iter() for name in element.attrib}
    assert "url(" not in page


def test_a_sentence_has_its_own_direction() -> None:
    """Otherwise the full stop of a right-to-left one stands at its beginning."""
    page = html_page([Example("בית.", "بيت.", ["a"], ["b"], [[[[1.0]]]])])
    assert "<h2>1. <bdi>בית.</bdi></h2>" in page
    assert '<p dir="auto">بيت.</p>' in page


def labels(texts: Sequence[object]) -> list[str]:
    return [text.get_text() for text in texts]  # type: ignore[attr-defined]


def test_a_picture_has_the_weights_themselves_and_letters_that_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    from seq2seq.reports.attention_picture import attention_figure
    from seq2seq.reports.picture import png

    figure, missing = attention_figure([example(), example()])
    assert "\U000f0000" in missing
    assert not missing & set("</s>$_▁&النص")
    assert len(figure.axes) == 2 * (1 + LAYERS * HEADS)
    expected = [mean()] + [weights(n, m) for n in range(LAYERS) for m in range(HEADS)]
    for axes, wanted in zip(figure.axes, 2 * expected, strict=True):
        (image,) = axes.get_images()
        assert close(np.asarray(image.get_array()).tolist(), wanted)
        assert image.get_clim() == (0, 1)  # so that all can be compared
        assert labels(axes.get_yticklabels())[1] == "▁[U+F0000]"
        assert labels(axes.get_xticklabels())[3] == "▁$x_1$"
        assert (len(axes.get_xticks()), len(axes.get_yticks())) == (len(SRC), len(TGT))
    assert figure.axes[1].get_title(loc="left") == "layer 1, head 1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a letter without a glyph warns
        assert png(figure).startswith(b"\x89PNG")


def test_every_label_of_a_picture_is_inside_it_and_maps_do_not_overlap() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from seq2seq.reports.attention_picture import attention_figure

    long = ["▁WWWWWWWWWWWWWWWW", "mmmmmmmm", "i", "▁ただ", "</s>"]
    many = [[[[0.2] * 5] * 5] * HEADS] * LAYERS
    figure, _ = attention_figure([Example("a", "b", long, long, many), example()])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [axes.get_tightbbox(canvas.get_renderer()) for axes in figure.axes]
    for index, box in enumerate(boxes):
        assert box is not None
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert not any(other is not None and box.overlaps(other) for other in boxes[index + 1 :])


def test_fonts_are_found_for_letters_that_the_first_one_lacks() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import font_manager

    from seq2seq.reports.picture import typeface_for

    assert typeface_for(["abc ▁", "ü"]) == (["DejaVu Sans"], frozenset())
    first, other = (
        font_manager.get_font(font_manager.findfont(name)).get_charmap()
        for name in ("DejaVu Sans", "STIXGeneral")  # matplotlib brings both
    )
    only_there = chr(min(other.keys() - first.keys()))
    found = typeface_for(["a", only_there, "\U000f0000"])
    assert found.missing == {"\U000f0000"}
    assert found.fonts[0] == "DejaVu Sans"
    (second,) = found.fonts[1:]
    assert ord(only_there) in font_manager.get_font(font_manager.findfont(second)).get_charmap()
    assert found.spelled("a\U000f0000b") == "a[U+F0000]b"


def test_a_picture_that_would_be_too_large_is_an_error_that_says_so() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from seq2seq.reports.picture import png

    with pytest.raises(ConfigError, match=r"150 x 75000 pixels.* draw fewer or shorter sentences"):
        png(Figure(figsize=(1, 500)))
