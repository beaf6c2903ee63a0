"""From the ids of another toolkit to ours, where pad, unk, bos and eos are the first four."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.config import BOS_ID
from seq2seq.errors import ModelFolderError
from seq2seq.text.piece_order import SPECIAL, as_piece

MASKED = -1e4
"""Output bias of what no translation may hold: exp of it is 0 in fp32, and it fits into fp16."""


@dataclass(frozen=True)
class SpecialIds:
    """Where theirs has the special pieces."""

    pad: int
    unk: int
    eos: int
    start: int
    """What the decoder reads first."""
    bos: int | None = None
    """None where start is not a piece of its own."""


@dataclass(frozen=True)
class Vocabulary:
    """Which row of their embeddings each of our ids gets."""

    pieces: list[str]
    """By our ids."""
    rows: list[int]
    """By our ids: of an entry that is only ours, the row that it copies."""
    added: list[int]
    """Our ids that are only ours: no translation may hold them."""

    def rows_of(self, table: Tensor) -> Tensor:
        """table (V theirs, ...) -> (V ours, ...)."""
        return table[torch.tensor(self.rows)]


def vocabulary(
    entries: Mapping[int, str], special: SpecialIds, lacking: Sequence[str] = ()
) -> Vocabulary:
    """entries: theirs by id; lacking: text pieces that have no entry, and so are unknown there."""
    first = [special.pad, special.unk, special.bos, special.eos]
    others = [i for i in sorted(entries) if i not in first]
    pieces = [*SPECIAL, *(as_piece(entries[i]) for i in others), *lacking]
    if len(set(pieces)) < len(pieces):
        twice = next(piece for piece in pieces if pieces.count(piece) > 1)
        raise ModelFolderError(f"the vocabulary has {twice!r} twice; each piece may have one id.")
    start = special.start if special.bos is None else special.bos
    rows = [special.pad, special.unk, start, special.eos, *others, *[special.unk] * len(lacking)]
    added = [BOS_ID] if special.bos is None else []
    return Vocabulary(pieces, rows, [*added, *range(len(others) + 4, len(pieces))])
