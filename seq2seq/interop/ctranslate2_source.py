"""Read a CTranslate2 folder: an export of ours, or what one of its converters wrote."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.interop.ctranslate2_binary import read_binary
from seq2seq.interop.ctranslate2_names import parts, their_parameter
from seq2seq.interop.ctranslate2_specification import READ, SIDES, Specification, obstacles
from seq2seq.interop.exported import Exported
from seq2seq.interop.files import read_any_json, read_bytes, read_json, read_lines
from seq2seq.interop.refusal import refuse
from seq2seq.interop.renamed import position_settings, tie
from seq2seq.interop.vocabulary import (
    SpecialIds,
    Vocabulary,
    pieces_of,
    sentencepiece_files,
    vocabulary,
)
from seq2seq.model_folder import EXPORTED, SavedModel, model_config
from seq2seq.nn.transformer import Transformer
from seq2seq.nn.weights import network_of

PADDING = ("<pad>", "<blank>")
"""What the converters call it."""


def recognises(path: Path) -> bool:
    """Whether there is a model.bin."""
    return (path / "model.bin").is_file()


def weight_files(folder: Path) -> list[Path]:
    """There is one."""
    return [folder / "model.bin"]


def read(folder: Path) -> SavedModel:
    """The model in a folder that CTranslate2's `Translator` opens."""
    binary, config = read_binary(*weight_files(folder)), read_json(folder / "config.json")
    refuse(f"{folder} cannot be represented", obstacles(binary, config), ModelFolderError)
    spec = Specification(binary.variables)
    files = sentencepiece_files(folder)
    models = [read_bytes(path) for path in files]
    texts = [pieces_of(*each) for each in zip(models, files, strict=True)]
    src, tgt = _vocabularies(folder, config, spec, texts)
    subwords = src.subwords(models[0]), tgt.subwords(models[1])
    languages = "", ""
    if (folder / EXPORTED).is_file():
        about = Exported.read(folder).about
        languages = about.src_lang, about.tgt_lang
    return SavedModel(_network(folder, config, spec, src, tgt), *subwords, *languages)


def _vocabularies(
    folder: Path, config: Mapping[str, Any], spec: Specification, texts: Sequence[Sequence[str]]
) -> list[Vocabulary]:
    """Of the source and the target, the same one twice where they share their ids."""
    tables = [spec.embedding(side) for side in SIDES]
    start = None if spec.starts_from_zero else str(config["decoder_start_token"])
    shared = _tokens(folder, "shared")
    if shared is not None:
        both = [*texts[0], *texts[1]]
        return [_vocabulary(folder, config, shared, tables[1], start, both)] * 2
    found = []
    for name, table, pieces, first in zip(
        ("source", "target"), tables, texts, (None, start), strict=True
    ):
        tokens = _tokens(folder, name)
        if tokens is None:
            raise ModelFolderError(
                f"{folder} has neither shared_vocabulary.json nor {name}_vocabulary.json."
            )
        found.append(_vocabulary(folder, config, tokens, table, first, pieces))
    return found


def _tokens(folder: Path, name: str) -> list[str] | None:
    """By their ids; None if there is no such file."""
    path = folder / f"{name}_vocabulary.json"
    if not path.is_file():
        older = path.with_suffix(".txt")
        return read_lines(older) if older.is_file() else None
    tokens = read_any_json(path)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelFolderError(f"{path} is damaged: not a list of tokens.")
    return tokens


def _vocabulary(
    folder: Path,
    config: Mapping[str, Any],
    tokens: list[str],
    table: Tensor,
    start: str | None,
    texts: Sequence[str],
) -> Vocabulary:
    """start: what the decoder reads first; None for zeros, and where nothing is decoded."""
    unk, bos, eos = (str(config.get(f"{name}_token")) for name in ("unk", "bos", "eos"))
    ids = {token: i for i, token in enumerate(tokens)}
    for token in (unk, eos, start):
        if token is not None and token not in ids:
            raise ModelFolderError(f"{folder}: the vocabulary lacks {token}.")
    if len(tokens) != len(table):
        raise ModelFolderError(
            f"{folder}: the vocabulary has {len(tokens)} tokens, but the embeddings have "
            f"{len(table)} rows."
        )
    pad = next((ids[token] for token in PADDING if token in ids), None)
    if start is None and pad is not None and table[pad].any():
        pad = None
    first = None if start is None else ids[start]
    starts_with_piece = first not in (None, pad, ids.get(bos))
    special = SpecialIds(
        pad=pad,
        unk=ids[unk],
        bos=None if starts_with_piece else ids.get(bos),
        eos=ids[eos],
        start=first,
    )
    return vocabulary(folder, dict(enumerate(tokens)), special, texts)


def _network(
    folder: Path, config: Mapping[str, Any], spec: Specification, src: Vocabulary, tgt: Vocabulary
) -> Transformer:
    """Ours with their weights, rows in our order."""
    variables = dict(spec.variables)
    rows = {"encoder/embeddings_0/weight": src, "decoder/embeddings/weight": tgt}
    rows["decoder/projection/weight"] = tgt
    tables = {name: side.rows_of(variables[name]) for name, side in rows.items()}
    variables |= tables
    bias = variables.get("decoder/projection/bias")
    if bias is not None or tgt.added:
        output = spec.variables["decoder/projection/weight"]
        zeros = output.new_zeros(len(output))
        variables["decoder/projection/bias"] = tgt.masked(zeros if bias is None else bias)
    inner = spec.variables.get("encoder/layer_0/ffn/linear_0/weight", torch.empty(0, 0))
    starts_with_pad = spec.starts_from_zero or config["decoder_start_token"] in PADDING
    ours = model_config(
        {
            "src_vocab_size": len(src.pieces),
            "tgt_vocab_size": len(tgt.pieces),
            "d_model": tables["decoder/embeddings/weight"].shape[1],
            "heads": spec.heads("encoder"),
            "head_dim": spec.head_dim("encoder"),
            "ff_dim": len(inner),
            "encoder_layers": spec.depth("encoder"),
            "decoder_layers": spec.depth("decoder"),
            "norm": spec.norm("encoder"),
            "activation": READ[spec.activation("encoder")],
            **position_settings(*map(spec.positions, SIDES)),
            "tie": tie(*tables.values()),
            "bias": any(name.endswith("linear_0/bias") for name in variables),
            "output_bias": "decoder/projection/bias" in variables,
            "scale_embeddings": spec.scale("encoder") != 1,
            "start_token": "pad" if starts_with_pad else "bos",
        },
        folder,
    )
    weights: dict[str, Tensor] = {}
    for part, modules in parts(ours).items():
        for name in ("weight", "bias"):
            stored = variables.get(f"{part}/{their_parameter(part, name)}")
            matrix = variables.get(f"{part}/weight")
            if stored is None and matrix is not None and ours.bias and "/layer_" in part:
                stored = matrix.new_zeros(len(matrix))
            if stored is not None:
                pieces = stored.chunk(len(modules))
                weights |= {f"{m}.{name}": each for m, each in zip(modules, pieces, strict=False)}
    if ours.positions == "learned":
        for side, module in zip(SIDES, ("src_positions", "tgt_positions"), strict=True):
            weights[f"{module}.table"] = spec.positions(side)[: ours.max_positions]
    return network_of(folder / "model.bin", ours, weights)
