"""Encoded sentences become padded tensors."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, PAD_ID

Ids = Sequence[int]


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
    """(B,); of a batch on a GPU, too, on the host, which asks for them."""

    @property
    def tokens(self) -> int:
        """Of the translations, end tokens counted, padding not."""
        return sum(self.tgt_lens.tolist())

    @property
    def real(self) -> Tensor:
        """(N,): where in the flattened tgt_out its N tokens stand."""
        return (self.tgt_out.flatten() != PAD_ID).nonzero_static(size=self.tokens)[:, 0]

    def to(self, device: torch.device) -> "Batch":
        """What the network reads on this device, from pinned memory without waiting for it."""
        at_once = device.type == "cuda"
        src, src_lens, tgt_in, tgt_out = (x.to(device, non_blocking=at_once) for x in self[:4])
        return Batch(src, src_lens, tgt_in, tgt_out, self.tgt_lens)


def make_batch(src: Sequence[Ids], tgt: Sequence[Ids], start_id: int, multiple: int = 1) -> Batch:
    """Sentences and their translations, ids without special tokens.

    S and T are rounded up to a multiple of `multiple`.
    """
    src_ids, src_lens = pad([[*ids, EOS_ID] for ids in src], multiple)
    tgt_in, tgt_lens = pad([[start_id, *ids] for ids in tgt], multiple)
    tgt_out, _ = pad([[*ids, EOS_ID] for ids in tgt], multiple)
    return Batch(src_ids, src_lens, tgt_in, tgt_out, tgt_lens)


def uniform(rows: int, src: int, tgt: int) -> Batch:
    """Sentences of so many positions that say nothing but end tokens: to try what they cost."""
    sources, lens = torch.full((rows, src), EOS_ID), torch.full((rows,), tgt)
    tgt_in, tgt_out = (torch.full((rows, tgt), EOS_ID) for _ in range(2))
    return Batch(sources, torch.full((rows,), src), tgt_in, tgt_out, lens)


def with_other_sources(batch: Batch) -> Batch:
    """Every sentence gets the source of the one before it, the first that of the last."""
    return batch._replace(src=batch.src.roll(1, 0), src_lens=batch.src_lens.roll(1))


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Indices, longest first, of up to so many tokens when padded, or of one sentence."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def pad(sentences: Sequence[Ids], multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Ids (B, N) filled up with the padding id, N a multiple of `multiple`, and lengths (B,)."""
    lens = torch.tensor([len(ids) for ids in sentences])
    width = round_up(int(lens.max()), multiple)
    inside = torch.arange(width) < lens[:, None]  # (B, N)
    ids = torch.full(inside.shape, PAD_ID)  # (B, N)
    ids[inside] = torch.tensor(list(chain.from_iterable(sentences)), dtype=torch.int64)
    return ids, lens


def round_up(length: int, multiple: int) -> int:
    """The smallest multiple that is not below `length`."""
    return -(-length // multiple) * multiple
