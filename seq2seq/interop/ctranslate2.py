"""CTranslate2: our parameters under the names of its `TransformerSpec`, no number changed.

Its folder is {config.json, model.bin} and shared_vocabulary.json, or source_vocabulary.json and
target_vocabulary.json: all that its own `Translator` needs. Its tokens are the pieces of our
subword models.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.config import BOS_ID, EOS_ID, UNK_ID, ModelConfig
from seq2seq.interop.ctranslate2_engine import open_engine
from seq2seq.interop.ctranslate2_names import ACTIVATIONS, parts, their_parameter
from seq2seq.interop.formats import extra
from seq2seq.interop.refusal import MODEL, Abilities, unable
from seq2seq.model_folder import SavedModel
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.transformer import Transformer

LIBRARY = "ctranslate2"
engine = open_engine
QUANTIZATIONS = ("int8", "int8_bfloat16", "float16")
LONGEST = 1024
"""Rows of the table of sinusoids, which it wants stored."""
ABILITIES: Abilities = {**MODEL, "activation": ACTIVATIONS}
_USAGE = """\
seq2seq-lightning wrote it for [CTranslate2](https://github.com/OpenNMT/CTranslate2).

```python
import ctranslate2
import sentencepiece

src = sentencepiece.SentencePieceProcessor(model_file="subwords.src.model")
tgt = sentencepiece.SentencePieceProcessor(model_file="subwords.tgt.model")
translator = ctranslate2.Translator(".")
never = [[tgt.id_to_piece(number)] for number in range(3)]  # padding, unknown, start
pieces = src.encode(["A sentence."], out_type=str)
for told in translator.translate_batch(pieces, beam_size=5, suppress_sequences=never):
    print(tgt.decode(told.hypotheses[0]))
```

On the command line: `seq2seq translate --engine ctranslate2 MODEL FILE`, MODEL being this folder.

Log-probabilities of given translations and greedy output are those of seq2seq; beam search stops by
another rule. The table of positions has {longest} rows, and no text may be longer, the end token
counted; a translation ends at `max_decoding_length`, 256 unless told.
"""


def obstacles(config: ModelConfig) -> list[str]:
    """What it cannot represent, each with what to change."""
    found = unable(config, ABILITIES, "model.")
    if config.encoder_layers == 0:
        found.append(
            "model.encoder_layers=0: there is no stack without layers there; train with 1 or more."
        )
    return found


def export(saved: SavedModel, folder: Path, quantize: str | None) -> None:
    """Write its files."""
    spec = specification(saved.network)
    src, tgt = (each.pieces(range(len(each))) for each in (saved.src_subwords, saved.tgt_subwords))
    spec.register_source_vocabulary(src)
    spec.register_target_vocabulary(tgt)
    settings = spec.config
    settings.unk_token, settings.bos_token, settings.eos_token = (
        tgt[UNK_ID],
        tgt[BOS_ID],
        tgt[EOS_ID],
    )
    settings.decoder_start_token = tgt[saved.network.config.start_id]
    settings.add_source_bos, settings.add_source_eos = False, True
    settings.layer_norm_epsilon = torch.nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize(quantize)
    spec.save(str(folder))


def usage(config: ModelConfig) -> str:
    """For the model card, and what is not as in seq2seq."""
    return _USAGE.format(longest=config.max_length or LONGEST)


def specification(network: Transformer) -> Any:
    """A `TransformerSpec` with copies of the parameters, since int8 is made of them in place."""
    with extra("ctranslate2"):
        from ctranslate2.specs import common_spec, model_spec
        from ctranslate2.specs import transformer_spec as theirs

    config = network.config
    settings: dict[str, Any] = {
        "num_heads": config.heads,
        "head_dim": config.head_dim,
        "pre_norm": config.norm == "pre",
        "activation": common_spec.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation == "swiglu",
    }
    encoder = theirs.TransformerEncoderSpec(config.encoder_layers, **settings)
    decoder = theirs.TransformerDecoderSpec(config.decoder_layers, **settings)
    encoder.scale_embeddings = decoder.scale_embeddings = config.scale_embeddings
    encoder.position_encodings.encodings = positions(network.src_positions, config)
    decoder.position_encodings.encodings = positions(network.tgt_positions, config)
    spec = theirs.TransformerSpec(encoder, decoder)
    for part, names in parts(config).items():
        to, modules = model_spec.index_spec(spec, part), [*map(network.get_submodule, names)]
        for name, _ in modules[0].named_parameters():
            parameters = [copy(each.get_parameter(name)) for each in modules]
            setattr(to, their_parameter(part, name), torch.cat(parameters))
    return spec


def positions(module: nn.Module, config: ModelConfig) -> Tensor:
    """The whole table (`longest`, D)."""
    if config.positions == "learned":
        assert isinstance(module.table, Tensor)
        return copy(module.table)
    return sinusoids(LONGEST, config.d_model)


def copy(parameter: Tensor) -> Tensor:
    return parameter.detach().float().cpu().clone()
