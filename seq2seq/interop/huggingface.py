"""Write a model as a Hugging Face folder, for AutoModelForSeq2SeqLM and AutoTokenizer.

Post-norm is Marian (`MarianMTModel`), pre-norm is Pegasus (`PegasusForConditionalGeneration`): both
are ours with other names, no number changes. The tokenizer is Marian's for both, since it runs our
SentencePiece models as they are.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, ModelConfig
from seq2seq.errors import ModelFolderError
from seq2seq.interop.bart import ACTIVATIONS, OURS, SHARED, UNTOLD, their_name
from seq2seq.interop.formats import extra
from seq2seq.interop.huggingface_engine import greedy, open_engine
from seq2seq.interop.refusal import MODEL, Abilities, unable
from seq2seq.interop.vocabulary import MASKED
from seq2seq.model_folder import SavedModel
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.transformer import Transformer
from seq2seq.text.piece_order import as_entry
from seq2seq.text.subwords import Subwords

LIBRARY = "transformers"
engine = open_engine
QUANTIZATIONS = ()
LONGEST = 1024
"""Rows of a table of sinusoids, which has no end in ours."""
ABILITIES: Abilities = {**MODEL, "activation": ACTIVATIONS}
_USAGE = """\
seq2seq-lightning wrote it as a `{model_class}`.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

Logits, log-probabilities of given translations and greedy output are those of seq2seq. What is not:

- Greedy search is the default; nearest to `seq2seq translate` is
  `generate(**batch, num_beams=5, length_penalty=1.0, early_stopping=True)`. There is no length
  penalty `gnmt`.
- A translation has at most {longest} subwords, the end token counted; in seq2seq, twice those of
  the source and ten.
- A text of more than {longest} subwords, the end token counted, is an error{why}.
- `</s>`, `<pad>` and `<unk>` in a text, and `>>xx<<` at its start, are read as one token; seq2seq
  reads them as text. Control characters are left as they are.
"""


def obstacles(config: ModelConfig) -> list[str]:
    """What neither class can represent, each with what to change."""
    found = unable(config, ABILITIES, "model.")
    if config.head_width * config.heads != config.d_model:
        found.append(
            f"model.head_dim={config.head_dim}: heads are d_model / heads wide there; train with "
            f"model.head_dim unset."
        )
    if config.norm == "post" and config.positions == "learned":
        found.append(
            "model.positions=learned: with model.norm=post positions are sinusoids there; train "
            "with model.positions=sinusoidal, or model.norm=pre."
        )
    return found


def export(saved: SavedModel, folder: Path, quantize: str | None = None) -> None:
    """Write weights, configurations and tokenizer."""
    assert quantize is None, "QUANTIZATIONS is empty"
    with extra("huggingface"):
        import transformers
    transformers.utils.logging.disable_progress_bar()
    config = saved.network.config
    model_class, config_class = (getattr(transformers, name) for name in _names(config))
    theirs = model_class(config_class(**_settings(config))).eval()
    theirs.load_state_dict(_weights(saved.network, theirs.state_dict()))
    theirs.generation_config = greedy(config.start_id, config.max_length or LONGEST)
    try:
        theirs.save_pretrained(folder)
    except SafetensorError as error:
        raise ModelFolderError(f"{folder} cannot be written: {error}.") from None
    shutil.copymode(folder / "config.json", folder / "model.safetensors")  # for others to read
    _write_tokenizer(saved, folder, config.max_length or LONGEST)


def usage(config: ModelConfig) -> str:
    """For the model card, and what is not as in seq2seq."""
    return _USAGE.format(
        model_class=_names(config)[0],
        longest=config.max_length or LONGEST,
        why=", which seq2seq can translate" if config.positions == "sinusoidal" else "",
    )


def _names(config: ModelConfig) -> tuple[str, str]:
    """Of the classes of model and configuration."""
    if config.norm == "post":
        return "MarianMTModel", "MarianConfig"
    return "PegasusForConditionalGeneration", "PegasusConfig"


def _settings(config: ModelConfig) -> dict[str, object]:
    return {
        # Of one size, which its beam search and Pegasus want.
        "vocab_size": max(config.src_vocab_size, config.tgt_vocab_size),
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
        "max_position_embeddings": config.max_length or LONGEST,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": config.start_id,
        "forced_eos_token_id": None,
        # What the weights do not tell when such a folder is read again.
        OURS: {name: getattr(config, name) for name in UNTOLD},
    }


def _weights(network: Transformer, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Ours under their names and with as many rows, and what ours has no parameters for."""
    ours = {
        their_name(name): parameter.detach().cpu()
        for name, parameter in network.named_parameters(remove_duplicate=False)
    }
    ours[SHARED] = ours[their_name("src_embedding.weight")]
    bias = their_name("output.bias")
    ours.setdefault(bias, torch.zeros(network.config.tgt_vocab_size))
    weights = {}
    for name, tensor in wanted.items():
        if name in ours:
            weights[name] = torch.full_like(tensor, MASKED if name == bias else 0.0)
            rows = weights[name][0] if name == bias else weights[name]
            rows[: len(ours[name])] = ours[name]
        elif name.endswith("embed_positions.weight"):
            weights[name] = sinusoids(*tensor.shape)
        else:
            weights[name] = torch.zeros_like(tensor)
    return weights


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
