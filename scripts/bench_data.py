"""Measure the data path alone: pairs and tokens a second, memory, start time, waiting of a step.

    python scripts/bench_data.py --src data/multi30k/train.en --tgt data/multi30k/train.de

Larger corpora (--pairs) are the given one repeated, with numbers that make every sentence another.
Each is measured in a process of its own. Memory is what is private to the process and not backed by
a file, so the page cache does not count.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from seq2seq.allocator import keep_freed_memory
from seq2seq.config import BOS_ID, Dropout, ModelConfig, SubwordConfig, SubwordSampling
from seq2seq.data.corpus import CorpusFiles, Pair, stream_pairs
from seq2seq.data.dataset import TrainingBatches, batches_together, most_pairs
from seq2seq.data.loader import ResumableLoader
from seq2seq.data.mixture import Mixture
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.store import PairStore, store_of, write_store
from seq2seq.data.vocabulary import subwords_of
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords
from seq2seq.training.hardware import precision_for
from seq2seq.training.loss import cross_entropy_sum, token_logits

VOCABULARY = SubwordConfig(src_vocab_size=8000, tgt_vocab_size=8000)


def loader_over(
    store: PairStore,
    subwords: Subwords,
    batch_tokens: int,
    workers: int = 0,
    sampling: float | None = None,
) -> ResumableLoader:
    """As training makes it."""
    strengths = SubwordSampling(src=sampling, tgt=sampling)
    lengths, pairs = store.lengths(subwords, subwords, print), most_pairs(batch_tokens)
    sampler = TokenBatchSampler(lengths, batch_tokens, batch_pairs=pairs, max_length=256)
    dataset = TrainingBatches(
        [store],
        subwords,
        subwords,
        start_id=BOS_ID,
        batch_tokens=batch_tokens,
        batch_pairs=pairs,
        max_length=256,
        sampling=strengths,
    )
    order = Mixture([sampler], together=batches_together(batch_tokens, strengths))
    return ResumableLoader(dataset, order, workers)


def throughput(loader: ResumableLoader) -> dict[str, float]:
    """Of one epoch, after another one."""
    for _ in loader:
        pass
    pairs = tokens = 0
    since = time.perf_counter()
    for parts in loader:
        for part in parts:
            pairs += len(part.src)
            tokens += int(part.src_lens.sum()) + part.tokens
    seconds = time.perf_counter() - since
    return {"pairs_per_second": pairs / seconds, "tokens_per_second": tokens / seconds}


def numbered(pairs: list[Pair], number: int) -> Iterator[Pair]:
    """So many pairs, each with a number in it that no other has."""
    for count, pair in enumerate(islice(cycle(pairs), number)):
        yield Pair(f"{count} {pair.src}", f"{count} {pair.tgt}")


def private_bytes() -> int:
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(row for row in rows if row.startswith("Anonymous:")).split()[1])


def build(store: Path, files: CorpusFiles, number: int) -> float:
    """Seconds to store the corpus and to count its subwords."""
    pairs = list(stream_pairs(files))
    since = time.perf_counter()
    write_store(numbered(pairs, number), store)
    subwords = Subwords.load(store.parent / "subwords.model")
    PairStore(store).lengths(subwords, subwords, str)
    return time.perf_counter() - since


def start(store: Path, batch_tokens: int) -> dict[str, float]:
    """What a training process needs once the store exists."""
    subwords = Subwords.load(store.parent / "subwords.model")
    before, since = private_bytes(), time.perf_counter()
    loader = loader_over(PairStore(store), subwords, batch_tokens)
    batches = iter(loader)
    next(batches)
    ready = time.perf_counter() - since
    for _ in islice(batches, 2000):
        pass
    middle = loader_over(PairStore(store), subwords, batch_tokens)
    middle.load_state_dict({"epoch": 3, "batches": len(middle) // 2})
    since = time.perf_counter()
    next(iter(middle))
    return {
        "seconds_to_first_batch": ready,
        "seconds_to_resume": time.perf_counter() - since,
        "private_bytes": private_bytes() - before,
    }


def in_new_process(function: Any, *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def waiting(loader: ResumableLoader, vocab_size: int) -> float:
    """Share of the time of training steps of the speed benchmark's model that goes into the batch:
    of 30, or of those of the second time that batches are made together. In the precision of `fit`
    on this CPU."""
    together = loader.sampler.together
    begin, steps = (5, 30) if together == 1 else (together, together)
    config = ModelConfig(src_vocab_size=vocab_size, tgt_vocab_size=vocab_size)
    network = Transformer(config, rates=Dropout()).train()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    low = precision_for("cpu", config.d_model) == "bf16-mixed"
    batches = iter(loader)
    waited = total = 0.0
    for step in range(begin + steps):
        since = time.perf_counter()
        parts = next(batches)
        got = time.perf_counter()
        optimizer.zero_grad()
        for batch in parts:
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                logits, said = token_logits(network, batch)
            wanted = said[: batch.tokens]
            cross_entropy_sum(logits, wanted, label_smoothing=0.1, unit=batch.tokens).backward()
        optimizer.step()
        if step >= begin:
            waited, total = waited + got - since, total + time.perf_counter() - since
    return waited / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--src", required=True)
    parser.add_argument("--tgt", required=True)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--pairs", type=int, nargs="*", default=[50_000, 5_000_000])
    parser.add_argument("--scratch", type=Path, help="folder for the stores (default: temporary)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    files = CorpusFiles(src=args.src, tgt=args.tgt)
    keep_freed_memory()
    found: dict[str, Any] = {"throughput": [], "waiting": [], "sizes": []}
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        store = store_of(files, Path(scratch), str)
        subwords, _ = subwords_of([store], VOCABULARY, Path(scratch))
        (Path(scratch) / "subwords.model").write_bytes(subwords.serialized)
        for sampling in (None, 0.2):
            for workers in (0, 1, 2):
                loader = loader_over(store, subwords, args.batch_tokens, workers, sampling)
                row = {"sampling": sampling, "workers": workers, **throughput(loader)}
                found["throughput"].append(row)
        for sampling, workers in ((None, 0), (0.2, 0), (0.2, 1)):
            loader = loader_over(store, subwords, args.batch_tokens, workers, sampling)
            share = waiting(loader, len(subwords))
            found["waiting"].append({"sampling": sampling, "workers": workers, "share": share})
        for number in args.pairs:
            target = Path(scratch) / str(number)
            built = in_new_process(build, target, files, number)
            started = in_new_process(start, target, args.batch_tokens)
            found["sizes"].append({"pairs": number, "seconds_to_build": built, **started})
    if args.json:
        print(json.dumps(found))
        return
    for row in found["throughput"]:
        print(
            f"workers {row['workers']}, sampling {row['sampling']}: "
            f"{row['pairs_per_second']:,.0f} pairs/s, {row['tokens_per_second']:,.0f} tokens/s"
        )
    for row in found["waiting"]:
        print(
            f"workers {row['workers']}, sampling {row['sampling']}: "
            f"a training step waits {row['share']:.2%} of its time"
        )
    for row in found["sizes"]:
        print(
            f"{row['pairs']:,} pairs: built in {row['seconds_to_build']:.1f} s, first batch after "
            f"{row['seconds_to_first_batch']:.2f} s, resumed in {row['seconds_to_resume']:.2f} s, "
            f"{row['private_bytes'] / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
