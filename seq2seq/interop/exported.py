"""The folder of an exported model: another library's files and, beside them, ours.

seq2seq.json says what the folder is, the two subword models turn text into its tokens, README.md is
its card. The other library needs none of them.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from seq2seq.errors import ModelFolderError
from seq2seq.model_folder import EXPORTED, SRC_SUBWORDS, TGT_SUBWORDS, load_subwords
from seq2seq.text.subwords import Subwords
from seq2seq.versioned import read_versioned

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Description:
    """What seq2seq.json says."""

    target: str
    """The library, as in `targets.TARGETS`."""
    quantization: str
    """The type that the weights are stored in."""
    max_length: int | None
    """Most tokens of a sentence, the end token counted; None for no bound."""
    src_lang: str
    tgt_lang: str


@dataclass(frozen=True)
class Exported:
    """An exported model."""

    folder: Path
    about: Description
    src_subwords: Subwords
    tgt_subwords: Subwords

    @property
    def longest(self) -> int:
        """Most tokens of a sentence, where the library has a bound."""
        if self.about.max_length is None:
            raise ModelFolderError(f"{self.folder / EXPORTED} is damaged: max_length is null.")
        return self.about.max_length

    def write(self) -> None:
        """Ours but the card."""
        (self.folder / SRC_SUBWORDS).write_bytes(self.src_subwords.serialized)
        (self.folder / TGT_SUBWORDS).write_bytes(self.tgt_subwords.serialized)
        stored = {"format_version": FORMAT_VERSION, **dataclasses.asdict(self.about)}
        text = json.dumps(stored, indent=2)
        (self.folder / EXPORTED).write_text(f"{text}\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Exported":
        """What `write` wrote; a missing or damaged file is a ModelFolderError that names it."""
        path = folder / EXPORTED
        stored = read_versioned(path, FORMAT_VERSION, Description)
        try:
            about = Description(**stored)
        except TypeError as error:
            raise ModelFolderError(f"{path} is damaged: {error}.") from None
        return cls(folder, about, *load_subwords(folder))
