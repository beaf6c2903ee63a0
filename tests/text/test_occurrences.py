"""Counting phrases: Python's regular expressions are the oracle, and slow definitions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.text.occurrences import Matcher, occurrences
from seq2seq.text.words import cuts

TEXTS = st.text("ab .<é", max_size=12)
PHRASES = st.text("ab .<é", min_size=1, max_size=4)


def by_regular_expression(phrase: str, text: str) -> int:
    left = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    right = r"(?!\w)" if re.search(r"\w\Z", phrase) else ""
    # If a phrase begins or ends with another character, a word may be glued to it.
    return len(re.findall(rf"{left}(?={re.escape(phrase)}{right})", text))


@given(PHRASES, TEXTS)
def test_occurrences_are_whole_words_and_may_overlap(phrase: str, text: str) -> None:
    assert occurrences(phrase, text) == by_regular_expression(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "text", "times"),
    [
        ("Auto", "Auto, Autos, ein Auto", 2),
        ("<b>", "a<b>c<b>", 2),
        ("a a", "a a a", 2),
        ("今日", "今日今日は", 2),
        ("コーヒー", "コーヒーを", 1),
        ("क", "की क", 1),  # a vowel sign belongs to its word
        ("https://a.b", "(https://a.b/c https://a.bc)", 1),
    ],
)
def test_occurrences_by_example(phrase: str, text: str, times: int) -> None:
    assert occurrences(phrase, text) == times


@given(TEXTS)
def test_cuts_are_where_a_regular_expression_sees_no_inside_of_a_word(text: str) -> None:
    inside = {match.start() for match in re.finditer(r"(?<=\w)(?=\w)", text)}
    assert cuts(text) == [at for at in range(len(text) + 1) if at not in inside]


@given(st.lists(st.text("ab", min_size=1, max_size=4)), st.text("abc", max_size=12))
def test_the_matcher_knows_what_ends_and_what_has_begun(patterns: list[str], text: str) -> None:
    matcher, node = Matcher(patterns), 0
    nodes = {""} | {pattern[:size] for pattern in patterns for size in range(len(pattern) + 1)}
    for at, character in enumerate(text, start=1):
        node = matcher.step(node, character)
        there = [index for index, each in enumerate(patterns) if text[:at].endswith(each)]
        assert sorted(matcher.ends(node)) == there
        begun = [each for each in nodes if text[:at].endswith(each)]
        assert len(list(matcher.beginnings(node))) == len(begun)
