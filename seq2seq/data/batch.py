"""Encoded sentences become padded tensors."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import EOS_ID, PAD_ID
from seq2seq.data.store import TokenStore


class Batch(NamedTuple):
    """Padded on the right; lengths count the end token (and the start token of tgt_in)."""

    src: Tensor
    """(B, S): source ids, end token last."""
    src_lens: Tensor
    """(B,)."""
    tgt_in: Tensor
    """(B, T): start token, then the translation: what the decoder reads."""
    tgt_out: Tensor
    """(B, T): the translation, then the end token: what it should say."""
    tgt_lens: Tensor
    """(B,)."""


def make_batch(src: TokenStore, tgt: TokenStore, indices: Sequence[int], start_id: int) -> Batch:
    """The pairs with these indices."""
    src_ids, src_lens = with_end(*src.padded(indices))
    tgt_ids, tgt_lens = tgt.padded(indices)
    tgt_in = F.pad(tgt_ids, (1, 0), value=start_id)  # (B, T)
    tgt_out, tgt_lens = with_end(tgt_ids, tgt_lens)
    return Batch(src_ids, src_lens, tgt_in, tgt_out, tgt_lens)


def with_end(ids: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
    """ids (B, N) of lengths (B,) -> (B, N + 1) with the end token behind each, and its lengths."""
    ended = F.pad(ids, (0, 1), value=PAD_ID)
    ended[torch.arange(len(ids)), lens] = EOS_ID
    return ended, lens + 1
