"""One page of HTML about configurations that were trained with several seeds."""

from collections.abc import Mapping
from html import escape
from itertools import groupby
from typing import Any

from seq2seq.reports import group_chart
from seq2seq.reports.group_chart import Estimate, axis_of
from seq2seq.reports.page import page
from seq2seq.reports.score_words import STYLE, chance, heading, signed, swatch, verdict

EXPLAINED = """± is the standard deviation over seeds: what another training would change.
p is what other sentences would change: how likely these models, if they were equally good, are to
differ this much by chance. All translations of a sentence, from all seeds, are drawn together; the
seeds are not drawn. So a difference is to be trusted, and has a colour, only if p is below {sure:g}
and it exceeds both standard deviations, which takes two seeds at least."""


def html_page(report: Mapping[str, Any]) -> str:
    """`report` is what stands in report.json."""
    baseline, *others = report["configs"]
    title = f"{', '.join(others)} against {baseline}" if others else f"Seeds of {baseline}"
    explained = f'<p class="faint">{EXPLAINED.format(sure=report["sure"])}</p>'
    missing = "".join(f"<li>{escape(each)}</li>" for each in report["missing"])
    sections = [
        f"<p>Seeds {', '.join(map(str, report['seeds']))}.</p>",
        f"<p>Missing:</p>\n<ul>{missing}</ul>" if missing else "",
        *(_test_set(report, name, each) for name, each in report["test_sets"].items()),
        explained if report["test_sets"] else "",
    ]
    return page(title, "\n".join(filter(None, sections)), f"{STYLE}{group_chart.STYLE}")


def _test_set(report: Mapping[str, Any], name: str, found: Mapping[str, Any]) -> str:
    by_metric = {
        metric: {score["config"]: score for score in group}
        for metric, group in groupby(found["scores"], key=lambda score: score["name"])
    }
    head = "".join(f'<th scope="col" colspan="2">{heading(metric)}</th>' for metric in by_metric)
    rows = "\n".join(
        f"<tr><td>{swatch(index)} {escape(config)}</td>"
        + "".join(_cells(scores, config, index, report["sure"]) for scores in by_metric.values())
        + "</tr>"
        for index, config in enumerate(report["configs"])
        if any(config in scores for scores in by_metric.values())
    )
    signatures = "<br />".join(
        f"<code>{escape(metric)}|{escape(signature)}</code>"
        for metric, scores in by_metric.items()
        for signature in _signatures(scores)
    )
    return f"""<h2>{escape(name)}</h2>
<p>{found["sentences"]:,} sentences.</p>
<div class="scroll"><table>
<tr><th></th>{head}</tr>
{rows}
</table></div>
<details><summary>Each seed</summary>
{_seeds(by_metric)}
</details>
<p>{signatures}</p>"""


def _signatures(scores: Mapping[str, Any]) -> list[str]:
    """Of the scores, and of the test if there was one."""
    first, *others = scores.values()
    tested = any(score["p_value"] is not None for score in others)
    return [first["signature"], *([first["test_signature"]] if tested else [])]


def _cells(scores: Mapping[str, Any], config: str, index: int, sure: float) -> str:
    score, baseline = scores[config], next(iter(scores.values()))
    values = [Estimate(each) for score in scores.values() for each in score["values"].values()]
    own = list(score["values"].values())
    picture = group_chart.dots(own, axis_of(values), index)
    said = Estimate(score["mean"], score["mean"], score["deviation"])
    below = f"{len(own)} seed{'s'[: len(own) > 1]}"
    if score["p_value"] is None:
        below += ", baseline" * (index == 0 and len(scores) > 1)
    else:
        change = score["mean"] - baseline["mean"]
        word, _ = verdict(score["name"], change, score["p_value"], sure)
        deviations = [score["deviation"], baseline["deviation"]]
        if not all(each is not None and each < abs(change) for each in deviations):
            word = "even"  # as two seeds of one configuration may differ
        p_value = f'<span class="chip {word}">{escape(chance(score["p_value"]))}</span>'
        below = f"{below}, {signed(change)} {p_value}"
    return f"<td>{said}<br /><small>{below}</small></td><td>{picture}</td>"


def _seeds(by_metric: Mapping[str, Any]) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(config)}</td><td>{seed}</td>"
        + "".join(f"<td>{scores[config]['values'][seed]:.2f}</td>" for scores in by_metric.values())
        + "</tr>"
        for config, score in next(iter(by_metric.values())).items()
        for seed in score["values"]
    )
    head = "".join(f'<th scope="col">{escape(metric)}</th>' for metric in by_metric)
    return f"""<div class="scroll"><table>
<tr><th></th><th scope="col">seed</th>{head}</tr>
{rows}
</table></div>"""
