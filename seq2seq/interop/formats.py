"""The formats of others: those that a model can be read from, and the libraries that one can be
exported to, each an extra of our distribution. A module each, imported when it is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from seq2seq.errors import ConfigError

SOURCES = {
    "huggingface": "seq2seq.interop.huggingface_source",
    "ctranslate2": "seq2seq.interop.ctranslate2_source",
    "joeynmt": "seq2seq.interop.joeynmt_source",
    "fairseq": "seq2seq.interop.fairseq_source",
}
"""See `sources.Source`."""
TARGETS = {
    "ctranslate2": "seq2seq.interop.ctranslate2",
    "huggingface": "seq2seq.interop.huggingface",
    "onnx": "seq2seq.interop.onnx",
}
"""See `targets.Target`."""
HOLD_TERMS = ("native", "onnx")
"""Engines that search as we do, and hold terms."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """What is imported in this block comes with that extra."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{name} is not installed ({error}); run: pip install 'seq2seq-lightning[{name}]'."
        ) from None
