"""Subwords: text to ids and back. The only file that knows SentencePiece."""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SubwordConfig
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.text.normalize import clean

VERSION = f"sentencepiece {sentencepiece.__version__}"
"""What trains the subwords; another version may train others."""


class Subwords:
    """A trained subword model: encode(text) -> ids without start or end token, decode(ids) -> text.

    decode(encode(text)) is normalized(text): Unicode normalised, runs of spaces made one.
    """

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        self._model = sentencepiece.SentencePieceProcessor()
        self._model.LoadFromSerializedProto(serialized)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Read a SentencePiece model; ModelFolderError names a file that is none."""
        try:
            subwords = cls(path.read_bytes())
        except FileNotFoundError:
            raise ModelFolderError(f"{path} does not exist.") from None
        except RuntimeError:
            raise ModelFolderError(f"{path} is damaged: not a SentencePiece model.") from None
        special = [subwords._model.IdToPiece(i) for i in range(4)] if len(subwords) >= 4 else []
        if special != ["<pad>", "<unk>", "<s>", "</s>"]:
            raise ModelFolderError(f"{path} does not begin with <pad>, <unk>, <s>, </s>: {special}")
        return subwords

    def __len__(self) -> int:
        return int(self._model.GetPieceSize())

    def normalized(self, text: str) -> str:
        """The text as the model sees it."""
        return str(self._model.Normalize(clean(text)))

    def encode(self, text: str) -> list[int]:
        return list(self._model.Encode(clean(text)))

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The same for many texts, on all cores."""
        return list(self._model.Encode([clean(text) for text in texts], num_threads=-1))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._model.Decode(list(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords themselves, with U+2581 for a space: for people to read."""
        return [str(self._model.IdToPiece(i)) for i in ids]


def train_subwords(texts: Iterable[str], config: SubwordConfig, vocab_size: int) -> bytes:
    """Train a subword model on cleaned `texts`; at most `vocab_size` subwords, fewer if the text
    has no more. Returns it serialised, the same bytes for the same input."""
    serialized = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=map(clean, texts),
            model_writer=serialized,
            model_type=config.kind,
            vocab_size=vocab_size,
            hard_vocab_limit=config.kind != "unigram",
            byte_fallback=config.byte_fallback,
            character_coverage=0.9995 if config.byte_fallback else 1.0,
            normalization_rule_name=config.normalization,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_piece="<pad>",
            max_sentence_length=1 << 20,
            input_sentence_size=5_000_000,
            shuffle_input_sentence=True,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rsplit("] ", 1)[-1].strip() or str(error)
        raise ConfigError(
            f"data.subwords: SentencePiece cannot train {vocab_size} {config.kind} subwords on "
            f"this corpus: {reason}"
        ) from None
    return serialized.getvalue()
