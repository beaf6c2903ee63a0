"""Read a checkpoint of fairseq's Transformer; beside it are dictionaries and SentencePiece models.

Settings are `args`, an argparse.Namespace, or in newer files `cfg`, dictionaries of the model and
the task, which may be such Namespaces, too. Sizes are those of the weights.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.interop import bart
from seq2seq.interop.files import read_bytes, read_checkpoint, read_lines, weights_in
from seq2seq.interop.refusal import refuse
from seq2seq.interop.renamed import (
    check_matrices,
    depth,
    tensor2tensor_sinusoids,
    tie,
)
from seq2seq.interop.vocabulary import (
    SpecialIds,
    Vocabulary,
    pieces_of,
    sentencepiece_files,
    vocabulary,
)
from seq2seq.model_folder import SavedModel, model_config
from seq2seq.nn.transformer import Transformer
from seq2seq.nn.weights import network_of

Settings = Mapping[str, Any]
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
"""Theirs and ours."""
NEEDED = (
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_normalize_before",
    "decoder_normalize_before",
    "source_lang",
    "target_lang",
)
OPTIONS: dict[str, list[Any]] = {
    "task": ["translation"],
    "activation_fn": list(ACTIVATIONS),
    "tokenizer": [None, "space"],
    "bpe": [None, "sentencepiece"],
    "encoder_layers_to_keep": [None],
    "decoder_layers_to_keep": [None],
    "encoder_recurrent_stacking": [None, 1],
    "decoder_recurrent_stacking": [None, 1],
    "adaptive_softmax_cutoff": [None],
    **{
        name: [False]
        for name in (
            "adaptive_input",
            "base_layers",
            "cross_self_attention",
            "layernorm_embedding",
            "merge_src_tgt_embed",
            "no_cross_attention",
            "no_decoder_final_norm",
            "no_token_positional_embeddings",
            "use_factorized_embedding",
        )
    },
}
"""What ours can be; the first is the usual value, and one that is nothing asks for nothing."""
SIDES, STACKS = ("source", "target"), ("encoder", "decoder")
EQUAL = ("attention_heads", "normalize_before", "learned_pos")
"""Of the encoder and the decoder."""
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
"""The first entries of a dictionary."""
PAD, EOS, UNK = map(SPECIAL.index, ("<pad>", "</s>", "<unk>"))
FIRST = PAD + 1
"""Position of the first token."""
LONGEST = 16_384
"""Rows of a table of sinusoids, however many positions the settings allow."""


def their_name(name: str) -> str:
    """Of a parameter of ours; fairseq's names are those of BART."""
    found = bart.their_name(name).removeprefix("model.")
    return "decoder.output_projection.weight" if found == "lm_head.weight" else found


SRC, TGT, OUT = map(their_name, ("src_embedding.weight", "tgt_embedding.weight", "output.weight"))
POSITIONS = [their_name(f"{side}_positions.table") for side in ("src", "tgt")]
NO_WEIGHTS = [
    f"{stack}.{name}" for stack in STACKS for name in ("version", "embed_positions._float_tensor")
]
"""Buffers in a checkpoint."""


def recognises(path: Path) -> bool:
    """Whether it is a checkpoint, or a folder of one with dictionaries."""
    if path.is_dir():
        return any(path.glob("dict.*.txt")) and any(path.glob("*.pt"))
    return path.suffix == ".pt"


def read(path: Path) -> SavedModel:
    """A checkpoint; of a folder the best, the last or the only one."""
    (path,) = weight_files(path)
    state = read_checkpoint(path, [Namespace])
    settings = _settings(state)
    if odd := [name for name, value in settings.items() if isinstance(value, Tensor)]:
        raise ModelFolderError(f"{path} is damaged: its setting {odd[0]} is a tensor.")
    refuse(f"{path} cannot be represented", list(obstacles(settings)), ModelFolderError)
    if missing := [name for name in NEEDED if settings.get(name) is None]:
        raise ModelFolderError(f"{path} is damaged: its settings lack {missing[0]}.")
    weights = _weights(path, state, settings)
    files = sentencepiece_files(path.parent)
    models = [read_bytes(file) for file in files]
    texts = [pieces_of(*each) for each in zip(models, files, strict=True)]
    src_lang, tgt_lang = languages = [str(settings[f"{side}_lang"]) for side in SIDES]
    symbols = [_dictionary(path.parent / f"dict.{language}.txt") for language in languages]
    src, tgt = _vocabularies(path, symbols, texts, weights)
    network = _network(path, settings, weights, src, tgt)
    subwords = src.subwords(models[0]), tgt.subwords(models[1])
    return SavedModel(network, *subwords, src_lang, tgt_lang)


def obstacles(settings: Settings) -> Iterator[str]:
    """What ours cannot be, each with what is expected."""
    arch = str(settings.get("arch", "transformer"))
    if not arch.startswith("transformer"):
        yield f"arch={arch}: expected transformer or one whose name begins with it."
    for name, choices in OPTIONS.items():
        value = settings.get(name, choices[0])
        if value not in choices and (value or choices[0]):
            expected = " or ".join(map(str, choices))
            yield f"{name}={value}: expected {expected}."
    for name in EQUAL:
        encoder, decoder = (settings.get(f"{each}_{name}", False) for each in STACKS)
        if encoder != decoder:
            yield f"encoder_{name}={encoder} and decoder_{name}={decoder} must be equal."


def weight_files(folder: Path) -> list[Path]:
    """One checkpoint."""
    if not folder.is_dir():
        return [folder]
    there = sorted(folder.glob("*.pt"))
    for path in (*(folder / name for name in CHECKPOINTS), *there):
        if path in there and (path.name in CHECKPOINTS or len(there) == 1):
            return [path]
    raise ModelFolderError(
        f"{folder} has {', '.join(path.name for path in there) or 'no *.pt'}; name one of them."
    )


def _settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """All in one dictionary, under the names that options have on fairseq's command line."""
    if state.get("args") is not None:
        return _plain(state["args"])
    config = _plain(state.get("cfg"))
    model, task = _plain(config.get("model")), _plain(config.get("task"))
    found = task | model | {"task": task.get("_name"), "arch": model.get("_name")}
    for name in ("bpe", "tokenizer"):
        found[name] = _plain(config.get(name)).get("_name")
    for stack in STACKS:
        found |= {f"{stack}_{name}": value for name, value in _plain(model.get(stack)).items()}
    return {name: value for name, value in found.items() if value is not None}


def _plain(settings: object) -> dict[str, Any]:
    if isinstance(settings, Namespace):
        settings = vars(settings)
    return dict(settings) if isinstance(settings, dict) else {}


def _weights(path: Path, state: Mapping[str, Any], settings: Settings) -> dict[str, Tensor]:
    """In fp32; older checkpoints do not repeat a shared output projection."""
    weights = weights_in(path, state.get("model"), "its model")
    shares = settings.get("share_decoder_input_output_embed") or settings.get(
        "share_all_embeddings"
    )
    other = TGT if shares else "decoder.embed_out"
    if OUT not in weights and other in weights:
        weights[OUT] = weights[other]
        weights.pop("decoder.embed_out", None)
    check_matrices(path, weights, (SRC, TGT, OUT))
    return weights


def _dictionary(path: Path) -> list[str]:
    """A symbol and its frequency a line, after the special ones."""
    symbols = list(SPECIAL)
    for number, line in enumerate(read_lines(path), start=1):
        symbol, _, frequency = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not frequency.isdecimal():
            raise ModelFolderError(
                f"{path} is damaged: line {number} is not a symbol with a number."
            )
        symbols.append(symbol)
    return symbols


def _vocabularies(
    path: Path,
    symbols: Sequence[Sequence[str]],
    texts: Sequence[Sequence[str]],
    weights: Mapping[str, Tensor],
) -> list[Vocabulary]:
    """Of the source and the target, the same one twice where they share their dictionary."""
    if symbols[0] == symbols[1]:
        texts = [[*texts[0], *texts[1]]] * 2
    found = []
    for entries, pieces, name in zip(symbols, texts, (SRC, TGT), strict=True):
        if len(entries) != len(weights[name]):
            raise ModelFolderError(
                f"{path.parent}: a dictionary has {len(entries)} entries with the special ones, "
                f"but {name} has {len(weights[name])} rows."
            )
        special = SpecialIds(unk=UNK, pad=PAD, eos=EOS, start=EOS)
        found.append(vocabulary(path.parent, dict(enumerate(entries)), special, pieces))
    return found


def _network(
    path: Path, settings: Settings, weights: dict[str, Tensor], src: Vocabulary, tgt: Vocabulary
) -> Transformer:
    """Ours with their weights, rows in our order."""
    tables = {SRC: src, TGT: tgt, OUT: tgt}
    output_bias = tgt.masked(torch.zeros(len(weights[OUT])))
    weights = weights | {name: side.rows_of(weights[name]) for name, side in tables.items()}
    weights[their_name("output.bias")] = output_bias
    positions = _positions(path, settings, weights)
    weights |= dict(zip(POSITIONS, positions, strict=True))
    inner = weights.get(their_name("encoder.0.feed_forward.inner.bias"), torch.empty(0))
    config = model_config(
        {
            "src_vocab_size": len(src.pieces),
            "tgt_vocab_size": len(tgt.pieces),
            "d_model": weights[SRC].shape[1],
            "heads": settings["encoder_attention_heads"],
            "ff_dim": inner.numel(),
            "encoder_layers": depth(weights, "encoder"),
            "decoder_layers": depth(weights, "decoder"),
            "norm": "pre" if settings["encoder_normalize_before"] else "post",
            "activation": ACTIVATIONS[settings.get("activation_fn", "relu")],
            "positions": "learned",
            "max_positions": len(positions[0]),
            "tie": tie(weights[SRC], weights[TGT], weights[OUT]),
            "output_bias": True,
            "scale_embeddings": not settings.get("no_scale_embedding"),
        },
        path,
    )
    return network_of(path, config, weights, their_name, NO_WEIGHTS)


def _positions(path: Path, settings: Settings, weights: Mapping[str, Tensor]) -> list[Tensor]:
    """Two tables (N, D): learned ones up to the end of the shorter one, or its sinusoids, which are
    not ours, up to the end of the longer side, or `LONGEST`."""
    if settings.get("encoder_learned_pos"):
        check_matrices(path, weights, POSITIONS)
        tables = [weights[name][FIRST:] for name in POSITIONS]
        return [table[: min(map(len, tables))] for table in tables]
    ends = [settings.get(f"max_{side}_positions") or 1024 for side in SIDES]
    if odd := [end for end in ends if type(end) is not int or end < 1]:
        raise ModelFolderError(f"{path} is damaged: {odd[0]} is not a number of positions.")
    length = min(max(ends), LONGEST)
    return [tensor2tensor_sinusoids(FIRST, length, weights[SRC].shape[1])] * 2
