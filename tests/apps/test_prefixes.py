"""Every line gets the prefix on its line, and files that do not fit together are told."""

from pathlib import Path

import pytest

from seq2seq.apps.prefixes import begun_with
from seq2seq.apps.rows import Line, read_json, read_text
from seq2seq.errors import CorpusError


def lines(*texts: str) -> list[Line]:
    return [read_text(text, "here") for text in texts]


@pytest.fixture
def prefixes(tmp_path: Path) -> str:
    path = tmp_path / "begin.de"
    path.write_text("Ha\n\r\nein Boot\n", newline="\n")
    return str(path)


@pytest.mark.parametrize("skipped", [0, 1, 3])
def test_line_n_gets_prefix_n_and_a_blank_one_nothing(prefixes: str, skipped: int) -> None:
    given = lines("house", "boat", "a boat")[skipped:]
    begun = begun_with(prefixes, given, "test.en", skipped)
    found = [(line.sentence.text, line.sentence.prefix) for line in begun]
    assert found == [("house", "Ha"), ("boat", ""), ("a boat", "ein Boot")][skipped:]


def test_a_blank_prefix_leaves_what_the_line_itself_asks_for(prefixes: str) -> None:
    rows = [read_json('{"text": "a", "prefix": "x", "id": 7}', "here")] * 3
    begun = list(begun_with(prefixes, rows, "test.jsonl", 0))
    assert [line.sentence.prefix for line in begun] == ["Ha", "x", "ein Boot"]
    assert [line.fields["id"] for line in begun] == [7] * 3


@pytest.mark.parametrize(
    ("count", "skipped", "told"),
    [
        (2, 0, r"standard input ends before line 3 of \S+begin\.de;"),
        (4, 0, r"begin\.de ends before line 4 of standard input;"),
        (3, 1, r"begin\.de ends before line 4 of standard input;"),
    ],
)
def test_a_stream_that_does_not_fit_is_told_after_what_does(
    prefixes: str, count: int, skipped: int, told: str
) -> None:
    found = list[Line]()
    with pytest.raises(CorpusError, match=told):
        found.extend(begun_with(prefixes, lines(*"abcd"[:count]), "standard input", skipped))
    assert len(found) == min(count, 3 - skipped)
