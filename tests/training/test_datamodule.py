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
