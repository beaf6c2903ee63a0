"""Glossaries: what is read, what is found, and what a broken line says."""

import re
from typing import Literal
from unicodedata import normalize

import pytest

from seq2seq.errors import ConfigError
from seq2seq.text.glossary import Glossary
from seq2seq.text.spans import find_spans

Form = Literal["NFC", "NFD"]
TERMS = {
    "car": "Auto",
    "car park": "Parkplatz",
    "Apple": "Apple",
    "apple": "Apfel",
    "free software": "freie Software",
    "東京": "Tokio",
    "C++": "C plus plus",
}


def names(targets: list[tuple[int, str]]) -> list[str]:
    return [name for _, name in targets]


@pytest.mark.parametrize(
    ("sentence", "targets"),
    [
        ("a car, the car.", ["Auto", "Auto"]),
        ("A CAR and a Car", ["Auto", "Auto"]),
        ("cars scare a carpet, car2", []),
        ("the car park of a car", ["Parkplatz", "Auto"]),
        ("Apple sells an apple, APPLE", ["Apple", "Apfel", "Apfel"]),
        ("free  software", ["freie Software"]),
        ("a CAR \u00a0\u3000park,  a car", ["Parkplatz", "Auto"]),
        (" car   ", ["Auto"]),
        ("freesoftware, free-software", []),
        ("(car)-car “car”", ["Auto", "Auto", "Auto"]),
        ("今日東京です", ["Tokio"]),
        ("C++ is C++.", ["C plus plus", "C plus plus"]),
        ("", []),
    ],
)
def test_whole_words_are_found_the_longest_first(sentence: str, targets: list[str]) -> None:
    assert names(Glossary(TERMS).targets(sentence)) == targets


def test_a_target_says_where_its_source_term_begins() -> None:
    sentence = "Cafe\u0301 car, car parks, a (car park)"
    places = [sentence.index("car,"), sentence.index("car parks"), sentence.index("car park)")]
    assert [start for start, _ in Glossary(TERMS).targets(sentence)] == places


@pytest.mark.parametrize("given", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_an_accent_may_be_a_character_of_its_own(given: Form, written: Form) -> None:
    glossary = Glossary.parse([normalize(given, "café crème\tKaffee")], "g.tsv")
    assert glossary.targets(normalize(written, "un café crème.")) == [(3, "Kaffee")]
    other = Glossary({normalize(given, "café"): "x"})
    assert other.targets(normalize(written, "Café")) == [(0, "x")]


def test_nothing_is_found_that_touches_a_protected_span() -> None:
    sentence = "a car at https://a.b/car park"
    spans = find_spans(sentence, ["url"])
    assert Glossary(TERMS).targets(sentence, spans) == [(2, "Auto")]
    assert names(Glossary(TERMS).targets(sentence)) == ["Auto", "Parkplatz"]


def test_a_term_of_many_words_is_found_whatever_spaces_and_accents_it_is_written_with() -> None:
    term = "が ぎ ぐ crème brûlée à la carte"
    written = "  ".join(normalize("NFD", term).split(" "))
    glossary = Glossary({term: "x", "à la": "y"})
    assert glossary.targets(f"un {written}\u00a0!") == [(3, "x")]


def test_a_glossary_is_read_line_by_line() -> None:
    lines = ["car\tAuto\r", "", " car park \t Parkplatz ", "car\tAuto", "\t\t"]
    assert Glossary.parse(lines, "g.tsv").terms == {"car": "Auto", "car park": "Parkplatz"}
    assert Glossary.parse([], "g.tsv").targets("a car") == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a\tb", "car"], "g.tsv line 2 has 1 columns"),
        (["a\tb\tc"], "g.tsv line 1 has 3 columns"),
        (["", "\tb"], "g.tsv line 2: the source term is empty"),
        (["a\t "], "g.tsv line 1: the target term is empty"),
        (["a\tb", "c\td", "a\te"], "g.tsv line 3: 'a' is 'e' here but 'b' in line 1"),
        (["a b\tc", "a \u00a0b\td"], "g.tsv line 2: 'a b' is 'd' here but 'c' in line 1"),
    ],
)
def test_a_broken_line_is_named(lines: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Glossary.parse(lines, "g.tsv")
