"""Encoded sentences become padded tensors."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from seq2seq.config import EOS_ID, PAD_ID


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


def make_batch(src: Sequence[Tensor], tgt: Sequence[Tensor], start_id: int) -> Batch:
    """Ids without special tokens, one 1-D tensor a sentence -> Batch."""
    start, end = torch.tensor([start_id]), torch.tensor([EOS_ID])
    padded_src, src_lens = pad([torch.cat([ids, end]) for ids in src])
    tgt_in, tgt_lens = pad([torch.cat([start, ids]) for ids in tgt])
    tgt_out, _ = pad([torch.cat([ids, end]) for ids in tgt])
    return Batch(padded_src, src_lens, tgt_in, tgt_out, tgt_lens)


def pad(sentences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """1-D tensors -> (B, N) filled up with the padding id, and their lengths (B,)."""
    lens = torch.tensor([len(ids) for ids in sentences])
    return pad_sequence(list(sentences), batch_first=True, padding_value=PAD_ID).long(), lens
