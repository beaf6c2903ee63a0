"""From the ids of another toolkit to ours, where pad, unk, bos and eos are the first four."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, PAD_ID
from seq2seq.errors import ModelFolderError
from seq2seq.model_folder import SENTENCEPIECE, SRC_SUBWORDS, TGT_SUBWORDS
from seq2seq.text.piece_order import SPECIAL, as_piece, reordered, text_pieces
from seq2seq.text.subwords import Subwords

_NOT_IN_PIECES = re.compile("[\0\ud800-\udfff]")
"""A zero byte, and half of a surrogate pair."""
MASKED = -1e4
"""Output bias of what no translation may hold: exp of it is 0 in fp32, and it fits into fp16."""


@dataclass(frozen=True)
class SpecialIds:
    """Where theirs has the special pieces."""

    unk: int
    eos: int
    start: int | None = None
    """What the decoder reads first; None for a vector of zeros, and where nothing is decoded."""
    pad: int | None = None
    """None where no row is the padding's."""
    bos: int | None = None
    """None where start is not a piece of its own."""


@dataclass(frozen=True)
class Vocabulary:
    """Which row of their embeddings each of our ids gets."""

    path: Path
    """Where it is from, for errors."""
    pieces: list[str]
    """By our ids."""
    rows: list[int]
    """By our ids: of an entry that is only ours, the row that it copies; -1 for zeros."""
    added: list[int]
    """Our ids that are only ours: no translation may hold them."""
    size: int
    """V theirs."""

    def rows_of(self, table: Tensor) -> Tensor:
        """table (V theirs, ...) -> (V ours, ...); ModelFolderError if it has other rows."""
        if table.shape[:1] != (self.size,):
            raise ModelFolderError(
                f"{self.path}: weights of shape {tuple(table.shape)} do not fit a vocabulary of "
                f"{self.size}."
            )
        zeros = table.new_zeros(1, *table.shape[1:])
        return torch.cat([table, zeros])[torch.tensor(self.rows)]

    def masked(self, output_bias: Tensor) -> Tensor:
        """output_bias (V theirs,) -> (V ours,), so low that none of `added` is ever said."""
        found = self.rows_of(output_bias)
        found[self.added] = MASKED
        return found

    def subwords(self, serialized: bytes) -> Subwords:
        """A SentencePiece model that has our ids."""
        return Subwords(reordered(serialized, self.pieces))


def vocabulary(
    path: Path, entries: Mapping[int, str], special: SpecialIds, texts: Sequence[str] = ()
) -> Vocabulary:
    """path: where it is from; entries: theirs by id; texts: what text can become; a piece without
    entry is unknown there.

    No text becomes an entry that has the name of a special piece of ours but is none there, or that
    SentencePiece does not accept as a piece.
    """
    first = [special.pad, special.unk, special.bos, special.eos]
    for special_id in filter(lambda each: each is not None, [*first, special.start]):
        if type(special_id) is not int or special_id not in entries:
            raise ModelFolderError(
                f"{path}: the vocabulary has no id {special_id}, which is a special one."
            )
    others = [i for i in sorted(entries) if i not in first]
    named = {
        i: as_piece(entries[i]) if _is_piece(entries[i]) else f"<no piece {i}>" for i in others
    }
    known = {*SPECIAL, *named.values()}
    lacking = [text for text in dict.fromkeys(texts) if text not in known]
    pieces = [*SPECIAL, *named.values(), *lacking]
    twice, times = Counter(pieces).most_common(1)[0]
    if times > 1:
        raise ModelFolderError(
            f"{path}: the vocabulary has {twice!r} twice; each piece may have one id."
        )
    pad = -1 if special.pad is None else special.pad
    start = pad if special.start is None else special.start
    bos = start if special.bos is None else special.bos
    rows = [pad, special.unk, bos, special.eos, *others, *[special.unk] * len(lacking)]
    added = [PAD_ID] if special.pad is None else []
    added += [BOS_ID] if special.bos is None else []
    added += range(len(others) + 4, len(pieces))
    return Vocabulary(path, pieces, rows, added, len(entries))


def _is_piece(entry: str) -> bool:
    """Whether it can be a piece in a SentencePiece model, and is no special one of ours."""
    return entry not in ("", *SPECIAL) and not _NOT_IN_PIECES.search(entry)


def pieces_of(serialized: bytes, path: Path) -> list[str]:
    """What text can become with this SentencePiece model; path: where it is from."""
    try:
        Subwords(serialized)
        return list(text_pieces(serialized))
    except (ValueError, RuntimeError):
        raise ModelFolderError(f"{path} is damaged: not a SentencePiece model.") from None


def sentencepiece_files(folder: Path) -> tuple[Path, Path]:
    """Of the source and the target: a pair of known names, or the only model that there is."""
    for src, tgt in ((SRC_SUBWORDS, TGT_SUBWORDS), SENTENCEPIECE):
        if (folder / src).is_file() or (folder / tgt).is_file():
            return folder / src, folder / tgt
    models = [path for path in sorted(folder.glob("*")) if path.suffix in (".model", ".spm")]
    if len(models) == 1:
        return models[0], models[0]
    found = ", ".join(path.name for path in models) or "none"
    raise ModelFolderError(
        f"{folder} does not tell which SentencePiece models made its subwords, it has {found}; put "
        f"them there as source.spm and target.spm, or one of both languages as the only *.model."
    )
