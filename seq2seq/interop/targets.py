"""Models in other libraries: what can be exported where, the export, and its engine.

A new library is a module with what `Target` names, a line in `formats.TARGETS`, and its extra in
pyproject.toml.
"""

import importlib
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, cast

from seq2seq.config import ModelConfig, one_of
from seq2seq.engine import ScoringEngine
from seq2seq.errors import ModelFolderError
from seq2seq.interop.exported import Description, Exported
from seq2seq.interop.formats import TARGETS
from seq2seq.interop.refusal import refuse
from seq2seq.model_card import model_card
from seq2seq.model_folder import EXPORTED, SavedModel, find_model, load_model, read_description
from seq2seq.provenance import CARD


class Target(Protocol):
    """The module of a library. Importing it, and asking what it can represent, needs no library."""

    @property
    def LIBRARY(self) -> str:
        """What the Hugging Face Hub calls it."""

    @property
    def QUANTIZATIONS(self) -> Sequence[str]:
        """Types other than fp32 that it can store weights in."""

    def obstacles(self, config: ModelConfig) -> list[str]:
        """What it cannot represent, each with what to change; empty if nothing."""

    @property
    def LONGEST(self) -> int | None:
        """Rows of its table of sinusoids; None for no bound."""

    def export(self, saved: SavedModel, folder: Path, quantize: str | None) -> None:
        """Write its own files into an empty folder; the model has no obstacles."""

    def usage(self, config: ModelConfig) -> str:
        """For the model card: how to translate with these files, and what is not as in seq2seq."""

    def engine(self, exported: Exported, device: str, precision: str) -> ScoringEngine:
        """What was written, ready to translate: device is torch's name of it, or "auto"; precision
        "fp32" stands for the type that is stored."""


def target(name: str) -> Target:
    """The module of that name."""
    one_of("target", name, TARGETS)
    return cast(Target, importlib.import_module(TARGETS[name]))


def reach(config: ModelConfig) -> str:
    """In one line: the targets of this architecture, and what keeps it from the others."""
    found = {name: target(name).obstacles(config) for name in TARGETS}
    open_to = ", ".join(name for name, obstacles in found.items() if not obstacles)
    closed = [f"{name} ({' '.join(obstacles)})" for name, obstacles in found.items() if obstacles]
    line = f"can be exported to {open_to or 'no other library'}"
    return f"{line}; not to {', '.join(closed)}" if closed else line


def export(saved: SavedModel, name: str, folder: Path, quantize: str | None = None) -> Exported:
    """Write a new folder with its model card, or raise one ConfigError about everything that cannot
    be represented."""
    to, config = target(name), saved.network.config
    obstacles = to.obstacles(config)
    if quantize not in (None, *to.QUANTIZATIONS):
        known = " or ".join(to.QUANTIZATIONS) or "nothing"
        obstacles.append(f"quantize={quantize}: not known there; use {known}, or leave it out.")
    refuse(f"{name} cannot represent this model", obstacles)
    about = Description(
        target=name,
        quantization=quantize or "fp32",
        max_length=config.max_length or to.LONGEST,
        src_lang=saved.src_lang,
        tgt_lang=saved.tgt_lang,
    )
    folder.mkdir(parents=True, exist_ok=True)
    to.export(saved, folder, quantize)
    exported = Exported(folder, about, saved.src_subwords, saved.tgt_subwords)
    exported.write()
    card = model_card(
        config,
        saved.parameters,
        (saved.src_lang, saved.tgt_lang),
        saved.provenance,
        library=to.LIBRARY,
        usage=f"{to.usage(config)}\nWeights are stored in {about.quantization}.",
    )
    (folder / CARD).write_bytes(card.encode("utf-8", "backslashreplace"))
    return exported


def find(path: str | Path, name: str) -> Path:
    """The folder for an engine of that name: exported to it, or a model or run folder."""
    one_of("engine", name, ["native", *TARGETS])
    folder = Path(path)
    if not (folder / EXPORTED).is_file():
        return find_model(folder)
    if (written := Exported.read(folder).about.target) != name:
        raise ModelFolderError(
            f"{folder} was exported to {written}, not to {name}; use --engine {written}."
        )
    return folder


def languages(path: str | Path) -> tuple[str, str]:
    """Codes of the source and the target language of an export, or a model or run folder; "" where
    none was given."""
    folder = Path(path)
    if (folder / EXPORTED).is_file():
        exported = Exported.read(folder).about
        return exported.src_lang, exported.tgt_lang
    about = read_description(find_model(folder))
    return about.src_lang, about.tgt_lang


def load(path: str | Path, name: str, device: str, precision: str) -> ScoringEngine:
    """An engine of that name; what is no export to it yet is exported, for as long as the engine
    is there."""
    folder = find(path, name)
    if (folder / EXPORTED).is_file():
        return target(name).engine(Exported.read(folder), device, precision)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="seq2seq-"))
        exported = export(load_model(folder), name, Path(scratch))
        engine = target(name).engine(exported, device, precision)
        weakref.finalize(engine, stack.pop_all().close)
    return engine
