"""One page of HTML about systems on a test set."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from seq2seq.reports import group_chart, score_words
from seq2seq.reports.group_chart import Estimate, axis_of, chart
from seq2seq.reports.page import page
from seq2seq.reports.score_words import (
    LOWER_IS_BETTER,
    chance,
    heading,
    signed,
    swatch,
    verdict,
)

MOST_LINES = 12
"""Of lines named in a cell."""

STYLE = f"""{score_words.STYLE}
:root {{ --right: 0 158 115; --wrong: 213 94 0 }}
td.best {{ font-weight: 600 }} td.wide {{ white-space: normal }}
.charts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(23rem, 100%), 1fr)) }}
figure {{ margin: 0 1rem 1.5rem 0 }}
figure table {{ font-size: .85rem }}
article {{ border: 1px solid var(--line); border-radius: .4rem; padding: .6rem 1rem;
  margin: .8rem 0 }}
article h4 {{ margin: 0 0 .3rem; font-size: .85rem; font-weight: normal; color: var(--faint) }}
dl {{ margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: .15rem .8rem }}
dd {{ margin: 0; overflow-wrap: anywhere }}
.sides {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr));
  gap: .4rem 1.5rem; margin-top: .5rem; padding-top: .5rem; border-top: 1px solid var(--line) }}
.sides p {{ margin: 0; overflow-wrap: anywhere }}
mark {{ color: inherit; border-radius: .15rem; padding: 0 .1em }}
mark.right {{ background: rgb(var(--right) / .3); border-bottom: 2px solid rgb(var(--right)) }}
mark.wrong {{ background: rgb(var(--wrong) / .2); border-bottom: 2px dotted rgb(var(--wrong)) }}
.share {{ display: flex; height: .8rem; max-width: 40rem; margin: .4rem 0 }}
.share div {{ height: 100% }}
{group_chart.STYLE}"""


def html_page(comparison: Mapping[str, Any]) -> str:
    """`comparison` is a `Comparison` as a dictionary; text of the corpora is escaped."""
    baseline, *others = comparison["systems"]
    sections = [
        _head(comparison),
        _scores(comparison),
        _outputs(comparison["outputs"]),
        _charts(comparison),
        *(_differences(baseline, each) for each in comparison["differences"]),
    ]
    title = f"{', '.join(others)} against {baseline}" if others else f"Evaluation of {baseline}"
    return page(title, "\n".join(sections), STYLE)


def _head(comparison: Mapping[str, Any]) -> str:
    references = comparison["references"]
    said = f"{comparison['sentences']:,} sentences, {references} reference{'s'[: references > 1]}."
    verdicts = "\n".join(
        f"<li><b>{escape(name)}</b>: "
        + ", ".join(
            _verdict(score, baseline, comparison["sure"])
            for score, baseline in _with_baseline(comparison["scores"])
            if score["system"] == name
        )
        + "</li>"
        for name in comparison["systems"][1:]
    )
    return f"<p>{said}</p>" + (f"\n<ul>{verdicts}</ul>" if verdicts else "")


def _with_baseline(
    scores: Sequence[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each score of the other systems, and the baseline's in the same metric."""
    pairs = []
    for _, group in groupby(scores, key=lambda score: score["name"]):
        baseline, *others = group
        pairs += [(each, baseline) for each in others]
    return pairs


def _verdict(score: Mapping[str, Any], baseline: Mapping[str, Any], sure: float) -> str:
    """How sure a difference is, and which way it goes."""
    change = score["value"] - baseline["value"]
    said = f"{score['name']} {signed(change)}"
    if score["p_value"] is None:
        return said
    style, word = verdict(score["name"], change, score["p_value"], sure)
    told = escape(f"{word}, {chance(score['p_value'])}")
    return f'{said} <span class="chip {style}">{told}</span>'


def _scores(comparison: Mapping[str, Any]) -> str:
    by_metric = {
        name: list(group)
        for name, group in groupby(comparison["scores"], key=lambda score: score["name"])
    }
    head = "".join(f'<th scope="col" colspan="2">{heading(name)}</th>' for name in by_metric)
    rows = "\n".join(
        f'<tr><td scope="row">{swatch(index)} {escape(system)}</td>'
        + "".join(_score_cells(scores, index) for scores in by_metric.values())
        + "</tr>"
        for index, system in enumerate(comparison["systems"])
    )
    signatures = "<br />".join(
        f"<code>{escape(name)}|{escape(scores[0]['signature'])}</code>"
        for name, scores in by_metric.items()
    )
    return f"""<h2>Scores</h2>
<div class="scroll"><table>
<tr><th></th>{head}</tr>
{rows}
</table></div>
<p class="faint">{_how(comparison)}</p>
<p>{signatures}</p>"""


def _score_cells(scores: Sequence[Mapping[str, Any]], index: int) -> str:
    estimates = [_estimate(score) for score in scores]
    best = (min if scores[0]["name"] in LOWER_IS_BETTER else max)(e.value for e in estimates)
    mark = ' class="best"' if len(scores) > 1 and estimates[index].value == best else ""
    below = ""
    if index and scores[index]["p_value"] is not None:
        change = estimates[index].value - estimates[0].value
        said = f"{signed(change)}, {chance(scores[index]['p_value'])}"
        below = f"<br /><small>{escape(said)}</small>"
    picture = group_chart.row(estimates[index], axis_of(estimates), index)
    return f"<td{mark}>{estimates[index]}{below}</td><td>{picture}</td>"


def _how(comparison: Mapping[str, Any]) -> str:
    first = comparison["scores"][0]
    if first["interval"] is None:
        return "Without resamples there are no intervals and no tests."
    said = "± is half of the 95 % interval of bootstrap resamples of the test set."
    if len(comparison["systems"]) > 1:
        said += (
            f" p says how likely equally good systems are to differ this much by chance "
            f"({comparison['test']}); it compares sentence by sentence, so it may be small though "
            f"intervals overlap. Better and worse are said below {comparison['sure']:g}, which "
            f"equally good systems reach in one of twenty comparisons."
        )
    return said


def _estimate(score: Mapping[str, Any]) -> Estimate:
    return Estimate(score["value"], score["mean"], score["interval"])


def _outputs(outputs: Sequence[Mapping[str, Any]]) -> str:
    rows = "\n".join(
        f"<tr><td>{swatch(index)} {escape(each['system'])}</td>"
        f"<td>{each['length_ratio']:.3f}</td>"
        f"{_lines(each['empty'])}{_lines(each['long'])}{_lines(each['copies'])}</tr>"
        for index, each in enumerate(outputs)
    )
    return f"""<h2>Output</h2>
<div class="scroll"><table>
<tr><th></th><th scope="col">length ratio</th><th scope="col">empty</th>
<th scope="col">over-long</th><th scope="col">untranslated copies</th></tr>
{rows}
</table></div>
<p class="faint">The length ratio counts words of the output for each word of the reference, as BLEU
does: below 1 BLEU is lowered by its brevity penalty. Over-long: more than twice the words of the
reference, and 5 more. Copies are equal to their source, but not to a reference.</p>"""


def _lines(numbers: Sequence[int] | None) -> str:
    if numbers is None:
        return '<td class="faint">needs --source</td>'
    named = ", ".join(f"{each}" for each in numbers[:MOST_LINES])
    more = ", …" if len(numbers) > MOST_LINES else ""
    which = f" <small>line{'s'[: len(numbers) > 1]} {named}{more}</small>" if numbers else ""
    return f'<td class="wide">{len(numbers):,}{which}</td>'


def _charts(comparison: Mapping[str, Any]) -> str:
    systems = comparison["systems"]
    metric = comparison["scores"][0]["name"]
    figures = [
        _figure(
            each["title"],
            metric,
            [(group["label"], group["sentences"]) for group in each["groups"]],
            [
                (name, [_estimate(group["scores"][index]) for group in each["groups"]])
                for index, name in enumerate(systems)
            ],
            "sentences",
        )
        for each in comparison["groupings"]
    ]
    figures.append(
        _figure(
            f"Times that a word was seen in {comparison['seen_in']}",
            "F1 of words",
            [(each["words"], each["total"]) for each in comparison["found"]],
            [
                (name, [Estimate(each["f1"][index]) for each in comparison["found"]])
                for index, name in enumerate(systems)
            ],
            "words of the reference",
        )
    )
    legend = " &#160; ".join(f"{swatch(n)} {escape(name)}" for n, name in enumerate(systems))
    intervals = comparison["scores"][0]["interval"] is not None
    whiskers = ' <span class="faint">&#160; with 95 % intervals</span>' if intervals else ""
    return f"""<h2>Long sentences and rare words</h2>
<p>{legend}{whiskers}</p>
<div class="charts">
{"".join(figures)}
</div>"""


def _figure(
    title: str,
    unit: str,
    groups: Sequence[tuple[str, int]],
    series: Sequence[tuple[str, Sequence[Estimate]]],
    counted: str,
) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name, _ in series)
    rows = "\n".join(
        f"<tr><td>{escape(label)}</td><td>{count:,}</td>"
        + "".join(f"<td>{values[place]}</td>" for _, values in series)
        + "</tr>"
        for place, (label, count) in enumerate(groups)
    )
    return f"""<figure>
{chart(title, unit, [label for label, _ in groups], series)}
<details><summary>{escape(unit)} in numbers</summary>
<div class="scroll"><table>
<tr><th scope="col">{escape(title)}</th><th scope="col">{counted}</th>{head}</tr>
{rows}
</table></div></details>
</figure>
"""


def _differences(baseline: str, found: Mapping[str, Any]) -> str:
    counts = [found["better"], found["same"], found["worse"]]
    bar = "".join(
        f'<div class="{kind}" style="flex: {count}"></div>'
        for kind, count in zip(("better", "even", "worse"), counts, strict=True)
    )
    name = escape(found["system"])
    lists = "".join(
        f"<h3>Where {name} is {word}</h3>\n"
        + "".join(_difference(baseline, found["system"], each) for each in found[key])
        for key, word in (("gains", "better"), ("losses", "worse"))
        if found[key]
    )
    return f"""<h2>{name} against {escape(baseline)}, sentence by sentence</h2>
<p>By the chrF2 of single sentences {name} is better in {counts[0]:,}, equal in {counts[1]:,} and
worse in {counts[2]:,}.</p>
<div class="share">{bar}</div>
<p>Below are the largest differences. Words that the other system does not have there are marked:
<mark class="right">in the reference</mark>,
<mark class="wrong">not there, or not once more</mark>.</p>
{lists}"""


def _difference(baseline: str, system: str, each: Mapping[str, Any]) -> str:
    texts = {"source": each["source"], "reference": each["reference"]}
    listed = "".join(
        f'<dt>{name}</dt><dd dir="auto">{escape(text)}</dd>'
        for name, text in texts.items()
        if text is not None
    )
    before, after = each["baseline"], each["system"]
    sides = "".join(
        f"<div><small>{swatch(index)} {escape(name)}, chrF2 {side['chrf']:.1f}</small>"
        f'<p dir="auto">{_marked(side["marked"])}</p></div>'
        for index, (name, side) in enumerate(((baseline, before), (system, after)))
    )
    change = after["chrf"] - before["chrf"]
    return f"""<article>
<h4>line {each["line"]:,}: chrF2 {signed(change, 1)}</h4>
<dl>{listed}</dl>
<div class="sides">{sides}</div>
</article>
"""


def _marked(pieces: Sequence[tuple[str, str]]) -> str:
    if not pieces:
        return '<span class="faint">(empty)</span>'
    return "".join(
        escape(text) if mark == "same" else f'<mark class="{mark}">{escape(text)}</mark>'
        for text, mark in pieces
    )
