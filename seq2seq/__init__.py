"""seq2seq: train an encoder-decoder Transformer on a parallel corpus, translate, report BLEU.

The public names are imported on first use, so `import seq2seq` is fast and needs no torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq.config import ModelConfig, SearchConfig
    from seq2seq.errors import UserError
    from seq2seq.nn.transformer import Transformer
    from seq2seq.translator import Translator

_HOME = {
    "ModelConfig": "seq2seq.config",
    "SearchConfig": "seq2seq.config",
    "Transformer": "seq2seq.nn.transformer",
    "Translator": "seq2seq.translator",
    "UserError": "seq2seq.errors",
}
__all__ = ["ModelConfig", "SearchConfig", "Transformer", "Translator", "UserError"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'seq2seq' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
