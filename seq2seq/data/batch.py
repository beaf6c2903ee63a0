"""Encoded sentences become padded tensors."""

from collections.abc import Callable, Iterator, Sequence
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
    """(B,)."""
    src_tokens: int
    """Sum of src_lens, for which no device needs to be waited for."""
    tokens: int
    """Sum of tgt_lens, likewise."""

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The batch without its numbers of tokens."""
        return self[:5]

    def to(self, device: torch.device) -> "Batch":
        """The same on this device; what is in pinned memory is not waited for."""
        at_once = device.type == "cuda"
        return self.map_tensors(
            lambda x: x.to(device, non_blocking=at_once), self.src_tokens, self.tokens
        )

    def map_tensors(
        self, change: Callable[[Tensor], Tensor], src_tokens: int, tokens: int
    ) -> "Batch":
        """The batch with each tensor changed, and the numbers of tokens that it has then."""
        src, src_lens, tgt_in, tgt_out, tgt_lens = map(change, self.tensors)
        return Batch(src, src_lens, tgt_in, tgt_out, tgt_lens, src_tokens, tokens)


def make_batch(src: Sequence[Ids], tgt: Sequence[Ids], start_id: int) -> Batch:
    """Sentences and their translations, ids without special tokens."""
    src_ids, src_lens = pad([[*ids, EOS_ID] for ids in src])
    tgt_in, tgt_lens = pad([[start_id, *ids] for ids in tgt])
    tgt_out, _ = pad([[*ids, EOS_ID] for ids in tgt])
    src_tokens, tokens = (sum(map(len, side)) + len(side) for side in (src, tgt))
    return Batch(src_ids, src_lens, tgt_in, tgt_out, tgt_lens, src_tokens, tokens)


def uniform(rows: int, src: int, tgt: int) -> Batch:
    """Sentences of so many positions that say nothing but end tokens: to try what they cost."""
    sources, targets = ([[EOS_ID] * (length - 1)] * rows for length in (src, tgt))
    return make_batch(sources, targets, EOS_ID)


def twice(batch: Batch) -> Batch:
    """All rows, and all of them once more."""
    return batch.map_tensors(lambda x: torch.cat([x, x]), 2 * batch.src_tokens, 2 * batch.tokens)


def with_other_sources(batch: Batch) -> Batch:
    """Every sentence gets the source of the one before it, the first that of the last."""
    return batch._replace(src=batch.src.roll(1, 0), src_lens=batch.src_lens.roll(1))


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Batches of indices, longest first: each of at most `tokens` when padded, or one sentence."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def pad(sentences: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Ids (B, N) filled up with the padding id, and lengths (B,)."""
    lens = torch.tensor([len(ids) for ids in sentences])
    inside = torch.arange(int(lens.max())) < lens[:, None]  # (B, N)
    ids = torch.full(inside.shape, PAD_ID)  # (B, N)
    ids[inside] = torch.tensor(list(chain.from_iterable(sentences)), dtype=torch.int64)
    return ids, lens


def round_up(length: int, multiple: int) -> int:
    """The smallest multiple that is not below `length`."""
    return -(-length // multiple) * multiple
