"""Damaged JSON of ours is one error that names the file."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from seq2seq.errors import ModelFolderError
from seq2seq.versioned import read_versioned


@dataclass(frozen=True)
class Box:
    name: str
    size: int | None = None
    weight: float = 1.0


DEEP = "[" * 100_000
NESTED = '{"size":' * 400 + "1" + "}" * 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is damaged"),
        (DEEP, "is damaged: maximum recursion"),
        ('{"format_version": 1, "name": "a", "size": ' + "9" * 5000 + "}", "is damaged: Exceeds"),
        ("[1]", "has format_version=None; this seq2seq reads 1"),
        ('{"format_version": 2, "colour": "red"}', "has format_version=2; this seq2seq reads 1"),
        ('{"format_version": true, "name": "a"}', "has format_version=True"),
        ('{"format_version": 1}', "is damaged: name is missing"),
        ('{"format_version": 1, "name": null}', "is damaged: name is None"),
        ('{"format_version": 1, "name": "a", "size": 2.5}', r"is damaged: size is 2\.5"),
        ('{"format_version": 1, "name": "a", "weight": 1e400}', "is damaged: weight is inf"),
        ('{"format_version": 1, "name": "a", "weight": NaN}', "is damaged: weight is nan"),
        (
            '{"format_version": 1, "name": "a", "size": ' + NESTED + "}",
            r"is damaged: size is an object",
        ),
    ],
    ids=range(12),
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "box.json"
    path.write_text(text)
    with pytest.raises(ModelFolderError, match=f"^{path} {said}") as refusal:
        read_versioned(path, 1, Box)
    assert len(str(refusal.value)) < len(str(path)) + 200


def test_what_fits_comes_back_without_its_version(tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    path.write_text('{"format_version": 1, "name": "a", "colour": "red"}')
    assert read_versioned(path, 1, Box) == {"name": "a", "colour": "red"}


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="cannot be read: Is a directory"):
        read_versioned(tmp_path, 1, Box)
