"""Models of other toolkits: which format it is, and the model.

A new format is a module with what `Source` names and a line in `formats.SOURCES`.
"""

import importlib
from pathlib import Path
from typing import Protocol, cast

from seq2seq.config import one_of
from seq2seq.errors import ModelFolderError
from seq2seq.interop.formats import SOURCES
from seq2seq.model_folder import SavedModel


class Source(Protocol):
    """The module of a format."""

    def recognises(self, path: Path) -> bool:
        """Whether this looks like one, damaged or not."""

    def read(self, path: Path) -> SavedModel:
        """The model; ModelFolderError names what is missing, damaged or cannot be represented."""


def read(path: Path, name: str | None = None) -> SavedModel:
    """A model in this format, or in the one that it looks like."""
    if not path.exists():
        raise ModelFolderError(f"{path} does not exist.")
    if name is not None:
        one_of("--from", name, SOURCES)
        return _module(name).read(path)
    for each in SOURCES:
        if _module(each).recognises(path):
            return _module(each).read(path)
    raise ModelFolderError(f"{path} is in none of the known formats: {', '.join(SOURCES)}.")


def _module(name: str) -> Source:
    return cast(Source, importlib.import_module(SOURCES[name]))
