"""What a worker packs is what comes out."""

import pickle

import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import BOS_ID
from seq2seq.data.batch import Batch, make_batch
from seq2seq.data.parcel import Parcel

SENTENCES = st.lists(st.integers(4, 9), max_size=6)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    src, tgt = zip(*pairs, strict=True)
    return make_batch(src, tgt, BOS_ID)


PARTS = st.lists(st.builds(batch_of, PAIRS), min_size=1, max_size=3)


def listed(batches: list[list[Batch]]) -> list[list[list[object]]]:
    """What the tensors hold, and the tokens."""
    return [[[*(x.tolist() for x in part[:5]), *part[5:]] for part in batch] for batch in batches]


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_what_goes_in_comes_out(batches: list[list[Batch]]) -> None:
    sent = pickle.loads(pickle.dumps(Parcel.of(batches)))
    assert listed(list(sent.batches())) == listed(batches)


def test_its_batches_share_its_memory() -> None:
    parcel = Parcel.of([[make_batch([[5, 6], [7]], [[8], []], BOS_ID)] * 2] * 3)
    storages = {
        x.untyped_storage().data_ptr()
        for batch in parcel.batches()
        for part in batch
        for x in part
        if isinstance(x, torch.Tensor)
    }
    assert storages == {parcel.content.untyped_storage().data_ptr()}
