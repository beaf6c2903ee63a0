"""Read the model_dir of a JoeyNMT 2.3 Transformer.

It has config.yaml, checkpoints, src_vocab.txt, trg_vocab.txt and SentencePiece models, of which
JoeyNMT uses the pieces that are in a vocabulary.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from seq2seq.errors import ModelFolderError
from seq2seq.interop.files import read_bytes, read_checkpoint, read_text, text_of, weights_in
from seq2seq.interop.joeynmt_names import ACTIVATIONS, alternating, their_name, with_features
from seq2seq.interop.refusal import refuse
from seq2seq.interop.renamed import check_matrices, tie
from seq2seq.interop.vocabulary import SpecialIds, Vocabulary, pieces_of, vocabulary
from seq2seq.model_folder import SavedModel, model_config
from seq2seq.nn.transformer import Transformer
from seq2seq.nn.weights import network_of
from seq2seq.text.piece_order import restricted
from seq2seq.text.subwords import Subwords
from seq2seq.versioned import shown

Config = Mapping[str, Any]
READ = {theirs: ours for ours, theirs in ACTIVATIONS.items()}
STACKS = ("encoder", "decoder")
LANGUAGES = ("src", "trg")
DEFAULTS: dict[str, dict[str, Any]] = {
    "encoder": {"type": "recurrent", "num_layers": 8, "num_heads": 4, "layer_norm": None},
    "decoder": {"type": "transformer", "num_layers": 4, "num_heads": 8, "layer_norm": "post"},
}
"""Where config.yaml is silent. An encoder without layer_norm is pre-norm without a last norm."""
SHARED = {"hidden_size": 512, "ff_size": 2048, "activation": "relu", "alpha": 1.0}
"""The same of both."""
TEXT = {
    "level": "bpe",
    "tokenizer_type": "sentencepiece",
    "pretokenizer": "none",
    "lowercase": False,
    "normalize": False,
}
"""How text is cut."""
SPECIAL: dict[str, Any] = {
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": None,
    "lang_tags": [],
}
ORDER = ("unk", "pad", "bos", "eos")
"""Of the first entries of a vocabulary."""
SRC, TGT, OUT = (
    their_name(f"{each}.weight") for each in ("src_embedding", "tgt_embedding", "output")
)
SINUSOIDS = [f"{stack}.pe.pe" for stack in STACKS]


def recognises(path: Path) -> bool:
    """Whether config.yaml describes an encoder and a decoder."""
    config = path / "config.yaml"
    settings = _read_yaml(config) if config.is_file() else {}
    return all(_part(settings, "model", stack) for stack in STACKS)


def read(folder: Path) -> SavedModel:
    """The model of best.ckpt, or of the latest checkpoint where there is none."""
    config = _read_yaml(folder / "config.yaml")
    found = list(obstacles(config))
    refuse(f"{folder / 'config.yaml'} cannot be represented", found, ModelFolderError)
    weights = _read_weights(*weight_files(folder))
    (src, src_subwords), (tgt, tgt_subwords) = _vocabularies(folder, config, weights)
    network = _network(folder, config, weights, src, tgt)
    src_lang, tgt_lang = (text_of(_part(config, "data", each), "lang") for each in LANGUAGES)
    return SavedModel(network, src_subwords, tgt_subwords, src_lang, tgt_lang)


def obstacles(config: Config) -> Iterator[str]:
    """What ours cannot be, each with what is expected."""
    for stack in STACKS:
        settings = _stack(config, stack)
        width = settings["hidden_size"]
        for name, choices in (
            ("type", ["transformer"]),
            ("layer_norm", ["pre", "post"]),
            ("activation", list(READ)),
            ("alpha", [1.0]),
            ("embeddings.embedding_dim", [width]),
        ):
            value = settings.get(name)
            if value not in choices:
                expected = " or ".join(map(_shown, choices))
                yield f"model.{stack}.{name}={_shown(value)}: expected {expected}."
    for name in ("num_heads", "hidden_size", "ff_size", "layer_norm", "activation"):
        encoder, decoder = (_stack(config, stack)[name] for stack in STACKS)
        if encoder != decoder:
            both = f"{_shown(encoder)} and {_shown(decoder)} of the decoder"
            yield f"model.encoder.{name}={both} must be equal."
    scales = {_scaled(config, stack) for stack in STACKS}
    if len(scales) > 1:
        yield "model.encoder.embeddings.scale and model.decoder.embeddings.scale must be equal."
    for side in LANGUAGES:
        settings = _part(config, "data", side)
        kind = settings.get("tokenizer_type", settings.get("bpe_type", "sentencepiece"))
        pretokenizer = _part(settings, "tokenizer_cfg").get("pretokenizer", "none")
        found: dict[str, object] = settings | {"tokenizer_type": kind, "pretokenizer": pretokenizer}
        for name, usual in TEXT.items():
            if found.get(name, usual) != usual:
                yield f"data.{side}.{name}={_shown(found[name])}: expected {usual}."
    special = _special(config)
    for name in (f"{each}_token" for each in ORDER):
        if not isinstance(special[name], str):
            yield f"data.special_symbols.{name}={_shown(special[name])}: expected a token."
    for name in ("sep_token", "lang_tags"):
        if special[name]:
            yield f"data.special_symbols.{name}={_shown(special[name])}: ours has no prompts."


def _shown(value: object) -> str:
    """Short: a few lines of YAML can stand for more than fits into memory."""
    return value if isinstance(value, str) else shown(value)


def _stack(config: Config, stack: str) -> dict[str, Any]:
    """Settings of the encoder or the decoder, those of its embeddings under dotted names.

    Words stand for lists and objects: a few lines of YAML make two that take hours to compare.
    """
    settings = _part(config, "model", stack)
    embeddings = {"embedding_dim": 64, "scale": False} | _part(settings, "embeddings")
    dotted = {f"embeddings.{name}": value for name, value in embeddings.items()}
    found = SHARED | DEFAULTS[stack] | settings | dotted
    return {
        name: shown(value) if isinstance(value, list | dict) else value
        for name, value in found.items()
    }


def _scaled(config: Config, stack: str) -> bool:
    tied = _part(config, "model").get("tied_embeddings", False)
    return bool(_stack(config, "encoder" if tied else stack)["embeddings.scale"])


def _special(config: Config) -> dict[str, Any]:
    return SPECIAL | _part(config, "data", "special_symbols")


def _part(config: Config, *names: str) -> dict[str, Any]:
    """A section inside sections; empty if it is not there."""
    for name in names:
        inner = config.get(name)
        config = inner if isinstance(inner, dict) else {}
    return dict(config)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(read_bytes(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path} is damaged: {' '.join(str(error).split())}.") from None
    if not isinstance(config, dict):
        raise ModelFolderError(f"{path} is damaged: no settings.")
    return config


def weight_files(folder: Path) -> list[Path]:
    """One checkpoint; the links best.ckpt and latest.ckpt do not outlive every copy."""
    numbered = [path for path in folder.glob("*.ckpt") if path.stem.isdecimal()]
    last = sorted(numbered, key=lambda path: int(path.stem))[-1:]
    for path in (folder / "best.ckpt", folder / "latest.ckpt", *last):
        if path.is_file():
            return [path]
    raise ModelFolderError(f"{folder} has neither best.ckpt nor another checkpoint.")


def _read_weights(path: Path) -> dict[str, Tensor]:
    weights = weights_in(path, read_checkpoint(path).get("model_state"), "its model_state")
    check_matrices(path, weights, (SRC, TGT, OUT))
    return weights


def _vocabularies(
    folder: Path, config: Config, weights: Mapping[str, Tensor]
) -> list[tuple[Vocabulary, Subwords]]:
    """Of the source and the target, with their subwords."""
    special = _special(config)
    files = [_sentencepiece_file(folder, config, side) for side in LANGUAGES]
    models = [read_bytes(path) for path in files]
    texts = [pieces_of(*each) for each in zip(models, files, strict=True)]
    entries = [_entries(folder, config, side) for side in LANGUAGES]
    if entries[0] == entries[1]:
        texts = [[*texts[0], *texts[1]]] * 2
    found = []
    for model, pieces, tokens, name in zip(models, texts, entries, (SRC, TGT), strict=True):
        if len(tokens) != len(weights[name]):
            raise ModelFolderError(
                f"{folder}: a vocabulary has {len(tokens)} entries, but {name} has "
                f"{len(weights[name])} rows."
            )
        unk, pad, bos, eos = (tokens.index(special[f"{each}_token"]) for each in ORDER)
        ids = SpecialIds(unk=unk, pad=pad, bos=bos, eos=eos, start=bos)
        side = vocabulary(folder, dict(enumerate(tokens)), ids, pieces)
        found.append((side, side.subwords(restricted(model, set(tokens)))))
    return found


def _entries(folder: Path, config: Config, side: str) -> list[str]:
    """Of a vocabulary by their ids: special ones first, each once."""
    named = Path(text_of(_part(config, "data", side), "voc_file"))
    paths = [folder / f"{side}_vocab.txt", folder / named.name]
    path = next(filter(Path.is_file, paths), paths[0])
    lines = read_text(path).splitlines()  # at U+2028, too, as JoeyNMT does
    special = _special(config)
    return list(dict.fromkeys([*(special[f"{each}_token"] for each in ORDER), *lines]))


def _sentencepiece_file(folder: Path, config: Config, side: str) -> Path:
    """JoeyNMT copies it into its model_dir."""
    named = Path(text_of(_part(config, "data", side, "tokenizer_cfg"), "model_file"))
    if not named.name:
        raise ModelFolderError(
            f"{folder / 'config.yaml'} is damaged: it lacks data.{side}.tokenizer_cfg.model_file."
        )
    return folder / named.name


def _network(
    folder: Path, config: Config, weights: dict[str, Tensor], src: Vocabulary, tgt: Vocabulary
) -> Transformer:
    """Ours with their weights, rows and features in our order."""
    tables = {SRC: src, TGT: tgt, OUT: tgt}
    weights = weights | {name: side.rows_of(weights[name]) for name, side in tables.items()}
    if tgt.added:
        weights[their_name("output.bias")] = tgt.masked(weights[OUT].new_zeros(max(tgt.rows) + 1))
    encoder, decoder = (_stack(config, stack) for stack in STACKS)
    ours = model_config(
        {
            "src_vocab_size": len(src.pieces),
            "tgt_vocab_size": len(tgt.pieces),
            "d_model": encoder["hidden_size"],
            "heads": encoder["num_heads"],
            "ff_dim": encoder["ff_size"],
            "encoder_layers": encoder["num_layers"],
            "decoder_layers": decoder["num_layers"],
            "norm": encoder["layer_norm"],
            "activation": READ[encoder["activation"]],
            "tie": tie(weights[SRC], weights[TGT], weights[OUT]),
            "output_bias": bool(tgt.added),
            "scale_embeddings": _scaled(config, "encoder"),
        },
        folder / "config.yaml",
    )
    network = network_of(folder, ours, weights, their_name, SINUSOIDS)
    order = alternating(ours.d_model).argsort()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(with_features(name, parameter, order))
    return network
