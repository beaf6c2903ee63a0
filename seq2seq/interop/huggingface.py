"""Write a model as a Hugging Face folder, for AutoModelForSeq2SeqLM and AutoTokenizer.

Post-norm is Marian (`MarianMTModel`), pre-norm is Pegasus (`PegasusForConditionalGeneration`): both
are ours with other names, no number changes. The tokenizer is Marian's for both, since it runs our
SentencePiece models as they are.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, ModelConfig
from seq2seq.errors import ConfigError
from seq2seq.interop.bart import ACTIVATIONS, OURS, SHARED, their_name
from seq2seq.interop.model_card import model_card
from seq2seq.model_folder import SavedModel
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.transformer import Transformer
from seq2seq.text.piece_order import as_entry
from seq2seq.text.subwords import Subwords

LONGEST = 1024
"""Rows of a table of sinusoids, which has no end in ours."""


def obstacles(config: ModelConfig) -> list[str]:
    """What neither class can represent, each with what to change; empty if nothing."""
    found = []
    if config.activation not in ACTIVATIONS:
        found.append(
            f"model.activation={config.activation}: their feed-forward layers have two matrices; "
            f"train with {', '.join(ACTIVATIONS)}."
        )
    if config.head_width * config.heads != config.d_model:
        found.append(
            f"model.head_dim={config.head_dim}: their heads are d_model / heads wide; train with "
            f"model.head_dim unset."
        )
    if config.norm == "post" and config.positions == "learned":
        found.append(
            "model.positions=learned: Marian, which model.norm=post needs, computes sinusoids; "
            "train with model.positions=sinusoidal, or model.norm=pre."
        )
    if config.norm == "pre" and config.src_vocab_size != config.tgt_vocab_size:
        found.append(
            f"{config.src_vocab_size} source and {config.tgt_vocab_size} target subwords: Pegasus, "
            f"which model.norm=pre needs, has one size for both; train with equal sizes, or "
            f"model.norm=post."
        )
    return found


def export(saved: SavedModel, folder: Path) -> None:
    """Write weights, configurations, tokenizer and model card; the model has no `obstacles`."""
    transformers = _transformers()
    config = saved.network.config
    marian = config.norm == "post"
    model_class = (
        transformers.MarianMTModel if marian else transformers.PegasusForConditionalGeneration
    )
    config_class = transformers.MarianConfig if marian else transformers.PegasusConfig
    longest = config.max_positions if config.positions == "learned" else LONGEST
    theirs = model_class(config_class(**_settings(config, longest))).eval()
    theirs.load_state_dict(_weights(saved.network, theirs.state_dict()))
    theirs.generation_config = transformers.GenerationConfig(
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=saved.network.start_id,
        suppress_tokens=[PAD_ID, UNK_ID, BOS_ID],  # as our search
        forced_eos_token_id=EOS_ID,  # at the longest
        max_length=longest + 1,  # counts the start token
        num_beams=1,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".exporting-") as scratch:
        new = Path(scratch)
        theirs.save_pretrained(new)
        _write_tokenizer(saved, new, longest)
        card = model_card(saved, model_class.__name__, longest)
        (new / "README.md").write_text(card, encoding="utf-8")
        for path in new.iterdir():
            os.replace(path, folder / path.name)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(
            f"--to huggingface needs the package transformers ({error}): "
            f"pip install 'seq2seq-lightning[huggingface]'."
        ) from None
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _settings(config: ModelConfig, longest: int) -> dict[str, object]:
    return {
        "vocab_size": config.src_vocab_size,
        "decoder_vocab_size": config.tgt_vocab_size,
        "share_encoder_decoder_embeddings": config.tie == "all",
        # What is tied otherwise stands there more than once.
        "tie_word_embeddings": config.tie == "all",
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.ff_dim,
        "decoder_ffn_dim": config.ff_dim,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": longest,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID if config.start_token == "bos" else PAD_ID,
        "forced_eos_token_id": None,
        # What the weights do not tell when such a folder is read again.
        OURS: {name: getattr(config, name) for name in ("bias", "output_bias", "max_positions")},
    }


def _weights(network: Transformer, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Ours under their names, and what ours has no parameters for."""
    weights = {
        their_name(name): parameter.detach().cpu()
        for name, parameter in network.named_parameters(remove_duplicate=False)
    }
    weights[SHARED] = weights[their_name("src_embedding.weight")]
    for name, tensor in wanted.items():
        if name.endswith("bias"):
            weights[name] = weights.get(name, torch.zeros_like(tensor)).view_as(tensor)
        elif name.endswith("embed_positions.weight"):
            weights.setdefault(name, sinusoids(*tensor.shape))
    return {name: weights[name] for name in wanted}


def _write_tokenizer(saved: SavedModel, folder: Path, longest: int) -> None:
    src, tgt = saved.src_subwords, saved.tgt_subwords
    (folder / "source.spm").write_bytes(src.serialized)
    (folder / "target.spm").write_bytes(tgt.serialized)
    _write_json(folder / "vocab.json", _ids(src))
    separate = src.fingerprint != tgt.fingerprint
    if separate:
        _write_json(folder / "target_vocab.json", _ids(tgt))
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "source_lang": saved.src_lang,
        "target_lang": saved.tgt_lang,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _ids(subwords: Subwords) -> dict[str, int]:
    pieces = subwords.pieces(range(len(subwords)))
    return {as_entry(piece): index for index, piece in enumerate(pieces)}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="ascii")
