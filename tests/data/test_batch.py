"""Batches against lists padded by hand."""

import random
from collections.abc import Sequence

import pytest
import torch
from torch.distributed.utils import _to_kwargs

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID
from seq2seq.data.batch import batches, make_batch, pad, twice, uniform, with_other_sources

RNG = random.Random(0)
SRC, TGT = (
    [[RNG.randrange(4, 99) for _ in range(length)] for length in lengths]
    for lengths in ((3, 0, 5, 1), (1, 6, 0, 2))
)


def padded(rows: list[list[int]]) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [PAD_ID] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize("start_id", [BOS_ID, PAD_ID])
def test_a_batch_is_the_ids_with_start_and_end_tokens_padded_on_the_right(
    start_id: int,
) -> None:
    batch = make_batch(SRC, TGT, start_id)
    assert batch.src.tolist() == padded([[*ids, EOS_ID] for ids in SRC])
    assert batch.tgt_in.tolist() == padded([[start_id, *ids] for ids in TGT])
    assert batch.tgt_out.tolist() == padded([[*ids, EOS_ID] for ids in TGT])
    assert batch.src_lens.tolist() == [len(ids) + 1 for ids in SRC]
    assert batch.tgt_lens.tolist() == [len(ids) + 1 for ids in TGT]
    assert {tensor.dtype for tensor in batch[:5]} == {torch.int64}


def test_what_the_decoder_should_say_is_what_it_reads_one_step_later() -> None:
    batch = make_batch(SRC, TGT, BOS_ID)
    for read, say, length in zip(batch.tgt_in, batch.tgt_out, batch.tgt_lens, strict=True):
        assert read[0] == BOS_ID
        assert read[1:length].tolist() == say[: length - 1].tolist()
        assert say[length - 1] == EOS_ID


def test_the_number_of_tokens_is_known_on_the_host_wherever_the_batch_is() -> None:
    meta = torch.device("meta")
    moved = make_batch(SRC, TGT, BOS_ID).to(meta)
    ((distributed,),), _ = _to_kwargs((moved,), {}, meta, False)  # as DistributedDataParallel does
    for batch in (moved, distributed):
        assert {tensor.device.type for tensor in batch[:5]} == {"meta"}
        assert batch.src_tokens == sum(len(ids) + 1 for ids in SRC)
        assert batch.tokens == sum(len(ids) + 1 for ids in TGT)


def test_twice_has_all_rows_and_then_all_of_them_again() -> None:
    expected = make_batch([*SRC, *SRC], [*TGT, *TGT], BOS_ID)
    found = twice(make_batch(SRC, TGT, BOS_ID))
    for each, wanted in zip(found[:5], expected[:5], strict=True):
        assert torch.equal(each, wanted)
    assert found[5:] == expected[5:]


def test_sentences_without_a_token_have_no_columns() -> None:
    ids, lens = pad([[], []])
    assert ids.shape == (2, 0)
    assert lens.tolist() == [0, 0]


def test_with_other_sources_every_sentence_has_its_neighbours_source_and_its_own_target() -> None:
    batch, other = (
        make_batch(SRC, TGT, BOS_ID),
        with_other_sources(make_batch(SRC, TGT, BOS_ID)),
    )
    expected = make_batch([SRC[-1], *SRC[:-1]], TGT, BOS_ID)
    for found, wanted in zip(other[:5], expected[:5], strict=True):
        assert torch.equal(found, wanted)
    assert not torch.equal(batch.src_lens, other.src_lens)


@pytest.mark.parametrize("lengths", [[5, 1, 9, 3, 9, 2, 1], [4], [], [7] * 5])
@pytest.mark.parametrize("tokens", [1, 10, 18, 1000])
def test_batches_hold_each_sentence_once_and_stay_within_budget_or_are_one(
    lengths: Sequence[int], tokens: int
) -> None:
    made = list(batches(lengths, tokens))
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    padded = [len(batch) * max(lengths[index] for index in batch) for batch in made]
    assert all(p <= tokens or len(b) == 1 for p, b in zip(padded, made, strict=True))
    in_order = [lengths[index] for batch in made for index in batch]
    assert in_order == sorted(lengths, reverse=True)
    for batch in made[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]] > tokens


def test_a_uniform_batch_has_sentences_of_end_tokens_without_padding() -> None:
    source, target = (torch.full((2, length), EOS_ID) for length in (4, 7))
    expected = source, torch.tensor([4, 4]), target, target, torch.tensor([7, 7])
    assert uniform(2, 4, 7)[5:] == (8, 14)
    for found, wanted in zip(uniform(2, 4, 7)[:5], expected, strict=True):
        assert torch.equal(found, wanted)
