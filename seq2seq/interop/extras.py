"""The libraries that a model can be exported to, each an extra of our distribution."""

from collections.abc import Iterator
from contextlib import contextmanager

from seq2seq.errors import ConfigError

TARGETS = {
    "ctranslate2": "seq2seq.interop.ctranslate2",
    "huggingface": "seq2seq.interop.huggingface",
    "onnx": "seq2seq.interop.onnx",
}
"""A module each, see `targets.Target`, which is imported when it is asked for."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """What is imported in this block comes with that extra."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{name} is not installed ({error}); run: pip install 'seq2seq-lightning[{name}]'."
        ) from None
