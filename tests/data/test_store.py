"""The compact store must behave as the list of lists that it replaces."""

import random

from seq2seq.config import PAD_ID
from seq2seq.data.store import TokenStore

RNG = random.Random(0)
SENTENCES = [[RNG.randrange(4, 50_000) for _ in range(RNG.randrange(7))] for _ in range(40)]


def contents(store: TokenStore) -> list[list[int]]:
    """Every sentence, asked for alone."""
    return [store.padded([i])[0][0].tolist() for i in range(len(store))]


def test_the_store_is_the_list_it_was_made_of_empty_sentences_too() -> None:
    store = TokenStore(SENTENCES)
    assert [] in SENTENCES
    assert contents(store) == SENTENCES
    assert store.lengths() == [len(ids) for ids in SENTENCES]


def test_a_batch_is_filled_up_to_its_own_longest_sentence() -> None:
    store = TokenStore(SENTENCES)
    for size in (1, 2, 5, 40):
        indices = RNG.sample(range(len(SENTENCES)), size)
        wanted = [SENTENCES[i] for i in indices]
        longest = max(map(len, wanted))
        ids, lens = store.padded(indices)
        assert ids.tolist() == [row + [PAD_ID] * (longest - len(row)) for row in wanted]
        assert lens.tolist() == [len(row) for row in wanted]


def test_a_batch_of_empty_sentences_has_no_columns() -> None:
    for others in ([], [7]):
        ids, lens = TokenStore([[], [], others]).padded([1, 0])
        assert ids.shape == (2, 0)
        assert lens.tolist() == [0, 0]


def test_a_batch_does_not_share_memory_with_the_store() -> None:
    store = TokenStore(SENTENCES)
    store.padded(range(40))[0].fill_(9)
    assert contents(store) == SENTENCES


def test_a_subset_holds_the_kept_sentences_in_the_order_asked_for() -> None:
    kept = RNG.sample(range(len(SENTENCES)), 11)
    assert contents(TokenStore(SENTENCES).subset(kept)) == [SENTENCES[i] for i in kept]


def test_a_permutation_of_everything_is_a_subset_too() -> None:
    backwards = list(reversed(range(len(SENTENCES))))
    assert contents(TokenStore(SENTENCES).subset(backwards)) == SENTENCES[::-1]


def test_a_store_of_nothing_is_empty() -> None:
    assert len(TokenStore([])) == len(TokenStore(SENTENCES).subset([])) == 0
    assert TokenStore([]).lengths() == []
