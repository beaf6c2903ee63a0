"""Read a Hugging Face folder: Marian (OPUS-MT, or one of ours), or a Pegasus of ours.

Their ids are not SentencePiece's: vocab.json gives each piece its id, and the pieces of source.spm
and target.spm share them. Here embeddings and pieces are put into our order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import PAD_ID, ModelConfig
from seq2seq.errors import ModelFolderError
from seq2seq.interop.bart import ACTIVATIONS, OURS, SHARED, UNTOLD, their_name
from seq2seq.interop.files import read_bytes, read_checkpoint, read_json, text_of, weights_in
from seq2seq.interop.renamed import check_matrices, position_settings, tie
from seq2seq.interop.vocabulary import SpecialIds, Vocabulary, pieces_of, vocabulary
from seq2seq.model_folder import SENTENCEPIECE, SavedModel, model_config, read_weights
from seq2seq.nn.transformer import Transformer
from seq2seq.nn.weights import network_of

NORMS = {"marian": "post", "pegasus": "pre"}
FIELDS = {
    "d_model": "d_model",
    "heads": "encoder_attention_heads",
    "ff_dim": "encoder_ffn_dim",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "scale_embeddings": "scale_embedding",
}
"""Settings of a network, ours and theirs."""
ACTIVATIONS_READ = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {"silu": "silu"}
BIASES = ("_proj.bias", ".fc1.bias", ".fc2.bias")
SPECIAL = ("pad", "eos", "decoder_start")
WEIGHTS = [
    pattern
    for name, ending in (("model", "safetensors"), ("pytorch_model", "bin"))
    for pattern in (f"{name}.{ending}", f"{name}-*-of-*.{ending}")
]
"""Files of weights, whole or in parts; as in transformers, the first that are there are read."""
SRC, TGT, OUT = map(their_name, ("src_embedding.weight", "tgt_embedding.weight", "output.weight"))
OUTPUT_BIAS = their_name("output.bias")
POSITIONS = [their_name(f"{side}_positions.table") for side in ("src", "tgt")]


def recognises(path: Path) -> bool:
    """Whether config.json, as transformers writes it, names a type of model."""
    config = path / "config.json"
    return config.is_file() and "model_type" in read_json(config)


def read(folder: Path) -> SavedModel:
    """The model in a folder that `save_pretrained` of a Marian or Pegasus wrote."""
    theirs = _read_description(folder)
    tokenizer = read_json(folder / "tokenizer_config.json", default={})
    weights = _embeddings_apart(folder, _read_weights(weight_files(folder)), theirs)
    sides = _vocabularies(folder, theirs, weights, bool(tokenizer.get("separate_vocabs")))
    src, tgt = (
        side.subwords(read_bytes(folder / name))
        for name, side in zip(SENTENCEPIECE, sides, strict=True)
    )
    src_lang, tgt_lang = (text_of(tokenizer, f"{side}_lang") for side in ("source", "target"))
    return SavedModel(_network(folder, theirs, weights, *sides), src, tgt, src_lang, tgt_lang)


def _read_description(folder: Path) -> dict[str, Any]:
    """config.json, where all is there and nothing that ours cannot be."""
    path = folder / "config.json"
    theirs = read_json(path)
    generation = read_json(folder / "generation_config.json", default={})
    if "decoder_start_token_id" in generation:
        theirs["decoder_start_token_id"] = generation["decoder_start_token_id"]
    if theirs.get("model_type") not in [*NORMS]:
        raise ModelFolderError(
            f"{path}: model_type={theirs.get('model_type')} cannot be read; expected "
            f"{' or '.join(NORMS)}."
        )
    needed = {*FIELDS.values(), "activation_function"}
    needed |= {f"{name}_token_id" for name in SPECIAL}
    if missing := sorted(needed - theirs.keys()):
        raise ModelFolderError(f"{path} is damaged: it lacks {missing[0]}.")
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (theirs.get(f"{side}_{name}") for side in ("encoder", "decoder"))
        if encoder != decoder:
            raise ModelFolderError(
                f"{path}: encoder_{name}={encoder} and decoder_{name}={decoder} differ; only "
                f"models where they are equal can be read."
            )
    if theirs["activation_function"] not in [*ACTIVATIONS_READ]:
        raise ModelFolderError(
            f"{path}: activation_function={theirs['activation_function']} cannot be read; "
            f"expected one of {', '.join(ACTIVATIONS_READ)}."
        )
    told = theirs.get(OURS)
    kinds = {name: type(getattr(ModelConfig(), name)) for name in UNTOLD}
    theirs[OURS] = {
        name: value
        for name, value in (told.items() if isinstance(told, dict) else ())
        if type(value) is kinds.get(name)
    }
    return theirs


def weight_files(folder: Path) -> list[Path]:
    """One, or its parts; not those of another precision (model.fp16.safetensors)."""
    paths = next(filter(None, (sorted(folder.glob(each)) for each in WEIGHTS)), [])
    if not paths:
        raise ModelFolderError(f"{folder} has neither model.safetensors nor pytorch_model.bin.")
    return paths


def _read_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Of all files, in fp32; no code in them is run."""
    weights: dict[str, Tensor] = {}
    for path in paths:
        weights |= read_checkpoint(path) if path.suffix == ".bin" else read_weights(path)
    return weights_in(paths[0], weights, "what it holds")


def _embeddings_apart(
    folder: Path, weights: dict[str, Tensor], theirs: dict[str, Any]
) -> dict[str, Tensor]:
    """With each of the three matrices under its own name; tied ones may stand there once."""
    tied = theirs.get("tie_word_embeddings", True)
    if tied and theirs.get("share_encoder_decoder_embeddings", True):
        one = next((weights[name] for name in (SHARED, SRC, TGT, OUT) if name in weights), None)
        names = [SRC, TGT, OUT]
    else:
        one = weights.get(TGT)
        names = [OUT] if tied else []
    found = weights if one is None else weights | dict.fromkeys(names, one)
    check_matrices(folder, found, [SRC, TGT, OUT, *(n for n in POSITIONS if n in found)])
    if OUTPUT_BIAS in found:
        found[OUTPUT_BIAS] = found[OUTPUT_BIAS].reshape(-1)
    # In a folder of ours the smaller vocabulary is filled up to the size of the other one.
    for name in (SRC, TGT, OUT, OUTPUT_BIAS):
        if name in found:
            size = "src_vocab_size" if name == SRC else "tgt_vocab_size"
            found[name] = found[name][: theirs[OURS].get(size)]
    return found


def _vocabularies(
    folder: Path, theirs: dict[str, Any], weights: dict[str, Tensor], separate: bool
) -> tuple[Vocabulary, Vocabulary]:
    """Of the source and the target, the same one twice where they share their ids."""
    files = ("vocab.json", "target_vocab.json" if separate else "vocab.json")
    pad, eos, start = (theirs[f"{name}_token_id"] for name in SPECIAL)
    models = [folder / name for name in SENTENCEPIECE]
    learned = [pieces_of(read_bytes(path), path) for path in models]
    if not separate:
        learned = [learned[0] + learned[1]] * 2
    found = []
    starts = (None if separate else start, start)  # a source of its own ids never starts a decoder
    for file, name, texts, first in zip(files, (SRC, TGT), learned, starts, strict=True):
        ids = read_json(folder / file)
        rows = len(weights[name])
        if "<unk>" not in ids:
            raise ModelFolderError(f"{folder / file} is damaged: it lacks <unk>.")
        if odd := [piece for piece, i in ids.items() if type(i) is not int]:
            raise ModelFolderError(f"{folder / file} is damaged: {odd[0]!r} has no number.")
        if len({*ids.values()}) < len(ids):
            raise ModelFolderError(f"{folder / file} is damaged: two pieces have one id.")
        if beyond := [piece for piece, i in ids.items() if not 0 <= i < rows]:
            raise ModelFolderError(
                f"{folder / file}: {beyond[0]!r} has the id {ids[beyond[0]]}, but the embeddings "
                f"have {rows} rows."
            )
        entries = {i: f"<no piece {i}>" for i in range(rows)} | {i: p for p, i in ids.items()}
        padding = ids.get("<pad>", pad)  # not config.json's: a model may start with `</s>` as that
        special = SpecialIds(
            pad=padding,
            unk=ids["<unk>"],
            bos=ids.get("<s>") if first in (None, padding, ids.get("<s>")) else None,
            eos=ids.get("</s>", eos),
            start=first,
        )
        found.append(vocabulary(folder / file, entries, special, texts))
    return found[0], found[1]


def _network(
    folder: Path,
    theirs: dict[str, Any],
    weights: dict[str, Tensor],
    src: Vocabulary,
    tgt: Vocabulary,
) -> Transformer:
    """Ours with their weights, rows in our order."""
    tables = {SRC: src, TGT: tgt, OUT: tgt}
    weights = weights | {name: side.rows_of(weights[name]) for name, side in tables.items()}
    weights[OUTPUT_BIAS] = tgt.masked(weights.get(OUTPUT_BIAS, torch.zeros(max(tgt.rows) + 1)))
    settings = _settings(theirs, weights, pad=tgt.rows[PAD_ID])
    config = model_config(settings, folder / "config.json")
    ignored = {SHARED, OUTPUT_BIAS, *POSITIONS}
    if not config.bias:
        ignored |= {name for name in weights if name.endswith(BIASES)}
    return network_of(folder, config, weights, their_name, ignored)


def _settings(theirs: dict[str, Any], weights: dict[str, Tensor], *, pad: int) -> dict[str, Any]:
    """Of `ModelConfig`: what config.json says, and what only the weights tell. `pad` is the id of
    padding in their vocabulary."""
    ours = theirs[OURS]
    biases = [tensor for name, tensor in weights.items() if name.endswith(BIASES)]
    tables = [weights[name] for name in POSITIONS if name in weights]
    starts_with_pad = theirs["decoder_start_token_id"] == pad
    return {
        **{name: theirs[field] for name, field in FIELDS.items()},
        "src_vocab_size": len(weights[SRC]),
        "tgt_vocab_size": len(weights[TGT]),
        "norm": NORMS[theirs["model_type"]],
        "activation": ACTIVATIONS_READ[theirs["activation_function"]],
        "max_positions": ours.get("max_positions", 512),
        **position_settings(*tables),
        "tie": tie(weights[SRC], weights[TGT], weights[OUT]),
        "bias": ours.get("bias", True) or any(bool(bias.any()) for bias in biases),
        "output_bias": ours.get("output_bias", False) or bool(weights[OUTPUT_BIAS].any()),
        "start_token": "pad" if starts_with_pad else "bos",
    }
