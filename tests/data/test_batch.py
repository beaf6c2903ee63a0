"""Batches against lists padded by hand."""

import random

import pytest
import torch

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID
from seq2seq.data.batch import make_batch
from seq2seq.data.store import TokenStore


def padded(rows: list[list[int]]) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [PAD_ID] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize("indices", [[0, 1, 2, 3], [3, 1], [2], [1, 1]], ids=str)
@pytest.mark.parametrize("start_id", [BOS_ID, PAD_ID])
def test_a_batch_is_the_ids_with_start_and_end_tokens_padded_on_the_right(
    start_id: int, indices: list[int]
) -> None:
    rng = random.Random(start_id)
    src = [[rng.randrange(4, 99) for _ in range(length)] for length in (3, 0, 5, 1)]
    tgt = [[rng.randrange(4, 99) for _ in range(length)] for length in (1, 6, 0, 2)]
    batch = make_batch(TokenStore(src), TokenStore(tgt), indices, start_id)
    assert batch.src.tolist() == padded([[*src[i], EOS_ID] for i in indices])
    assert batch.tgt_in.tolist() == padded([[start_id, *tgt[i]] for i in indices])
    assert batch.tgt_out.tolist() == padded([[*tgt[i], EOS_ID] for i in indices])
    assert batch.src_lens.tolist() == [len(src[i]) + 1 for i in indices]
    assert batch.tgt_lens.tolist() == [len(tgt[i]) + 1 for i in indices]
    assert {tensor.dtype for tensor in batch} == {torch.int64}


def test_what_the_decoder_should_say_is_what_it_reads_one_step_later() -> None:
    store = TokenStore([[5, 6], [], [9]])
    batch = make_batch(store, store, [0, 1, 2], BOS_ID)
    for read, say, length in zip(batch.tgt_in, batch.tgt_out, batch.tgt_lens, strict=True):
        assert read[0] == BOS_ID
        assert read[1:length].tolist() == say[: length - 1].tolist()
        assert say[length - 1] == EOS_ID
