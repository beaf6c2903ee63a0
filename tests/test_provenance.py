"""Facts survive the file, damage is named, and scores of other weights are forgotten."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq.errors import ModelFolderError
from seq2seq.provenance import (
    Corpus,
    File,
    Provenance,
    read_provenance,
    with_command,
    with_corpora,
    without_scores,
    write_provenance,
)

SCORED: Corpus = {
    "role": "test",
    "name": "news",
    "pairs": 2,
    "files": [{"path": "a", "sha256": "0" * 64, "lines": 2}, {"path": "b", "sha256": "1" * 64}],
    "scores": [{"name": "BLEU", "value": 12.5, "signature": "nrefs:1"}],
    "search": {"beam": 5},
}
FACTS: Provenance = {
    "commands": ["seq2seq fit --config config.yaml"],
    "config": {"run": "runs/ä"},
    "license": "cc-by-4.0",
    "data": [{"role": "train", "pairs": 9, "files": []}, SCORED],
    "terms": {"SOURCE.md": "text"},
    "training": {
        "steps": 3,
        "seconds": 2,
        "hardware": [
            {"device": "cpu", "processes": 1, "precision": "32-true", "attention": "folded"}
        ],
    },
    "weights": {"kind": "best checkpoint", "steps": [3]},
    "parent": {
        "path": "runs/old",
        "format": "seq2seq",
        "files": [],
        "provenance": {"license": "mit"},
    },
    "software": {"torch": "2"},
    "card": "f" * 64,
}


def test_facts_come_back_as_they_were_and_unknown_ones_of_a_later_version_too(
    tmp_path: Path,
) -> None:
    path = tmp_path / "provenance.json"
    later: Any = {**FACTS, "mood": ["good"]}
    write_provenance(tmp_path, later, "# A card\n")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# A card\n"
    expected = {**later, "card": hashlib.sha256(b"# A card\n").hexdigest()}
    assert read_provenance(path) == expected
    assert json.loads(path.read_text(encoding="utf-8"))["format_version"] == 1


def test_no_file_is_no_fact(tmp_path: Path) -> None:
    assert read_provenance(tmp_path / "provenance.json") == {}


def change(facts: Any, path: tuple[Any, ...], value: object) -> None:
    for key in path[:-1]:
        facts = facts[key]
    facts[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("commands",), "fit", r"commands is 'fit'"),
        (("commands", 0), 1, r"commands\[0\] is 1"),
        (("data", 1, "role"), "dev", r"data\[1\]\.role is 'dev'"),
        (("data", 1, "pairs"), True, r"data\[1\]\.pairs is True"),
        (("data", 1, "files", 0), {"path": "a"}, r"data\[1\]\.files\[0\]\.sha256 is missing"),
        (("data", 1, "scores", 0, "value"), "12", r"data\[1\]\.scores\[0\]\.value is '12'"),
        (("terms", "SOURCE.md"), None, r"terms\.SOURCE\.md is None"),
        (("config",), [], r"config is a list"),
        (("training",), 3, r"training is 3"),
        (("parent", "provenance", "license"), 5, r"parent\.provenance\.license is 5"),
    ],
)
def test_a_damaged_fact_is_named(
    tmp_path: Path, path: tuple[Any, ...], value: object, said: str
) -> None:
    facts = copy.deepcopy(FACTS)
    change(facts, path, value)
    file = tmp_path / "provenance.json"
    write_provenance(tmp_path, facts, "")
    with pytest.raises(ModelFolderError, match=rf"provenance\.json is damaged: {said}"):
        read_provenance(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is damaged"),
        (b"\xff", "is damaged"),
        (b"[]", "format_version=None"),
        (b'{"format_version": 2}', "format_version=2; this seq2seq reads 1"),
        (b'{"format_version": 1, "commands": 5}', "is damaged: commands is 5"),
        (b'{"format_version": 1, "data": null}', "is damaged: data is None"),
    ],
)
def test_a_file_that_holds_no_facts_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "provenance.json").write_bytes(content)
    with pytest.raises(ModelFolderError, match=rf"provenance\.json .*{said}"):
        read_provenance(tmp_path / "provenance.json")


def test_a_corpus_takes_the_place_of_the_one_with_its_role_and_name() -> None:
    new: Corpus = {**SCORED, "pairs": 7}
    other: Corpus = {**SCORED, "name": "other"}
    found = with_corpora(FACTS, [other, new], {"b/SOURCE.md": "more"})
    assert found["data"] == [FACTS["data"][0], new, other]
    assert found["terms"] == {"SOURCE.md": "text", "b/SOURCE.md": "more"}
    assert FACTS["data"][1] == SCORED


def test_terms_go_with_the_corpus_that_another_one_replaces() -> None:
    elsewhere: Corpus = {**SCORED, "files": [{"path": "new/a", "sha256": "2" * 64}]}
    once = with_corpora({}, [elsewhere], {"new/SOURCE.md": "new", "new/a.SOURCE.md": "of a"})
    assert once["terms"] == {"new/SOURCE.md": "new", "new/a.SOURCE.md": "of a"}
    assert with_corpora(once, [SCORED], {"SOURCE.md": "text"})["terms"] == {"SOURCE.md": "text"}


def test_without_scores_nothing_of_an_evaluation_is_left() -> None:
    validation: Corpus = {**SCORED, "role": "validation"}
    files: list[File] = [{"path": path, "sha256": "2" * 64} for path in ("tested/a", "c")]
    tested: Corpus = {**SCORED, "files": files}
    terms = {
        "SOURCE.md": "text",
        "tested/SOURCE.md": "of a test set alone",
        "c.SOURCE.md": "of a file that was tested, beside those that are kept",
    }
    found = without_scores(
        {**FACTS, "data": [FACTS["data"][0], tested, validation], "terms": terms}
    )
    bare = {key: SCORED[key] for key in ("name", "pairs", "files")}
    assert found["data"] == [FACTS["data"][0], {"role": "validation", **bare}]
    assert found["terms"] == {"SOURCE.md": "text"}
    assert without_scores({}) == {}
    assert "scores" in validation


def test_a_command_can_be_pasted_into_a_shell() -> None:
    found = with_command(FACTS, "average", Path("a run"), "--last", 2)
    assert found["commands"] == [*FACTS["commands"], "seq2seq average 'a run' --last 2"]
