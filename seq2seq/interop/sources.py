"""Models of other toolkits: which format it is, and the model.

A new format is a module with what `Source` names and a line in `formats.SOURCES`.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

from seq2seq.config import one_of
from seq2seq.errors import ModelFolderError
from seq2seq.interop.formats import SOURCES
from seq2seq.model_card import license_in
from seq2seq.model_folder import SavedModel, find_model, read_description
from seq2seq.provenance import CARD, File, Provenance, sha256_of


class Source(Protocol):
    """The module of a format."""

    def recognises(self, path: Path) -> bool:
        """Whether this looks like one, damaged or not; ModelFolderError if what would tell is."""

    def read(self, path: Path) -> SavedModel:
        """The model; ModelFolderError names what is missing, damaged or cannot be represented."""

    def weight_files(self, path: Path) -> list[Path]:
        """Those that the weights are read from."""


def read(path: Path, name: str | None = None) -> SavedModel:
    """A model in this format, or in the one that it looks like, with where it is from."""
    if not path.exists():
        raise ModelFolderError(f"{path} does not exist.")
    if name is None:
        name = _format_of(path)
    else:
        one_of("--from", name, SOURCES)
    source = _module(name)
    saved = source.read(path)
    return replace(saved, provenance=_provenance(path, name, source.weight_files(path)))


def _format_of(path: Path) -> str:
    """The first that recognises it; a damaged file is told only where none does."""
    damage = None
    for name in SOURCES:
        try:
            if _module(name).recognises(path):
                return name
        except ModelFolderError as error:
            damage = damage or error
    raise damage or ModelFolderError(_unknown(path))


def _unknown(path: Path) -> str:
    """Why there is nothing to convert."""
    try:
        read_description(find_model(path))
    except ModelFolderError:
        return f"{path} is in none of the known formats: {', '.join(SOURCES)}."
    return f"{path} holds a model of ours already; commands take it as it is."


def _provenance(path: Path, name: str, weights: Sequence[Path]) -> Provenance:
    """The files of weights, and the licence that a model card beside them names."""
    files: list[File] = [{"path": str(each), "sha256": sha256_of(each)} for each in weights]
    known: Provenance = {"parent": {"path": str(path), "format": name, "files": files}}
    card = (path if path.is_dir() else path.parent) / CARD
    if (license := license_in(card)) is not None:
        known["license"] = license
    return known


def _module(name: str) -> Source:
    return cast(Source, importlib.import_module(SOURCES[name]))
