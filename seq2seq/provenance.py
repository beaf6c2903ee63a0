"""Where a model comes from: facts that were known when they were written, as JSON.

A fact that is not known has no key; nothing is guessed. The types below are what provenance.json
holds, key by key. Standard library only.

A fit gathers them (training/record.py), and they are written with the weights (model_folder.py). A
test adds its scores later (training/card.py), by way of model_facts.py, which reads and changes
what is there. The folder's README.md, the card, says the same in words (model_card.py).
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, cast

from seq2seq.versioned import read_versioned

PROVENANCE, CARD = "provenance.json", "README.md"
FORMAT_VERSION = 1

TERMS = "SOURCE.md"
"""Beside a corpus: where it is from, its licence, whom to name; `seq2seq fetch` writes one. That of
one file alone is FILE.SOURCE.md; `seq2seq distill` writes one."""
Role = Literal["train", "validation", "test"]


class File(TypedDict):
    """A file that was read."""

    path: str
    """As it was given."""
    sha256: str
    """Of its bytes, packed if it is."""
    lines: NotRequired[int]
    """Where its format goes by lines."""


class Score(TypedDict):
    """Of all of a corpus."""

    name: str
    value: float
    signature: str


class Corpus(TypedDict):
    """What was trained on or scored: files, or a Hugging Face dataset."""

    role: Role
    name: NotRequired[str]
    """Of test sets, and of training corpora where there are several."""
    pairs: int
    files: list[File]
    dataset: NotRequired[str]
    """NAME or NAME:CONFIGURATION on the hub."""
    dataset_folder: NotRequired[str]
    """Of a dataset on disk."""
    split: NotRequired[str]
    fingerprint: NotRequired[str]
    """Of a dataset's content, as the library `datasets` has it."""
    scores: NotRequired[list[Score]]
    """Of this model."""
    search: NotRequired[dict[str, Any]]
    """The settings `search.*` of the scores."""


class Hardware(TypedDict):
    """What a fit ran on."""

    device: str
    processes: int
    threads: NotRequired[int]
    """Of each process, on a CPU."""
    precision: str
    attention: str


class Training(TypedDict):
    """The work behind the weights."""

    steps: int
    seconds: float
    """Of the fit, validations included, over all sessions; without what a kill undid."""
    hardware: list[Hardware]
    """All that sessions of it ran on."""
    changed: NotRequired[dict[str, list[Any]]]
    """What was different in earlier sessions, with its values then: settings, versions (as
    `software.NAME`) and hashes of training files (as `sha256.PATH`)."""


class Weights(TypedDict):
    """Which of a run's weights these are."""

    kind: str
    """Such as "mean of the last 5 checkpoints"."""
    steps: list[int]
    """Of the checkpoints; none, where not all are known."""
    files: NotRequired[list[str]]
    """The checkpoints, where they were chosen by hand."""


class Parent(TypedDict):
    """The model that these weights began as, or are."""

    path: str
    format: str
    files: list[File]
    """Its weights."""
    provenance: NotRequired["Provenance"]


class Provenance(TypedDict, total=False):
    """All facts about a model."""

    commands: list[str]
    """Which make it again, one after the other, with `config` as config.yaml."""
    config: dict[str, Any]
    """All settings of the fit."""
    license: str
    """Of the model, as the hub names it."""
    data: list[Corpus]
    terms: dict[str, str]
    """Path and text of each SOURCE.md and FILE.SOURCE.md beside the data."""
    training: Training
    weights: Weights
    parent: Parent
    software: dict[str, str]
    """Versions by name, and `commit` where seq2seq is a git checkout."""
    card: str
    """SHA-256 of the README.md that was written from this: one with another was edited."""


def sha256_of(path: Path) -> str:
    """Hexadecimal, of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_provenance(path: Path) -> Provenance:
    """Empty if there is no such file; ModelFolderError if it is damaged."""
    if not path.exists():
        return Provenance()
    return cast(Provenance, read_versioned(path, FORMAT_VERSION, Provenance))


def write_provenance(folder: Path, provenance: Provenance, card: str) -> None:
    """Write both files of a model folder, the card and the facts that it tells."""
    text = card.encode("utf-8", "backslashreplace")
    content = {
        "format_version": FORMAT_VERSION,
        **provenance,
        "card": hashlib.sha256(text).hexdigest(),
    }
    (folder / CARD).write_bytes(text)
    facts = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    # What is no UTF-8, in a path, becomes an escape of JSON.
    (folder / PROVENANCE).write_bytes(facts.encode("utf-8", "backslashreplace"))


def with_command(provenance: Provenance, *words: object) -> Provenance:
    """With one more command of seq2seq."""
    command = shlex.join(map(str, ("seq2seq", *words)))
    return {**provenance, "commands": [*provenance.get("commands", []), command]}


def terms_paths(file: Path) -> list[Path]:
    """Where the terms of a corpus file may stand: those of its folder, and its own."""
    return [file.with_name(TERMS), file.with_name(f"{file.name}.{TERMS}")]


def with_corpora(
    provenance: Provenance, corpora: Sequence[Corpus], terms: dict[str, str]
) -> Provenance:
    """With these, each in the place of one of the same role and name, and their terms."""
    new = {(corpus["role"], corpus.get("name")): corpus for corpus in corpora}
    old = provenance.get("data", [])
    data = [new.pop((corpus["role"], corpus.get("name")), corpus) for corpus in old]
    data += new.values()
    left = _terms_of(data, provenance.get("terms", {}))
    return {**provenance, "data": data, "terms": {**left, **terms}}


def with_tests(provenance: Provenance, other: Provenance) -> Provenance:
    """With the test sets of another one of the same weights, their scores and terms."""
    tests = [corpus for corpus in other.get("data", []) if corpus["role"] == "test"]
    return with_corpora(provenance, tests, _terms_of(tests, other.get("terms", {})))


def without_scores(provenance: Provenance) -> Provenance:
    """For other weights: no scores, and no corpora, with their terms, that were there for scores
    only."""
    left = provenance.copy()
    kept = [each.copy() for each in provenance.get("data", []) if each["role"] != "test"]
    for corpus in kept:
        corpus.pop("scores", None)
        corpus.pop("search", None)
    if "data" in left:
        left["data"] = kept
    if "terms" in left:
        left["terms"] = _terms_of(kept, left["terms"])
    return left


def _terms_of(corpora: Iterable[Corpus], terms: Mapping[str, str]) -> dict[str, str]:
    """Those that are terms of one of these corpora."""
    files = [Path(file["path"]) for corpus in corpora for file in corpus["files"]]
    paths = {path for file in files for path in terms_paths(file)}
    return {path: text for path, text in terms.items() if Path(path) in paths}
