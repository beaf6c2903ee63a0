"""What a run knows of its corpora before it trains on them."""

import gc
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_runs import write_reverse_corpus

from seq2seq.config import BOS_ID, PAD_ID, SubwordConfig, SubwordSampling
from seq2seq.data.batch import uniform
from seq2seq.data.corpus import CorpusFiles, Pair
from seq2seq.data.dataset import TrainingBatches, batches_together
from seq2seq.data.mixture import Mixture
from seq2seq.data.parcel import Parcel
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.store import lengths_of
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


def test_the_largest_part_of_sampled_subwords_is_the_largest_that_is_not_cut() -> None:
    sampling, none = SubwordSampling(src=0.1), cast("Any", None)
    data = CorpusDataModule(batch_tokens=512, max_length=30, subword_sampling=sampling)
    data.samplers = [TokenBatchSampler(np.full((100, 2), 23, np.uint32), 512)]
    batches = TrainingBatches(
        [],
        none,
        none,
        start_id=BOS_ID,
        batch_tokens=512,
        batch_pairs=1024,
        max_length=30,
        sampling=sampling,
    )
    pair = [4] * 30, [4] * 30
    whole = [rows for rows in range(1, 100) if len(batches._parts([pair] * rows)) == 1]
    assert data.largest_part == (whole[-1], 31)


@pytest.mark.parametrize("weights", [(None, None), (1.0, 3.0)])
def test_its_training_batches_are_those_of_its_settings(
    tmp_path: Path, weights: tuple[float | None, float | None]
) -> None:
    write_reverse_corpus(tmp_path, train=90)
    first, second = (
        CorpusFiles(src=str(tmp_path / f"{name}.src"), tgt=str(tmp_path / f"{name}.tgt"), weight=w)
        for name, w in zip(("train", "test"), weights, strict=True)
    )
    sampling = SubwordSampling(src=0.3)
    data = CorpusDataModule(
        {"a": first, "b": second},
        subwords=SubwordConfig(src_vocab_size=60, tgt_vocab_size=60, byte_fallback=False),
        cache=str(tmp_path),
        batch_tokens=64,
        batch_pairs=5,
        max_length=8,
        temperature=3.0,
        subword_sampling=sampling,
        workers=0,
        seed=7,
    )
    trainer: Any = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device("cuda")),
        global_rank=1,
        world_size=2,
        num_devices=2,
        accumulate_grad_batches=2,
        limit_train_batches=0.5,
        limit_val_batches=0,
    )
    data.trainer = trainer
    data.setup("fit")
    data.start_id = PAD_ID
    subwords = data.src_subwords, data.tgt_subwords
    order = Mixture(
        [
            TokenBatchSampler(
                lengths_of(store, *subwords),
                64,
                batch_pairs=5,
                max_length=8,
                seed=7,
                rank=1,
                world=2,
                accumulated=2,
                corpus=corpus,
            )
            for corpus, store in enumerate(data.stores)
        ],
        weights=weights,
        temperature=3.0,
        accumulated=2,
        together=batches_together(64, sampling),
        seed=7,
    )
    order.limit = len(order) // 2
    made = TrainingBatches(
        data.stores,
        *subwords,
        start_id=PAD_ID,
        batch_tokens=64,
        batch_pairs=5,
        max_length=8,
        sampling=sampling,
        seed=7,
    )
    loader = data.train_dataloader()
    draws = next(iter(order))
    assert next(iter(loader.sampler)) == draws
    found, expected = (each[draws].batches() for each in (loader.dataset, made))
    assert str(list(found)) == str(list(expected))
    assert (loader.num_workers, loader.pin_memory) == (0, True)
    line = "ba de " * 30
    data.texts["validation"] = [Pair("ba", line)]
    assert data.longest() == ("validation", len(data.tgt_subwords.encode(line)) + 1)


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
