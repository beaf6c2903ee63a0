"""A page of heat maps."""

from collections.abc import Sequence
from html import escape

from seq2seq.reports.heat_maps import KEY, Example, Weights
from seq2seq.reports.page import page

STYLE = """
body { max-width: none }
table { margin: .5rem 0; font-size: .8rem }
caption { text-align: start; white-space: nowrap; color: var(--faint) }
th { font-weight: normal; white-space: nowrap; padding: 0 .3em }
tr:first-child th { writing-mode: vertical-rl; text-align: end; padding: .3em 0 }
tr + tr th { text-align: end }
.map td { width: 1.4em; min-width: 1.4em; height: 1.4em; padding: 0; border: 1px solid var(--line);
  background: rgb(var(--ink) / var(--weight, 0)) }
.row { display: flex; flex-wrap: wrap; gap: 0 2rem }
details table { font-size: .6rem }
"""


def html_page(examples: Sequence[Example]) -> str:
    """A table for each head; text is escaped."""
    sections = "\n".join(_section(*each) for each in enumerate(examples, start=1))
    return page("Cross-attention", f"<p>{KEY}: none is empty, 1 is full.</p>\n{sections}", STYLE)


def _section(number: int, example: Example) -> str:
    mean, *layers = (
        f'<div class="row">\n{"".join(_table(*each, example) for each in row)}</div>'
        for row in example.maps
    )
    heads = "\n".join(layers)
    return f"""<section>
<h2>{number}. <bdi>{escape(example.source)}</bdi></h2>
<p dir="auto">{escape(example.translation)}</p>
{mean}
<details open="open">
<summary>Each head</summary>
{heads}
</details>
</section>"""


def _table(title: str, weights: Weights, example: Example) -> str:
    columns = "".join(f'<th scope="col">{escape(piece)}</th>' for piece in example.src)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(piece)}</th>{"".join(map(_cell, row))}</tr>'
        for piece, row in zip(example.tgt, weights, strict=True)
    )
    return f"""<table class="map">
<caption>{title}</caption>
<tr><th></th>{columns}</tr>
{rows}
</table>
"""


def _cell(weight: float) -> str:
    """Told when pointed at; what rounds to 0, or is NaN, is empty."""
    return (
        f'<td style="--weight:{weight:.2f}" title="{weight:.2f}"></td>'
        if weight >= 0.005
        else "<td></td>"
    )
