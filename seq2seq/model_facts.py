"""What is known of a model that is there: its provenance, and the card that says so in words."""

import dataclasses
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

from seq2seq.errors import ModelFolderError
from seq2seq.model_card import model_card
from seq2seq.model_folder import EXPORTED, WEIGHTS, find_model, read_description, reading_weights
from seq2seq.provenance import (
    CARD,
    PROVENANCE,
    File,
    Parent,
    Provenance,
    read_provenance,
    sha256_of,
    write_provenance,
)


def load_provenance(path: str | Path) -> Provenance:
    """What is known of the model at `path`: nothing, where its folder does not say."""
    return read_provenance(find_model(path) / PROVENANCE)


def save_provenance(folder: Path, provenance: Provenance) -> bool:
    """Write what is known of the model that is there, and its card; whether the card was written.

    One that was edited stays as it is. Raises OSError where the folder cannot be written to.
    """
    card, written = folder / CARD, read_provenance(folder / PROVENANCE).get("card")
    edited = card.exists() and sha256_of(card) != written
    with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
        new = Path(scratch)
        write_provenance(new, provenance, _rendered(folder, provenance))
        if not edited:
            card.unlink(missing_ok=True)  # at no time one that seems edited
        for name in (PROVENANCE,) if edited else (PROVENANCE, CARD):
            os.replace(new / name, folder / name)
    return not edited


def load_card(path: str | Path) -> str:
    """The README.md of the model at `path`, also of an exported one; where there is none, what it
    would say."""
    exported = (Path(path) / EXPORTED).is_file() and (Path(path) / CARD).is_file()
    folder = Path(path) if exported else find_model(path)
    try:
        return (folder / CARD).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return _rendered(folder, load_provenance(folder))
    except OSError as error:
        raise ModelFolderError(f"{folder / CARD} cannot be read: {error.strerror}.") from None


def load_facts(path: str | Path) -> dict[str, Any]:
    """All that is known of the model at `path`: what it is, and its provenance."""
    folder = find_model(path)
    config, src_lang, tgt_lang = read_description(folder)
    return {
        "src_lang": src_lang,
        "tgt_lang": tgt_lang,
        "parameters": _count_parameters(folder / WEIGHTS),
        "architecture": dataclasses.asdict(config),
        **load_provenance(folder),
    }


def as_parent(path: str | Path) -> Parent:
    """The model at `path` as the origin of another one."""
    weights = find_model(path) / WEIGHTS
    file = File(path=str(weights), sha256=sha256_of(weights))
    parent = Parent(path=str(path), format="seq2seq", files=[file])
    if known := load_provenance(path):
        parent["provenance"] = known
    return parent


def _rendered(folder: Path, provenance: Provenance) -> str:
    """The card of a model that is there."""
    config, src_lang, tgt_lang = read_description(folder)
    parameters = _count_parameters(folder / WEIGHTS)
    return model_card(config, parameters, (src_lang, tgt_lang), provenance)


def _count_parameters(weights: Path) -> int:
    """From the header of the file alone."""
    with reading_weights(weights), safe_open(weights, framework="pt") as file:
        names = file.keys()
        return sum(math.prod(file.get_slice(name).get_shape()) for name in names)
