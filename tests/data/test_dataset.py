"""What a loader makes batches of."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from corpora import random_pairs
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, SubwordConfig, SubwordSampling
from seq2seq.data.batch import Batch
from seq2seq.data.dataset import TextBatches, TrainingBatches, batches_together
from seq2seq.data.sampler import Draw, TokenBatchSampler
from seq2seq.data.store import lengths_of
from seq2seq.text.subwords import Subwords, train_subwords

PAIRS = [pair for pair in random_pairs(60) if pair.src]
ALL = Draw(0, 0, list(range(len(PAIRS))))
SAMPLING = SubwordSampling(src=0.1, tgt=0.3)
Contents = list[list[Any]]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def subwords(request: pytest.FixtureRequest) -> Subwords:
    config = SubwordConfig(kind=request.param)
    return Subwords(train_subwords((pair.src for pair in random_pairs(300)), config, 290))


def batches(subwords: Subwords, budget: int = 10**6, **options: Any) -> TrainingBatches:
    options = {"start_id": BOS_ID, "batch_pairs": 1024, "max_length": 100, **options}
    return TrainingBatches([PAIRS], subwords, subwords, batch_tokens=budget, **options)


def made(dataset: TrainingBatches, *draws: Draw) -> list[list[Batch]]:
    return list(dataset[draws].batches())


def parts_of(dataset: TrainingBatches, draw: Draw) -> list[Batch]:
    """Of the batch of a draw alone."""
    (parts,) = made(dataset, draw)
    return parts


def contents(parts: list[Batch]) -> Contents:
    return [tensor.tolist() for part in parts for tensor in part[:5]]


def sources_in(parts: list[Batch]) -> list[list[int]]:
    """Source ids of every row, without the end token."""
    rows = []
    for part in parts:
        for ids, length in zip(part.src, part.src_lens, strict=True):
            assert ids[length - 1] == EOS_ID
            rows.append(ids[: length - 1].tolist())
    return rows


def test_a_training_batch_holds_the_subwords_of_its_pairs(subwords: Subwords) -> None:
    (batch,) = parts_of(batches(subwords), ALL)
    rows = zip(
        batch.src.tolist(), batch.src_lens, batch.tgt_in.tolist(), batch.tgt_lens, strict=True
    )
    found = [(src[: s - 1], tgt[1:t]) for src, s, tgt, t in rows]
    assert set(batch.tgt_in[:, 0].tolist()) == {BOS_ID}
    assert sorted(found) == sorted(
        (subwords.encode(pair.src), subwords.encode(pair.tgt)) for pair in PAIRS
    )


def test_sampled_subwords_spell_the_same_text_in_another_way_every_epoch(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    spelled = dict[str, set[tuple[int, ...]]]()
    for epoch in range(5):
        rows = sources_in(parts_of(dataset, ALL._replace(epoch=epoch)))
        texts = [subwords.decode(ids) for ids in rows]
        assert sorted(texts) == sorted(pair.src for pair in PAIRS)
        for text, ids in zip(texts, rows, strict=True):
            spelled.setdefault(text, set()).add(tuple(ids))
    assert sum(len(each) > 1 for each in spelled.values()) > len(spelled) / 2


def test_a_sampled_sentence_follows_from_seed_corpus_epoch_and_index_not_from_its_company(
    subwords: Subwords,
) -> None:
    dataset = batches(subwords, sampling=SAMPLING)
    together = sources_in(parts_of(dataset, ALL._replace(epoch=2)))
    alone = [sources_in(parts_of(dataset, Draw(0, 2, [index])))[0] for index in ALL.indices]
    assert sorted(together) == sorted(alone)
    other = batches(subwords, sampling=SAMPLING, seed=9)
    assert sorted(sources_in(parts_of(other, ALL._replace(epoch=2)))) != sorted(together)


def test_sides_are_sampled_apart(subwords: Subwords) -> None:
    (plain,) = parts_of(batches(subwords), ALL)
    (batch,) = parts_of(batches(subwords, sampling=SubwordSampling(tgt=0.1)), ALL)
    assert sorted(sources_in([batch])) == sorted(sources_in([plain]))
    assert sorted(batch.tgt_in.tolist()) != sorted(plain.tgt_in.tolist())


def test_a_batch_far_over_its_budget_is_cut_by_length_into_parts_and_keeps_every_pair(
    subwords: Subwords,
) -> None:
    for budget in (40, 100, 300):
        dataset = batches(subwords, budget, sampling=SAMPLING)
        parts = parts_of(dataset, ALL)
        assert len(parts) > 1
        for part in parts:
            assert len(part.src) == 1 or max(part.src.numel(), part.tgt_in.numel()) <= 1.5 * budget
        lengths = [torch.maximum(part.src_lens, part.tgt_lens) for part in parts]
        for shorter, longer in pairwise(lengths):
            assert shorter.max() <= longer.min()
        whole = parts_of(batches(subwords, sampling=SAMPLING), ALL)
        assert sorted(sources_in(parts)) == sorted(sources_in(whole))
        assert contents(parts) == contents(parts_of(dataset, ALL))


def test_a_batch_over_its_budget_by_less_than_half_stays_whole(subwords: Subwords) -> None:
    (whole,) = parts_of(batches(subwords, sampling=SAMPLING), ALL)
    size = max(whole.src.numel(), whole.tgt_in.numel())
    assert len(parts_of(batches(subwords, -(-size // 3) * 2, sampling=SAMPLING), ALL)) == 1
    assert len(parts_of(batches(subwords, size // 3 * 2 - 2, sampling=SAMPLING), ALL)) == 2


def test_a_sample_that_is_too_long_gives_way_to_the_best_segmentation(subwords: Subwords) -> None:
    longest = max(len(subwords.encode(side)) for pair in PAIRS for side in pair)
    dataset = batches(subwords, sampling=SAMPLING, max_length=longest)
    epochs = [sources_in(parts_of(dataset, ALL._replace(epoch=epoch))) for epoch in range(9)]
    assert max(len(row) for rows in epochs for row in rows) <= longest
    assert sorted(epochs[0]) != sorted(subwords.encode(pair.src) for pair in PAIRS)


def planned(subwords: Subwords, budget: int, batch_pairs: int = 1024) -> list[Draw]:
    lengths = lengths_of(PAIRS, subwords, subwords)
    return list(TokenBatchSampler(lengths, budget, batch_pairs=batch_pairs))


def longer_sides(made: list[list[Batch]]) -> list[Tensor]:
    """Of each batch, of each of its pairs."""
    return [torch.maximum(part.src_lens, part.tgt_lens) for (part,) in made]


def padding(sides: list[Tensor]) -> int:
    return sum(int((each.max() - each).sum()) for each in sides)


def test_draws_together_share_their_pairs_out_anew_by_sampled_lengths(subwords: Subwords) -> None:
    dataset, draws = batches(subwords, sampling=SAMPLING), planned(subwords, 200)
    apart, together = [parts_of(dataset, draw) for draw in draws], made(dataset, *draws)
    assert len(together) == len(draws)
    sources = [sources_in([part for parts in each for part in parts]) for each in (apart, together)]
    assert sorted(sources[0]) == sorted(sources[1])
    sides = longer_sides(together)
    assert padding(sides) < 0.7 * padding(longer_sides(apart))
    by_length = sorted(sides, key=lambda each: int(each.max()))
    assert all(a.max() <= b.min() for a, b in pairwise(by_length))
    assert [each.tolist() for each in by_length] != [each.tolist() for each in sides]
    costs = [int(each.sum()) for each in sides]
    assert max(costs) < 1.5 * min(costs), "their longer sides add up to about as much"


@pytest.mark.parametrize("batch_pairs", [1, 2, 3, 1024])
@pytest.mark.parametrize("budget", [1, 60, 200])
def test_no_batch_is_empty_or_has_too_many_pairs(
    subwords: Subwords, batch_pairs: int, budget: int
) -> None:
    draws = planned(subwords, budget, batch_pairs)
    dataset = batches(subwords, 10**6, batch_pairs=batch_pairs, sampling=SAMPLING)
    for some in range(1, len(draws) + 1):
        sizes = [len(part.src) for (part,) in made(dataset, *draws[:some])]
        assert len(sizes) == some
        assert sum(sizes) == sum(len(draw.indices) for draw in draws[:some])
        assert min(sizes) > 0
        assert max(sizes) <= batch_pairs


def test_draws_are_together_where_subwords_are_sampled() -> None:
    assert batches_together(2048, SubwordSampling()) == 1
    assert batches_together(2048, SAMPLING) == 64
    assert batches_together(10**6, SubwordSampling(tgt=0.5)) == 1


def test_a_batch_for_evaluation_knows_its_lines_and_their_text(subwords: Subwords) -> None:
    other = Subwords(train_subwords((pair.tgt for pair in PAIRS), SubwordConfig(), 280))
    found = TextBatches(PAIRS, subwords, other, start_id=BOS_ID)[Draw(0, 0, [5, 2])]
    assert found.indices == [5, 2]
    assert found.pairs == [PAIRS[5], PAIRS[2]]
    assert sources_in([found.batch]) == [subwords.encode(PAIRS[index].src) for index in (5, 2)]
    assert found.batch.tgt_out.tolist()[0][: found.batch.tgt_lens[0]] == [
        *other.encode(PAIRS[5].tgt),
        EOS_ID,
    ]
