"""Encoded corpora; and a loader that was cut anywhere must go on as if it never had been."""

import random
from itertools import islice
from typing import Any

import pytest

from seq2seq.config import BOS_ID, EOS_ID, SubwordConfig
from seq2seq.data.batch import Batch
from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import EncodedCorpus, ResumableLoader, TextBatches, TrainingBatches
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.store import TokenStore
from seq2seq.text.subwords import Subwords, train_subwords

WORDS = ["kare", "tosu", "mino", "la", "s"]
SENTENCES = [" ".join(random.Random(n).choices(WORDS, k=n % 6)) for n in range(40)]
PAIRS = list(map(Pair, SENTENCES, reversed(SENTENCES)))
Contents = list[list[Any]]


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_subwords(SENTENCES, SubwordConfig(), 280))


@pytest.fixture(scope="module")
def corpus(subwords: Subwords) -> EncodedCorpus:
    return EncodedCorpus.encode(PAIRS, subwords, subwords)


def contents(batch: Batch) -> Contents:
    return [tensor.tolist() for tensor in batch]


def test_a_corpus_holds_the_subwords_of_its_pairs(
    corpus: EncodedCorpus, subwords: Subwords
) -> None:
    assert corpus.lengths() == [
        (len(subwords.encode(pair.src)) + 1, len(subwords.encode(pair.tgt)) + 1) for pair in PAIRS
    ]
    batch = TrainingBatches(corpus, BOS_ID)[list(range(40))]
    for ids, length, pair in zip(batch.src, batch.src_lens, PAIRS, strict=True):
        assert ids[:length].tolist() == [*subwords.encode(pair.src), EOS_ID]
    for ids, length, pair in zip(batch.tgt_in, batch.tgt_lens, PAIRS, strict=True):
        assert ids[:length].tolist() == [BOS_ID, *subwords.encode(pair.tgt)]


@pytest.mark.parametrize("kept", [[3, 0, 39], [7], list(range(39, -1, -1))], ids=len)
def test_a_subset_is_the_corpus_of_the_kept_pairs_in_their_order(
    corpus: EncodedCorpus, subwords: Subwords, kept: list[int]
) -> None:
    subset = corpus.subset(kept)
    oracle = EncodedCorpus.encode([PAIRS[i] for i in kept], subwords, subwords)
    assert subset.pairs == oracle.pairs
    assert subset.lengths() == oracle.lengths()
    everything = list(range(len(kept)))
    batches = TrainingBatches(subset, BOS_ID), TrainingBatches(oracle, BOS_ID)
    assert contents(batches[0][everything]) == contents(batches[1][everything])


def test_a_batch_for_evaluation_knows_its_lines_and_their_text(corpus: EncodedCorpus) -> None:
    found = TextBatches(corpus, BOS_ID)[[5, 2]]
    assert found.indices == [5, 2]
    assert found.pairs == [PAIRS[5], PAIRS[2]]
    assert contents(found.batch) == contents(TrainingBatches(corpus, BOS_ID)[[5, 2]])


def toy_loader(workers: int = 0, rank: int = 0, world: int = 1) -> ResumableLoader:
    """Each sentence of this corpus is its own number, so a batch tells what is in it."""
    numbers = [[n] * (n % 4 + 1) for n in range(10, 33)]
    store = TokenStore(numbers)
    corpus = EncodedCorpus([Pair("", "")] * len(numbers), store, store)
    sampler = TokenBatchSampler(corpus.lengths(), 16, seed=5, rank=rank, world=world)
    return ResumableLoader(
        TrainingBatches(corpus, BOS_ID),
        sampler=sampler,
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def epochs(loader: ResumableLoader, number: int) -> list[Contents]:
    return [contents(batch) for _ in range(number) for batch in loader]


def walked(loader: ResumableLoader, batches: int) -> dict[str, int]:
    """The loader's state when `batches` have been taken, over as many epochs as that needs."""
    taken = 0
    while taken < batches:
        for _ in islice(loader, batches - taken):
            taken += 1
    return loader.state_dict()


@pytest.mark.parametrize("world", [1, 2])
def test_a_loader_cut_anywhere_goes_on_as_if_it_never_had_been(world: int) -> None:
    rank = world - 1
    whole = epochs(toy_loader(rank=rank, world=world), 4)
    in_epoch = len(toy_loader(rank=rank, world=world))
    assert whole[:in_epoch] != whole[in_epoch : 2 * in_epoch]
    for cut in range(2 * in_epoch + 2):
        resumed = toy_loader(rank=rank, world=world)
        resumed.load_state_dict(walked(toy_loader(rank=rank, world=world), cut))
        begun = cut // in_epoch
        assert epochs(resumed, 4 - begun) == whole[cut:], f"cut after {cut} batches"


def test_a_loader_with_workers_cut_in_its_second_epoch_goes_on_too() -> None:
    whole = epochs(toy_loader(), 3)
    cut = len(toy_loader()) + 2
    resumed = toy_loader(workers=2)
    resumed.load_state_dict(walked(toy_loader(), cut))
    assert epochs(resumed, 2) == whole[cut:]
    assert resumed.state_dict() == walked(toy_loader(), len(whole))


def test_a_loader_cut_twice_goes_on_too() -> None:
    whole = epochs(toy_loader(), 3)
    once, twice = toy_loader(), toy_loader()
    once.load_state_dict(walked(toy_loader(), 2))
    list(islice(once, 3))
    twice.load_state_dict(once.state_dict())
    assert epochs(twice, 3) == whole[5:]


def test_a_state_that_was_loaded_is_the_state_to_save() -> None:
    for cut in range(2 * len(toy_loader()) + 1):
        state = walked(toy_loader(), cut)
        loader = toy_loader()
        loader.load_state_dict(state)
        assert loader.state_dict() == state


def test_the_end_of_an_epoch_is_saved_as_the_beginning_of_the_next() -> None:
    loader = toy_loader()
    assert walked(loader, len(loader)) == {"epoch": 1, "batches": 0}
    assert walked(loader, len(loader) + 1) == {"epoch": 2, "batches": 1}


def test_the_length_is_that_of_a_whole_epoch_also_in_the_middle() -> None:
    loader = toy_loader()
    whole = len(list(loader))
    loader.load_state_dict({"epoch": 0, "batches": 2})
    assert len(loader) == whole
    assert len(list(loader)) == whole - 2
    assert len(loader) == len(list(loader)) == whole
