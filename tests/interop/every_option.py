"""Tiny models with every value of every setting, and engines of them."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from seq2seq.config import PAD_ID, ModelConfig, SubwordConfig
from seq2seq.engine import ScoringEngine
from seq2seq.interop.exported import Exported
from seq2seq.interop.sample import Example, made_up
from seq2seq.interop.targets import export, target
from seq2seq.model_folder import SavedModel
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords, train_subwords

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 7)) for n in range(90)]

SMALL: dict[str, Any] = {
    "src_vocab_size": 30,
    "tgt_vocab_size": 30,
    "d_model": 12,
    "heads": 2,
    "ff_dim": 10,
    "encoder_layers": 1,
    "decoder_layers": 2,
}
NUMBERS: dict[str, list[Any]] = {
    "src_vocab_size": [34],
    "tgt_vocab_size": [34],
    "d_model": [24],
    "heads": [1, 3],
    "head_dim": [4, 5],
    "ff_dim": [9],
    "encoder_layers": [0, 3],
    "decoder_layers": [1, 3],
    "max_positions": [40],
}
"""Of settings without a closed list of values; one that is missing here is an error."""
TOGETHER: dict[str, dict[str, Any]] = {
    "src_vocab_size": {"tie": "none"},
    "tgt_vocab_size": {"tie": "none"},
    "max_positions": {"positions": "learned"},
}
"""What a setting needs to be allowed, or to matter."""


def values(name: str, kind: Any) -> list[Any]:
    """Of a setting of ModelConfig."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [True, False] if kind is bool else NUMBERS[name]


def options() -> Iterator[dict[str, Any]]:
    """Settings that differ from SMALL in one value, with either norm."""
    for norm in ("pre", "post"):
        for name, kind in get_type_hints(ModelConfig).items():
            for value in values(name, kind):
                if name != "norm":
                    yield {"norm": norm, name: value, **TOGETHER.get(name, {})}


@cache
def subwords(size: int) -> Subwords:
    return Subwords(train_subwords(TEXTS, SubwordConfig(byte_fallback=False), size))


def random_model(**settings: Any) -> SavedModel:
    """No parameter is what it was at the start, but the padding rows."""
    config = ModelConfig(**SMALL | settings)
    generator = torch.Generator().manual_seed(1)
    network = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
            if name.endswith("embedding.weight"):
                parameter[PAD_ID] = 0
    src, tgt = subwords(config.src_vocab_size), subwords(config.tgt_vocab_size)
    return SavedModel(network, src, tgt, "en", "de")


def opened(saved: SavedModel, name: str, folder: Path) -> tuple[ScoringEngine, list[Example]]:
    """The model in another library, and what to ask it."""
    exported: Exported = export(saved, name, folder)
    return target(name).engine(exported, "cpu", "fp32"), made_up(12, exported)
