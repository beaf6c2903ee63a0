"""The folder that users deploy: {config.json, weights.safetensors, subwords.{src,tgt}.model}, and
what is known of the model: {provenance.json, README.md}, which translating does not need.

Nothing in it can run code. Both subword files are always there, the same one twice when joint.
"""

import dataclasses
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.errors import ConfigError, ModelFolderError, check_utf8
from seq2seq.memory import ran_out
from seq2seq.model_card import model_card
from seq2seq.nn.packed import is_packed
from seq2seq.nn.transformer import NO_DROPOUT, Transformer
from seq2seq.nn.weights import network_of
from seq2seq.provenance import CARD, PROVENANCE, Provenance, read_provenance, write_provenance
from seq2seq.text.scripts import may_be_same_languages
from seq2seq.text.subwords import Subwords
from seq2seq.versioned import misfit, read_versioned

FORMAT_VERSION = 1
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SRC_SUBWORDS, TGT_SUBWORDS = "subwords.src.model", "subwords.tgt.model"
SENTENCEPIECE = ("source.spm", "target.spm")
"""Subwords that came from elsewhere, as OPUS-MT names their files."""
EXPORTED = "seq2seq.json"
"""Marks a folder as exported to another library, which has a config.json of its own."""


@dataclass(frozen=True)
class SavedModel:
    """What a model folder holds."""

    network: Transformer
    src_subwords: Subwords
    tgt_subwords: Subwords
    src_lang: str = ""
    """Language code, or "" where none was given."""
    tgt_lang: str = ""
    provenance: Provenance = field(default_factory=Provenance)
    """What to write down of it."""

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def fingerprints(self) -> list[str]:
        """Of the source and the target subwords."""
        return [self.src_subwords.fingerprint, self.tgt_subwords.fingerprint]


def find_model(path: str | Path) -> Path:
    """The model folder at `path`, which may also be a run folder that has one in model/."""
    path = Path(path)
    for folder in (path, path / "model"):
        if (folder / EXPORTED).is_file():
            raise ModelFolderError(
                f"{folder} was exported to another library, see {EXPORTED}; here the model folder "
                f"that it was made of is needed. With --engine, translate and distill take it."
            )
        if (folder / CONFIG).is_file():
            return folder
    what = (
        "has no config.json"
        if path.is_dir()
        else "is a file"
        if path.exists()
        else "does not exist"
    )
    raise ModelFolderError(f"{path} {what}; expected a model folder, or a run folder with model/.")


def save_model(model: SavedModel, folder: Path) -> None:
    """Write the folder; each file appears complete or not at all, the configuration last.

    ModelFolderError where it cannot be written, as on a full disk.
    """
    if is_packed(model.network):
        raise ModelFolderError(
            "the network of a Translator is packed to search and cannot be saved; take that of "
            "load_model."
        )
    description = {
        "format_version": FORMAT_VERSION,
        "src_lang": model.src_lang,
        "tgt_lang": model.tgt_lang,
        "model": dataclasses.asdict(model.network.config),
    }
    weights = _stored_weights(model.network)
    languages = model.src_lang, model.tgt_lang
    card = model_card(model.network.config, model.parameters, languages, model.provenance)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
            new = Path(scratch)
            save_file(weights, new / WEIGHTS)
            (new / SRC_SUBWORDS).write_bytes(model.src_subwords.serialized)
            (new / TGT_SUBWORDS).write_bytes(model.tgt_subwords.serialized)
            (new / CONFIG).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
            shutil.copymode(new / CONFIG, new / WEIGHTS)  # safetensors shuts out everybody else
            write_provenance(new, model.provenance, card)
            for name in (CONFIG, CARD):  # parts of two models are no model
                (folder / name).unlink(missing_ok=True)
            for name in (WEIGHTS, SRC_SUBWORDS, TGT_SUBWORDS, PROVENANCE, CARD, CONFIG):
                os.replace(new / name, folder / name)
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{folder} cannot be written: {error}.") from None


def holds(folder: Path, model: SavedModel) -> bool:
    """Whether the folder holds this very model, and all of it can be read."""
    try:
        read_provenance(folder / PROVENANCE)
        description = read_description(folder)
        fingerprints = [subwords.fingerprint for subwords in load_subwords(folder)]
        there = read_weights(folder / WEIGHTS)
    except ModelFolderError:
        return False
    same = ModelDescription(model.network.config, model.src_lang, model.tgt_lang)
    if (description, fingerprints) != (same, model.fingerprints):
        return False
    weights = _stored_weights(model.network)
    return weights.keys() == there.keys() and all(
        torch.equal(weights[name], there[name]) for name in weights
    )


def _stored_weights(network: Transformer) -> dict[str, Tensor]:
    """In fp32, whatever they were trained in."""
    return {name: p.detach().cpu().float() for name, p in network.named_parameters()}


def load_model(
    path: str | Path,
    *,
    rates: Dropout = NO_DROPOUT,
    attention: AttentionForm = "auto",
) -> SavedModel:
    """Read a model folder; a missing or damaged file is a ModelFolderError that names it."""
    folder = find_model(path)
    config, src_lang, tgt_lang = read_description(folder)
    weights = read_weights(folder / WEIGHTS)
    network = network_of(folder / WEIGHTS, config, weights, rates=rates, attention=attention)
    src, tgt = load_subwords(folder)
    sizes = (SRC_SUBWORDS, src, config.src_vocab_size), (TGT_SUBWORDS, tgt, config.tgt_vocab_size)
    for name, subwords, size in sizes:
        if len(subwords) != size:
            raise ModelFolderError(
                f"{folder / name} has {len(subwords)} subwords but {CONFIG} says {size}."
            )
    return SavedModel(network, src, tgt, src_lang, tgt_lang)


def load_together(
    paths: Sequence[str | Path], *, attention: AttentionForm = "auto"
) -> list[SavedModel]:
    """Read the models of an ensemble; ConfigError unless they read and write the same ids."""
    models = [load_model(path, attention=attention) for path in paths]
    for path, model in zip(paths, models, strict=True):
        if model.fingerprints != models[0].fingerprints:
            raise ConfigError(
                f"ensemble={path} has other subwords than {paths[0]}; train one of them with the "
                f"subwords of the other (data.subwords_from), or from its weights (--init_from)."
            )
        start, expected = (each.network.config.start_token for each in (model, models[0]))
        if start != expected:
            raise ConfigError(
                f"ensemble={path} has model.start_token={start}, but {paths[0]} has {expected}; "
                f"the models of an ensemble start alike."
            )
    return models


def warn_of_other_languages(
    languages: Sequence[str], ensemble: Sequence[str | Path], rerank: str | Path | None
) -> None:
    """Of models that were not trained for these languages, or, as a reranker, for those the other
    way round, as far as they say. Some have learned more than they say."""
    src, tgt = languages
    expected = [("ensemble", path, (src, tgt)) for path in ensemble]
    if rerank is not None:
        expected.append(("rerank", rerank, (tgt, src)))
    for role, path, wanted in expected:
        _, *own = read_description(find_model(path))
        if all((*wanted, *own)) and not may_be_same_languages(own, wanted):
            warnings.warn(
                f"{role}={path} was trained from {own[0]} to {own[1]}; here it has to translate "
                f"from {wanted[0]} to {wanted[1]}, which it must have learned, too.",
                stacklevel=3,
            )


def load_subwords(folder: Path) -> tuple[Subwords, Subwords]:
    """Source and target subwords of a model folder."""
    return Subwords.load(folder / SRC_SUBWORDS), Subwords.load(folder / TGT_SUBWORDS)


def find_subwords(path: str | Path) -> tuple[Subwords, Subwords]:
    """Those of a model or run folder; or of SentencePiece, in a file for both languages or in a
    folder with source.spm and target.spm, their pieces with our ids."""
    path = Path(path)
    if path.is_file():
        both = Subwords.adopt(path)
        return both, both
    src, tgt = (path / name for name in SENTENCEPIECE)
    if src.is_file() or tgt.is_file():
        return Subwords.adopt(src), Subwords.adopt(tgt)
    try:
        folder = find_model(path)
    except ModelFolderError as error:
        raise ModelFolderError(
            f"{error} SentencePiece models are a file for both languages, or a folder with "
            f"source.spm and target.spm."
        ) from None
    return load_subwords(folder)


class ModelDescription(NamedTuple):
    """What the configuration of a model folder says."""

    config: ModelConfig
    src_lang: str
    """Code of the source language, "" where none was given."""
    tgt_lang: str


class _Stored(TypedDict):
    src_lang: str
    tgt_lang: str
    model: Any


def read_description(folder: Path) -> ModelDescription:
    """ModelFolderError names a configuration that is damaged."""
    path = folder / CONFIG
    stored = read_versioned(path, FORMAT_VERSION, _Stored)
    config = model_config(stored["model"], path)
    return ModelDescription(config, stored["src_lang"], stored["tgt_lang"])


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a file of safetensors."""
    with reading_weights(path):
        return load_file(path)


@contextmanager
def reading_weights(path: Path) -> Iterator[None]:
    """ModelFolderError says why the block cannot read this file of safetensors."""
    check_utf8(path, "safetensors", ModelFolderError)
    try:
        with path.open("rb"):  # safetensors calls a file missing that it is not allowed to read
            yield
    except FileNotFoundError:
        raise ModelFolderError(f"{path} does not exist.") from None
    except PermissionError:
        raise ModelFolderError(f"{path} may not be read: permission denied.") from None
    except (SafetensorError, OSError, RuntimeError, MemoryError) as error:
        if ran_out(error):
            raise ModelFolderError(f"{path} does not fit into memory.") from None
        raise ModelFolderError(f"{path} is damaged: {error}.") from None


def model_config(fields: Any, path: Path) -> ModelConfig:
    """Of settings by their names, with the sizes of both vocabularies; ModelFolderError says what
    is wrong in `path`, which they are from."""
    known = get_type_hints(ModelConfig).keys()
    if not isinstance(fields, dict) or not fields.keys() <= known:
        unknown = sorted(fields.keys() - known) if isinstance(fields, dict) else fields
        raise ModelFolderError(f"{path} has settings that this seq2seq does not know: {unknown}.")
    if odd := misfit(fields, ModelConfig, "model"):
        raise ModelFolderError(f"{path} is damaged: {odd}.")
    try:
        config = ModelConfig(**fields)
    except (ConfigError, TypeError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}") from None
    for name in ("src_vocab_size", "tgt_vocab_size"):
        if not getattr(config, name):
            raise ModelFolderError(f"{path} is damaged: it lacks model.{name}.")
    return config
