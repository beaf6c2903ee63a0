"""Subwords: text to ids and back. The only file that knows SentencePiece."""

import hashlib
import io
import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random

import sentencepiece

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SubwordConfig
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.text.normalize import clean
from seq2seq.text.piece_order import (
    SPECIAL,
    UNUSED,
    USER_DEFINED,
    our_order,
    pieces_in,
    reordered,
    text_pieces,
)
from seq2seq.text.sampling import Segment, bpe_sampler, unigram_sampler

SPACE = "\u2581"
"""How SentencePiece writes a space, with which its words begin."""
VERSION = f"sentencepiece {sentencepiece.__version__}"
"""What trains the subwords; another version may train others."""
LONGEST_TAUGHT = 4096
"""Characters of a line that subwords are learned from: what follows is left out, since a word of
100,000 costs unigram training minutes, and its sums their accuracy."""


class Subwords:
    """A trained subword model: encode(text) -> ids without start or end token, decode(ids) -> text.

    decode(encode(text)) is normalized(text): Unicode normalised, runs of spaces made one.
    """

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        self._model = sentencepiece.SentencePieceProcessor()
        self._model.LoadFromSerializedProto(serialized)

    def __reduce__(self) -> tuple[object, ...]:
        return Subwords, (self.serialized,)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Read a model that has our ids; ModelFolderError names a file that is none."""
        subwords = cls._read(path)
        special = [subwords._model.IdToPiece(i) for i in range(4)] if len(subwords) >= 4 else []
        if special != SPECIAL:
            raise ModelFolderError(f"{path} does not begin with <pad>, <unk>, <s>, </s>: {special}")
        return subwords

    @classmethod
    def adopt(cls, path: Path) -> "Subwords":
        """Read any SentencePiece model that marks the beginning of words, and give its pieces our
        ids; ModelFolderError names a file that is none."""
        theirs = cls._read(path)
        try:
            learned = text_pieces(theirs.serialized)
        except ValueError:
            raise _damaged(path) from None
        for piece in learned:
            if SPACE in piece[1:]:
                raise ModelFolderError(
                    f"{path} has the piece {piece!r}, but U+2581 may only begin one; train it with "
                    f"split_by_whitespace and without treat_whitespace_as_suffix."
                )
        if not theirs._model.Normalize("a").startswith(SPACE):
            raise ModelFolderError(
                f"{path} does not mark the first word of a text; train it with add_dummy_prefix."
            )
        return cls(reordered(theirs.serialized, our_order(theirs.serialized)))

    @classmethod
    def _read(cls, path: Path) -> "Subwords":
        try:
            return cls(path.read_bytes())
        except FileNotFoundError:
            raise ModelFolderError(f"{path} does not exist.") from None
        except OSError as error:
            raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from None
        except RuntimeError:
            raise _damaged(path) from None

    def __len__(self) -> int:
        return int(self._model.GetPieceSize())

    @property
    def fingerprint(self) -> str:
        """The same for the same model, and for no other."""
        return hashlib.sha256(self.serialized).hexdigest()

    def normalized(self, text: str) -> str:
        """The text as the model sees it."""
        return str(self._model.Normalize(_line(text))).replace(SPACE, " ").strip()

    def encode(self, text: str) -> list[int]:
        return list(self._model.Encode(_line(text)))

    def encode_all(self, texts: Iterable[str], *, threads: int = -1) -> list[list[int]]:
        """The same for many texts; -1 threads are all cores."""
        return list(self._model.Encode([_line(text) for text in texts], num_threads=threads))

    def sample(self, text: str, strength: float, random: Random) -> list[int]:
        """A segmentation drawn with this generator; `config.SubwordSampling` explains strength."""
        learned, ids = self._learned, []
        parts = self._symbols.split(str(self._model.Normalize(_line(text))))
        for place, part in enumerate(parts):
            for piece in [part] if place % 2 else self._segment(part, strength, random):
                if piece in learned:
                    ids.append(learned[piece])
                else:
                    ids += self._spelled(piece)
        return ids

    @cached_property
    def _symbols(self) -> re.Pattern[str]:
        """What its maker defined as one piece, a language tag perhaps, and nothing takes apart."""
        longest_first = sorted(map(re.escape, self._of_kind(USER_DEFINED)), key=len, reverse=True)
        return re.compile(f"({'|'.join(longest_first) or '(?!)'})")

    def _of_kind(self, kind: int) -> dict[str, float]:
        """The pieces of one of the kinds of piece_order.py, and their scores."""
        pieces = pieces_in(self.serialized)
        return {piece.text: piece.score for piece in pieces if piece.kind == kind}

    @cached_property
    def _learned(self) -> dict[str, int]:
        """The pieces of text, and their ids."""
        model = self._model
        special = (model.IsControl, model.IsUnknown, model.IsByte, model.IsUnused)
        return {
            str(model.IdToPiece(i)): i
            for i in range(len(self))
            if not any(is_kind(i) for is_kind in special)
        }

    @property
    def settings(self) -> dict[str, object]:
        """The fields of the `SubwordConfig` that it was trained with, as far as it tells."""
        return {
            "kind": self._kind,
            "byte_fallback": len(self.unlearned) > 1,
            "normalization": "nfkc" if self.normalized("\uff21").upper() == "A" else "identity",
        }

    @property
    def _kind(self) -> str:
        # Scores of BPE are the ranks of its merges, those of unigram logarithms.
        ranks = all(score.is_integer() for score in self._scores.values())
        return "bpe" if ranks else "unigram"

    @cached_property
    def _scores(self) -> dict[str, float]:
        return {piece: float(self._model.GetScore(i)) for piece, i in self._learned.items()}

    @cached_property
    def _segment(self) -> Segment:
        if self._kind == "unigram":
            return unigram_sampler(self._scores)
        unused = self._of_kind(UNUSED)
        return bpe_sampler(self._scores | unused, unused)

    def _spelled(self, character: str) -> list[int]:
        """Of a character that is no piece: its bytes, if the model has them."""
        spelled = [self._model.PieceToId(f"<0x{byte:02X}>") for byte in character.encode("utf-8")]
        return [UNK_ID] if UNK_ID in spelled else list(map(int, spelled))

    def spell(self, text: str, *, glued: bool = False) -> list[int]:
        """Ids that decode to this text as it stands, not normalised; glued to what is before it,
        or after a space. They hold UNK_ID where the model cannot write the text."""
        ids = [] if glued else self.encode(text)
        if not glued and UNK_ID not in ids and self.decode(ids) == text:
            return ids
        spaced = (text if glued else f" {text}").replace(" ", SPACE)
        learned, longest, ids, at = self._learned, self._longest, [], 0
        while at < len(spaced):
            pieces = (spaced[at : at + size] for size in range(longest, 0, -1))
            piece = next((piece for piece in pieces if piece in learned), spaced[at])
            ids += [learned[piece]] if piece in learned else self._spelled(piece)
            at += len(piece)
        return ids

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._learned))

    @cached_property
    def spellings(self) -> list[bytes]:
        """What each id adds to a cleaned text, in UTF-8; a byte may be a part of a character."""
        spellings = [b""] * len(self)
        for piece, i in self._learned.items():
            spellings[i] = piece.replace(SPACE, " ").encode()
        for i in self.unlearned - {UNK_ID}:
            byte = int(self._model.IdToPiece(i)[3:5], 16)
            spellings[i] = clean(chr(byte)).encode() or b" " if byte < 128 else bytes([byte])
        return spellings

    def decode(self, ids: Sequence[int]) -> str:
        return clean(self._model.Decode(list(ids)))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords themselves, with U+2581 for a space: for people to read."""
        return [str(self._model.IdToPiece(i)) for i in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Of each subword the word that it begins in, 0 for the first; words stand between spaces.
        A space alone belongs to the word after it, and to none, -1, at the end."""
        word, begins, found = -1, True, []
        for piece in self.pieces(ids):
            text = piece.strip(SPACE)
            begins = begins or piece[0] == SPACE
            if begins and text:
                word, begins = word + 1, False
            found.append(word + begins)
            word += len(re.findall(f"{SPACE}+", text))
            begins = begins or piece[-1] == SPACE
        return [each if each <= word else -1 for each in found]

    def written_words(self, text: str) -> list[int]:
        """`words(encode(text))`, numbered as in `text`: cleaning may make a space, and so two words
        of one, as it does of a tab; normalisation, too, as NFKC does of a no-break space."""
        line = _line(text)
        begun = len(text) + 1 - len(_line(f"{text}."))  # white space before the line
        normalized, offsets = self._model.Normalize(line, with_offsets=True)
        written = [word.start() - begun for word in re.finditer("[^ ]+", text)]
        begin = [offsets[word.start()] for word in re.finditer(f"[^{SPACE}]+", normalized)]
        words = self.words(self.encode(text))
        return [bisect(written, begin[word]) - 1 if word >= 0 else -1 for word in words]

    @cached_property
    def unlearned(self) -> frozenset[int]:
        """Ids that stand for what the vocabulary lacks: the unknown subword, and single bytes."""
        bytes_ = (i for i in range(len(self)) if self._model.IsByte(i))
        return frozenset([UNK_ID, *bytes_])


def _damaged(path: Path) -> ModelFolderError:
    return ModelFolderError(f"{path} is damaged: not a SentencePiece model.")


def _line(text: str) -> str:
    """SentencePiece writes a space as U+2581 and reads it back as one."""
    return clean(text.replace(SPACE, " "))


def train_subwords(texts: Iterable[str], config: SubwordConfig, vocab_size: int) -> bytes:
    """Train a subword model on cleaned `texts`, of `vocab_size` subwords; if the text has no more,
    of fewer with unigram, while bpe is a ConfigError. Returns it serialised, the same bytes for the
    same input."""
    serialized = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=(_line(text)[:LONGEST_TAUGHT] for text in texts),
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
            minloglevel=2,
        )
    except RuntimeError as error:
        if "KeyboardInterrupt" in str(error):  # while it asked for the next sentence
            raise KeyboardInterrupt from None
        raise ConfigError(
            f"data.subwords: cannot train {vocab_size} {config.kind} subwords on this corpus: "
            f"{_reason(str(error))}"
        ) from None
    return serialized.getvalue()


def _reason(message: str) -> str:
    """What SentencePiece says, in words of our settings."""
    if found := re.search(r"too high.*<= (\d+)", message):
        return f"the text gives no more than {found[1]}; use a vocabulary size <= {found[1]}."
    if found := re.search(r"smaller than required_chars.* vs (\d+)", message):
        return f"its characters and bytes alone are {found[1]}; use a larger vocabulary size."
    if "sentences_.empty()" in message:
        return "there is no text in it."
    return message
