"""What a run knows of its corpora before it trains on them."""

import gc
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import write_reverse_corpus

from seq2seq.config import BOS_ID, SubwordConfig
from seq2seq.data.batch import uniform
from seq2seq.data.corpus import CorpusFiles
from seq2seq.data.dataset import TrainingBatches
from seq2seq.data.parcel import Parcel
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


def test_its_workers_collect_no_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_reverse_corpus(tmp_path, train=50)
    files = CorpusFiles(src=str(tmp_path / "train.src"), tgt=str(tmp_path / "train.tgt"))
    data = CorpusDataModule(
        files,
        files,
        subwords=SubwordConfig(src_vocab_size=60, tgt_vocab_size=60, byte_fallback=False),
        cache=str(tmp_path),
        workers=1,
    )
    data.setup("fit")
    data.start_id = BOS_ID

    def collecting(*_: object) -> Parcel:
        """Two rows where garbage is collected."""
        return Parcel.of([[uniform(1 + gc.isenabled(), 3, 3)]])

    monkeypatch.setattr(TrainingBatches, "__getitem__", collecting)
    ((batch,),) = data.train_dataloader()
    assert len(batch.src) == 1
    assert gc.isenabled()  # in the process that trains


@pytest.mark.parametrize(
    ("cores", "processes", "workers"), [(1, 1, 1), (6, 1, 3), (64, 1, 8), (64, 8, 4)]
)
def test_workers_for_a_gpu_have_half_of_the_cores_that_this_machine_lets_a_process_use(
    monkeypatch: pytest.MonkeyPatch, cores: int, processes: int, workers: int
) -> None:
    """The second of two machines has as many processes."""
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    trainer: Any = SimpleNamespace(num_devices=processes, world_size=2 * processes)
    trainer.strategy = SimpleNamespace(root_device=torch.device("cuda"))
    data = CorpusDataModule()
    data.trainer = trainer
    assert data._usual_workers == workers
