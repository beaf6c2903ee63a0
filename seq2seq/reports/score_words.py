"""How pages about scores look, and what they call a difference."""

from html import escape

from seq2seq.reports.panels import stroke

LOWER_IS_BETTER = {"TER"}

STYLE = """
body { max-width: 78rem }
h2 { margin: 2.5rem 0 .5rem }
th, td { padding: .3rem .8rem; text-align: left; vertical-align: top; white-space: nowrap }
td { border-top: 1px solid var(--line); font-variant-numeric: tabular-nums }
small, .faint, dt { color: var(--faint); font-weight: normal }
code { font-size: .8rem; overflow-wrap: anywhere }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 50% }
.chip { padding: .1rem .5rem; border-radius: .6rem; color: black; white-space: nowrap }
.better { background: #b5e5d2 } .worse { background: #f8cfb0 } .even { background: #e4e9ee }
.scroll { overflow-x: auto }
"""


def verdict(metric: str, change: float, p_value: float, sure: float) -> tuple[str, str]:
    """The style of a difference, "better", "worse" or "even", and words for it."""
    if p_value >= sure:
        return "even", "no clear difference"
    word = "better" if (change < 0) == (metric in LOWER_IS_BETTER) else "worse"
    return word, word


def signed(change: float, digits: int = 2) -> str:
    return f"{change:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def chance(p_value: float, digits: int = 3) -> str:
    """Text: a bound where nothing but zeros would be shown, for no p is 0."""
    least = 10.0**-digits
    return f"p = {p_value:.{digits}f}" if p_value >= least / 2 else f"p < {least:g}"


def heading(metric: str) -> str:
    """HTML for the head of a column."""
    return escape(metric) + " (lower is better)" * (metric in LOWER_IS_BETTER)


def swatch(index: int) -> str:
    """The colour of the system of this index."""
    return f'<span class="swatch" style="background: {stroke(index)[0]}"></span>'
