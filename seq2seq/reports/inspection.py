"""One page of HTML about inspected corpora."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from seq2seq.reports.page import page

STYLE = """
th, td { padding: .2rem .7rem; text-align: left; vertical-align: top }
td { border-bottom: 1px solid var(--line) }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.example { color: var(--faint); overflow-wrap: anywhere }
.spoils, .warns, .note { color: black }
.spoils { background: #f7c6c5 } .warns { background: #fbe8b0 } .note { background: #e4e9ee }
svg { height: 6rem; width: 24rem; border-bottom: 1px solid #888 } rect { fill: rgb(var(--ink)) }
figure { display: inline-block; margin: 0 2rem 1rem 0 }
"""


def html_page(corpora: Sequence[Mapping[str, Any]], verdict: str) -> str:
    """`corpora` holds `CorpusReport`s as dictionaries; text of the corpora is escaped."""
    sections = "\n".join(map(_section, corpora))
    return page("Inspection", f"<p>{escape(verdict)}</p>\n{sections}", STYLE)


def _section(corpus: Mapping[str, Any]) -> str:
    findings = "\n".join(map(_finding, corpus["findings"])) or _row("nothing was found")
    return f"""<h2>{escape(corpus["role"])}: {escape(corpus["files"])}</h2>
<p>{corpus["pairs"]:,} pairs were looked at. In train, the median pair has {corpus["ratio"]:.2f}
target characters for each source character.</p>
<table>
<tr><th></th><th>finding</th><th>count</th><th>share</th><th>examples</th></tr>
{findings}
</table>
{_side("source", corpus["src"])}
{_side("target", corpus["tgt"])}"""


def _row(text: str) -> str:
    return f'<tr><td colspan="5">{escape(text)}</td></tr>'


def _finding(finding: Mapping[str, Any]) -> str:
    examples = "<br />".join(map(_example, finding["examples"]))
    return (
        f'<tr><td class="{finding["severity"]}">{finding["severity"]}</td>'
        f"<td><b>{escape(finding['name'])}</b>: {escape(finding['says'])}</td>"
        f'<td class="number">{finding["count"]:,}</td>'
        f'<td class="number">{finding["share"]:.2%}</td>'
        f'<td class="example">{examples}</td></tr>'
    )


def _example(example: Mapping[str, Any]) -> str:
    note = f" ({escape(example['note'])})" if example["note"] else ""
    src, tgt = (f"<bdi>{escape(example[side])}</bdi>" for side in ("src", "tgt"))
    return f"line {example['line']:,}{note}: {src} ↔ {tgt}"


def _side(name: str, side: Mapping[str, Any]) -> str:
    """Numbers and a histogram of the lengths of one side."""
    highest = max(count for _, count in side["histogram"]) or 1
    bars = "\n".join(
        f'<rect x="{n}" y="{100 - 100 * count / highest:.1f}" width="0.9" '
        f'height="{100 * count / highest:.1f}"><title>up to {upper}: {count:,}</title></rect>'
        for n, (upper, count) in enumerate(side["histogram"])
    )
    subwords = ""
    if side["subwords_per_unit"] is not None:
        unit = side["unit"].removesuffix("s")
        subwords = (
            f"; {side['subwords_per_unit']:.2f} subwords per {unit}, "
            f"{side['unlearned_share']:.2%} of them unknown or bytes"
        )
    return f"""<figure>
<svg viewBox="0 0 {len(side["histogram"])} 100" preserveAspectRatio="none">
{bars}
</svg>
<figcaption>{name} length in {side["unit"]}: mean {side["mean"]:.1f}, median {side["median"]},
99 % up to {side["percentile99"]}, longest {side["longest"]:,}{subwords}</figcaption>
</figure>"""
