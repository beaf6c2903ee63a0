"""The folder that users deploy: {config.json, weights.safetensors, subwords.{src,tgt}.model}.

Nothing in it can run code. Both subword files are always there, the same one twice when joint.
"""

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.nn.transformer import NO_DROPOUT, Transformer
from seq2seq.text.subwords import Subwords

FORMAT_VERSION = 1
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SRC_SUBWORDS, TGT_SUBWORDS = "subwords.src.model", "subwords.tgt.model"
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
                f"{folder} was exported to another library, see {EXPORTED}; translate with the "
                f"--engine of that name, or take the model folder that it was made of."
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
    """Write the folder; each file appears complete or not at all, the configuration last."""
    folder.mkdir(parents=True, exist_ok=True)
    description = {
        "format_version": FORMAT_VERSION,
        "src_lang": model.src_lang,
        "tgt_lang": model.tgt_lang,
        "model": dataclasses.asdict(model.network.config),
    }
    weights = {name: p.detach().cpu() for name, p in model.network.named_parameters()}
    with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as scratch:
        new = Path(scratch)
        save_file(weights, new / WEIGHTS)
        (new / SRC_SUBWORDS).write_bytes(model.src_subwords.serialized)
        (new / TGT_SUBWORDS).write_bytes(model.tgt_subwords.serialized)
        (new / CONFIG).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for name in (WEIGHTS, SRC_SUBWORDS, TGT_SUBWORDS, CONFIG):
            os.replace(new / name, folder / name)


def load_model(
    path: str | Path,
    *,
    rates: Dropout = NO_DROPOUT,
    attention: AttentionForm = "auto",
) -> SavedModel:
    """Read a model folder; a missing or damaged file is a ModelFolderError that names it."""
    folder = find_model(path)
    description = _read_description(folder / CONFIG)
    config = _model_config(description["model"], folder / CONFIG)
    network = Transformer(config, rates=rates, attention=attention)
    _load_weights(network, folder / WEIGHTS)
    src, tgt = load_subwords(folder)
    sizes = (SRC_SUBWORDS, src, config.src_vocab_size), (TGT_SUBWORDS, tgt, config.tgt_vocab_size)
    for name, subwords, size in sizes:
        if len(subwords) != size:
            raise ModelFolderError(
                f"{folder / name} has {len(subwords)} subwords but {CONFIG} says {size}."
            )
    network.eval()
    return SavedModel(network, src, tgt, description["src_lang"], description["tgt_lang"])


def load_subwords(folder: Path) -> tuple[Subwords, Subwords]:
    """Source and target subwords of a model folder."""
    return Subwords.load(folder / SRC_SUBWORDS), Subwords.load(folder / TGT_SUBWORDS)


def load_languages(folder: Path) -> tuple[str, str]:
    """Codes of the source and the target language of a model folder, "" where none was given."""
    description = _read_description(folder / CONFIG)
    return description["src_lang"], description["tgt_lang"]


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    version = description.get("format_version") if isinstance(description, dict) else None
    if version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path} has format_version={version}; this seq2seq reads {FORMAT_VERSION}."
        )
    missing = {"src_lang", "tgt_lang", "model"} - description.keys()
    if missing:
        raise ModelFolderError(f"{path} is damaged: it lacks {', '.join(sorted(missing))}.")
    return dict(description)


def _model_config(fields: dict[str, Any], path: Path) -> ModelConfig:
    types = get_type_hints(ModelConfig)
    known = types.keys()
    if not isinstance(fields, dict) or not fields.keys() <= known:
        unknown = sorted(fields.keys() - known) if isinstance(fields, dict) else fields
        raise ModelFolderError(f"{path} has settings that this seq2seq does not know: {unknown}.")
    for name, value in fields.items():
        if not _is(value, types[name]):
            raise ModelFolderError(f"{path} is damaged: model.{name}={value!r} has a wrong type.")
    try:
        config = ModelConfig(**fields)
    except (ConfigError, TypeError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}") from None
    for name in ("src_vocab_size", "tgt_vocab_size"):
        if not getattr(config, name):
            raise ModelFolderError(f"{path} is damaged: it lacks model.{name}.")
    return config


def _is(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    kinds = get_args(kind) or (kind,)
    return type(value) in kinds


def _load_weights(network: Transformer, path: Path) -> None:
    try:
        weights = load_file(path)
    except FileNotFoundError:
        raise ModelFolderError(f"{path} does not exist.") from None
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}.") from None
    parameters = dict(network.named_parameters())
    if differing := sorted(parameters.keys() ^ weights.keys()):
        raise ModelFolderError(
            f"{path} does not fit {CONFIG}: {differing[0]} is in only one of them."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise ModelFolderError(
                    f"{path} does not fit {CONFIG}: {name} is {tuple(weights[name].shape)}, "
                    f"expected {tuple(parameter.shape)}."
                )
            parameter.copy_(weights[name])
