"""Tiny models with every setting, and what a model says of made-up sentences."""

import os
import random
from functools import cache
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, ModelConfig, SearchConfig, SubwordConfig
from seq2seq.data.batch import make_batch
from seq2seq.decoding.request import Request
from seq2seq.engine import NativeEngine
from seq2seq.model_folder import SavedModel
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords, train_subwords

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks a hub for anything

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 7)) for n in range(90)]
SRC = [[5, 9, 4, 12, 7, 7], [8], [20, 6, 11]]
"""Three sentences, of different lengths so that padding shows."""
TGT = [[7, 4, 4, 19], [10, 21, 5], [6]]
SHORT = SearchConfig(beam=1, max_length_ratio=0, max_length_offset=12)
"""Greedy search, at most 12 subwords."""

SETTINGS: list[dict[str, Any]] = [
    {},
    {"activation": "gelu"},
    {"activation": "silu"},
    {"activation": "swiglu"},
    {"positions": "learned", "max_positions": 20},
    {"tie": "none"},
    {"tie": "none", "tgt_vocab_size": 34},
    {"tie": "source-target"},
    {"tie": "target-output"},
    {"tie": "target-output", "tgt_vocab_size": 34},
    {"bias": False},
    {"output_bias": True},
    {"scale_embeddings": False},
    {"start_token": "pad"},
    {"head_dim": 3},
    {"head_dim": 4},
    {"heads": 1},
    {"ff_dim": 9},
    {"d_model": 9, "heads": 3, "positions": "learned", "max_positions": 20},
    {"max_positions": 20},
    {"encoder_layers": 0},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"decoder_layers": 0},
]
"""Every value of every setting but the norm at least once."""


@cache
def subwords(size: int) -> Subwords:
    config = SubwordConfig(byte_fallback=size > 260)
    return Subwords(train_subwords(TEXTS, config, size))


def random_model(src_size: int = 30, **settings: Any) -> SavedModel:
    """A tiny network with no parameter left at its start value but the padding rows."""
    small: dict[str, Any] = {"d_model": 8, "heads": 2, "ff_dim": 12, "tgt_vocab_size": src_size}
    small |= {"encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig(src_vocab_size=src_size, **{**small, **settings})
    generator = torch.Generator().manual_seed(1)
    network = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
            if name.endswith("embedding.weight"):
                parameter[0] = 0
    return SavedModel(network, subwords(src_size), subwords(config.tgt_vocab_size), "en", "de")


def log_probs(network: Transformer) -> Tensor:
    """Of TGT and the end given SRC: (3, 5, V), padding included."""
    batch = make_batch(SRC, TGT, network.start_id)
    with torch.no_grad():
        return network.project(network(batch.src, batch.src_lens, batch.tgt_in)).log_softmax(-1)


def greedy(network: Transformer) -> list[list[int]]:
    """Translations of SRC, the end included."""
    found = NativeEngine(network).search([Request(ids) for ids in SRC], SHORT)
    return [[*hypotheses[0].tokens, EOS_ID] for hypotheses in found]
