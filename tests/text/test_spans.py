"""Spans by example: sentences in which brackets of the test stand around what must be found."""

import re
import subprocess
import sys
from itertools import pairwise, product

import pytest

from seq2seq.text.spans import KINDS, find_spans

MARKED = {
    "url": [
        "see ⟦https://example.org/a?b=1&c=%20#d⟧.",
        "(⟦http://x.y/⟧), ⟦https://en.example.org/wiki/A_(b)⟧!",
        "⟦www.example.com⟧: “⟦ftp://a.b⟧”, <⟦HTTPS://A.B/C⟧>",
        "⟦https://uni-köln.de/straße/今日⟧。次",
        "no://, http:// or wwww.x",
    ],
    "email": [
        "⟦anna.smith+news@mail.example.com⟧, ⟦a@b.c⟧.",
        "mailto:⟦x_y@köln.de⟧ (⟦1@2.org⟧) @name a@b",
    ],
    "tag": [
        '⟦<b>⟧bold⟦</b>⟧ ⟦<br/>⟧ ⟦<a href="x y" class=z>⟧⟦<ns:g id="1" />⟧',
        "a < b > c, 1<2>1, <3, <>, < b>",
    ],
    "number": [
        "⟦5⟧ men, ⟦5 km⟧, ⟦3.5kg⟧, ⟦1,000.50⟧, ⟦20%⟧, ⟦20 °C⟧; ⟦$5⟧ or ⟦7 €⟧, ⟦-3⟧.",
        "⟦12:30⟧ to ⟦1/2⟧ of ⟦5 m²⟧, 2nd B2 3D",
        "⟦100 km/h⟧ or ⟦27.8 m/s⟧, ⟦60mph⟧",
        "12:30pm 3.5kgs 1.5x 1,000th",
    ],
    "placeholder": [
        "⟦%s⟧ of ⟦%1$s⟧, ⟦%(name)s⟧: ⟦%d⟧, (⟦%-5.2f⟧), ⟦%lu⟧⟦%s⟧ and v⟦%1⟧.",
        "全部⟦%d⟧件、⟦%1$s⟧を⟦{0}⟧に",
        "⟦{0}⟧ in ⟦{user.name}⟧, ⟦{}⟧, ⟦${path}⟧⟦%{count}⟧⟦#{id}⟧, ⟦{{name}}⟧!",
        "100% sure, 5 %, 20%d, 100 % discount, %%s, %said, {a b}, { } and $5",
    ],
}


@pytest.mark.parametrize(
    ("kind", "sentence"), [(kind, each) for kind in MARKED for each in MARKED[kind]]
)
def test_what_stands_in_brackets_is_found_and_nothing_else(kind: str, sentence: str) -> None:
    plain = re.sub("[⟦⟧]", "", sentence)
    found = find_spans(plain, [kind])
    assert [span.text for span in found] == re.findall("⟦(.*?)⟧", sentence)
    assert all(plain[span.start : span.end] == span.text for span in found)


@pytest.mark.parametrize("kind", KINDS)
def test_no_pattern_is_one_that_python_before_3_11_5_reads_otherwise(kind: str) -> None:
    assert not re.search(r"\)[*+?}]\+|\(\?>", KINDS[kind])


def test_every_kind_has_examples() -> None:
    assert MARKED.keys() == KINDS.keys()


def test_of_two_that_overlap_the_longer_one_is_taken() -> None:
    sentence = '<a href="https://a.b/5">me@x.org at https://a.b/me@x.org/20</a>'
    found = [span.text for span in find_spans(sentence, KINDS)]
    assert found == [
        '<a href="https://a.b/5">',
        "me@x.org",
        "https://a.b/me@x.org/20",
        "</a>",
    ]


def test_spans_are_in_order_and_never_overlap_whatever_stands_side_by_side() -> None:
    parts = ["https://a.b/c", "me@x.org", "<b>", "5 km", "and", "(", "/"]
    for words in product(parts, repeat=3):
        found = find_spans("".join(words), KINDS)
        assert all(one.end <= other.start for one, other in pairwise(found))


LONG = """
from seq2seq.text.spans import KINDS, find_spans
for unit in ("a.", "ab-", "w.", "1/", "1:", "1.", "a@", "a@b.", "<a ", "(a", "%(a", "{a"):
    for end in ("", "1x", "@"):
        find_spans(unit * (500_000 // len(unit)) + end, KINDS)
find_spans("%" + 500_000 * "0", KINDS)
"""


def test_a_line_of_any_length_is_read_to_its_end() -> None:
    """In some seconds; where each place in it was a new beginning, it would be an hour."""
    subprocess.run([sys.executable, "-c", LONG], check=True, timeout=300)


def test_kinds_that_were_not_asked_for_are_left_alone() -> None:
    assert find_spans("https://a.b me@x.org <b> 5 km", []) == []
    assert [s.text for s in find_spans("https://a.b 5 km", ["number"])] == ["5 km"]
