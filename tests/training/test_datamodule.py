"""What a run knows of its corpora before it trains on them."""

import numpy as np
import pytest

from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.training.datamodule import CorpusDataModule


@pytest.mark.parametrize(("batch_tokens", "batch_pairs"), [(512, 1024), (512, 7), (10, 1024)])
def test_the_largest_part_is_the_largest_batch_of_the_longest_sentences(
    batch_tokens: int, batch_pairs: int
) -> None:
    data = CorpusDataModule(batch_tokens=batch_tokens, batch_pairs=batch_pairs)
    lengths = np.full((100, 2), 23, np.uint32)
    sampler = TokenBatchSampler(lengths, batch_tokens, batch_pairs=batch_pairs)
    data.samplers = [sampler]
    assert data.largest_part == (max(len(draw.indices) for draw in sampler), 24)


@pytest.mark.parametrize(("batch_tokens", "pairs"), [(512, 1024), (4096, 1024), (32768, 8192)])
def test_large_batches_may_have_as_many_pairs_as_four_positions_each_fill(
    batch_tokens: int, pairs: int
) -> None:
    data = CorpusDataModule(batch_tokens=batch_tokens)
    lengths = np.full((20_000, 2), 2, np.uint32)
    data.samplers = [TokenBatchSampler(lengths, batch_tokens, batch_pairs=data.batch_pairs)]
    assert data.batch_pairs == pairs
    assert max(len(draw.indices) for draw in data.samplers[0]) == min(pairs, batch_tokens // 3)
