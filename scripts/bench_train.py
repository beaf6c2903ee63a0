"""Measure training steps: speed, where the time goes, memory, and how near the hardware it comes.

    python scripts/bench_train.py --src data/multi30k/train.en --tgt data/multi30k/train.de

Beside the product's own training, the same batches go through a plain loop over
`torch.nn.Transformer` in fp32, as one writes it first. Each runs in processes of its own, in turn.
Tokens are those of the target, end tokens counted, padding not; FLOPs are those that the real
tokens need, forward and backward, so padding and recomputation count against us.
"""

import argparse
import json
import os
import resource
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from bench_peers import add_steps
from pytorch_lightning.callbacks import Callback
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.allocator import for_tcmalloc, has_tcmalloc
from seq2seq.config import PAD_ID, Dropout, ModelConfig, SearchConfig, SubwordConfig
from seq2seq.cores import limit_threads
from seq2seq.data.batch import Batch
from seq2seq.data.corpus import CorpusFiles
from seq2seq.errors import UserError
from seq2seq.process import prepare_process
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.hardware import cpu_name, precision_for
from seq2seq.training.module import TranslationModule
from seq2seq.training.quiet import quiet_lightning
from seq2seq.training.recipe import Recipe

PHASES = ("data", "forward", "backward", "optimizer")


def now() -> float:
    """In seconds, when a GPU, if there is one, has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Stopwatch(Callback):
    """Times `steps` steps after `warmup` ones, then the phases of a few more.

    Only the phases wait for the device at every lap.
    """

    def __init__(self, config: ModelConfig, warmup: int, steps: int) -> None:
        self.config, self.begin, self.end = config, warmup, warmup + steps
        self.last = self.end + max(steps // 3, 1)
        self.done = self.tokens = self.flops = 0
        self.batches: list[Batch] = []
        self.seconds = self._since = 0.0
        self.phases = dict.fromkeys(PHASES, 0.0)

    def _lap(self, phase: str) -> None:
        recording = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        if self.done >= self.end and not recording:
            lap = now()
            self.phases[phase] += lap - self._since
            self._since = lap

    def shares(self, recorded: bool) -> dict[str, float]:
        """Of the phases in a step; where it is recorded, forward and backward are one."""
        times = dict(self.phases)
        if recorded:
            times["forward and backward"] = times.pop("forward") + times.pop("backward")
        return {phase: each / sum(times.values()) for phase, each in times.items()}

    def on_train_batch_start(self, *_: Any) -> None:
        self._lap("data")

    def on_before_backward(self, *_: Any) -> None:
        self._lap("forward")

    def on_after_backward(self, *_: Any) -> None:
        self._lap("backward")

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, parts: list[Batch], batch_index: int
    ) -> None:
        self._lap("optimizer")
        if self.begin <= self.done < self.end:
            self.batches += parts
        self.done += 1
        if self.done == self.begin:
            self._since = now()
        if self.done == self.end:
            self.seconds = now() - self._since
            for part in self.batches:
                self.tokens += part.tokens
                self.flops += training_flops(self.config, part.src_lens, part.tgt_lens)
            self._since = now()


def training_flops(config: ModelConfig, src_lens: Tensor, tgt_lens: Tensor) -> int:
    """Of one step on these sentences (B,): two for each multiply-add, three times the forward."""
    source, target = src_lens.double(), tgt_lens.double()
    inner = config.heads * config.head_width
    projection = config.d_model * inner
    feed_forward = (3 if config.activation == "swiglu" else 2) * config.d_model * config.ff_dim
    encoder = source * (4 * projection + feed_forward) + 2 * inner * source**2
    decoder = target * (6 * projection + feed_forward) + source * 2 * projection
    decoder += 2 * inner * (target * (target + 1) / 2 + source * target)  # causal, cross
    output = target * config.d_model * config.tgt_vocab_size
    total = config.encoder_layers * encoder + config.decoder_layers * decoder + output
    return int(6 * total.sum())


class Plain(nn.Module):
    """The model that one writes first."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.src_vocab_size, config.d_model, padding_idx=PAD_ID)
        self.positions = nn.Embedding(1024, config.d_model)
        self.body = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.ff_dim,
            dropout,
            batch_first=True,
            norm_first=config.norm == "pre",
        )

    def embed(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        embedded: Tensor = self.embedding(tokens) + self.positions(places)
        return embedded

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        padding = src == PAD_ID
        length = tgt_in.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=src.device).triu(1)
        hidden = self.body(
            self.embed(src),
            self.embed(tgt_in),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return hidden @ self.embedding.weight.T  # type: ignore[no-any-return]


def trainer_for(args: argparse.Namespace, steps: int, *callbacks: Callback) -> pl.Trainer:
    return pl.Trainer(
        accelerator=args.device,
        devices=1,
        precision=args.precision,
        max_steps=steps,
        gradient_clip_val=1.0,
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        use_distributed_sampler=False,
    )


def data_for(args: argparse.Namespace) -> CorpusDataModule:
    files = CorpusFiles(src=args.src, tgt=args.tgt)
    return CorpusDataModule(
        train=files,
        validation=files,
        subwords=SubwordConfig(src_vocab_size=args.vocab_size, tgt_vocab_size=args.vocab_size),
        batch_tokens=args.batch_tokens,
        cache=args.cache,
    )


def config_for(args: argparse.Namespace, vocab_size: int) -> ModelConfig:
    return ModelConfig(
        src_vocab_size=vocab_size,
        tgt_vocab_size=vocab_size,
        d_model=args.d_model,
        heads=args.heads,
        ff_dim=args.ff_dim,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
    )


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of the fastest of several products of large square matrices."""
    size = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    fastest = float("inf")
    for _ in range(10):
        since = now()
        left @ right
        fastest = min(fastest, now() - since)
    return 2 * size**3 / fastest


def peak_memory(device: torch.device) -> int:
    """Bytes of this process, or on the GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def ours(args: argparse.Namespace) -> dict[str, Any]:
    """What `seq2seq fit` does, without validation and checkpoints."""
    quiet_lightning()
    prepare_process()
    pl.seed_everything(1, verbose=False)
    data = data_for(args)
    data.prepare_data()
    config = config_for(args, len(data.src_subwords))
    watch = Stopwatch(config, args.warmup, args.steps)
    trainer = trainer_for(args, watch.last, watch)
    recipe = Recipe(dropout=Dropout(residual=args.dropout), compile=args.compile)
    module = TranslationModule(config, recipe, SearchConfig())
    trainer.fit(module, datamodule=data)
    device = trainer.strategy.root_device
    low = "bf16" in str(trainer.precision)
    memory = peak_memory(device)  # before the large matrices
    return {
        "seconds": watch.seconds,
        "tokens": watch.tokens,
        "precision": str(trainer.precision),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "threads": torch.get_num_threads(),
        "tcmalloc": has_tcmalloc(),
        "parameters": sum(p.numel() for p in module.network.parameters()),
        "shares": watch.shares(module.learner.recorded is not None),
        "flops_per_second": watch.flops / watch.seconds,
        "matmul_flops_per_second": matmul_rate(device, torch.bfloat16 if low else torch.float32),
        "peak_memory_bytes": memory,
    }


def plain(args: argparse.Namespace) -> dict[str, Any]:
    """The same batches, warm-up and all, in a plain loop."""
    quiet_lightning()
    limit_threads()
    warnings.filterwarnings("ignore", ".*enable_nested_tensor.*")  # pre-norm has none
    pl.seed_everything(1, verbose=False)
    data = data_for(args)
    trainer = trainer_for(args, 1)
    device = trainer.strategy.root_device
    data.trainer = trainer  # which says that it is a GPU
    data.prepare_data()
    data.setup("fit")
    data.start_id = 2
    config = config_for(args, len(data.src_subwords))
    network = Plain(config, args.dropout).to(device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.98))
    tokens, since, loader = 0, now(), data.train_dataloader()
    batches = (batch for _ in count() for (batch,) in loader)
    for step, batch in enumerate(islice(batches, args.warmup + args.steps)):
        if step == args.warmup:
            tokens, since = 0, now()
        src, tgt_in, tgt_out = (x.to(device) for x in (batch.src, batch.tgt_in, batch.tgt_out))
        logits = network(src, tgt_in).flatten(0, 1)
        loss = F.cross_entropy(logits, tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        tokens += batch.tokens
    return {"seconds": now() - since, "tokens": tokens}


def in_a_process(
    function: Callable[[argparse.Namespace], dict[str, Any]], args: argparse.Namespace
) -> dict[str, Any]:
    """What the function returns there; `ours` with the allocator that `fit` has."""
    added = for_tcmalloc() if function is ours else {}
    os.environ.update(added)
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(function, args).result()
    finally:
        for name in added:
            del os.environ[name]


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Ours and the plain loop in turn, `rounds` times; times add up."""
    loops = (ours,) if args.alone else (ours, plain)
    runs: dict[str, list[dict[str, Any]]] = {loop.__name__: [] for loop in loops}
    for _ in range(args.rounds):
        for function in loops:
            runs[function.__name__].append(in_a_process(function, args))
    rates = {
        name: sum(run["tokens"] for run in each) / sum(run["seconds"] for run in each)
        for name, each in runs.items()
    }
    each = runs["ours"]
    matmul = max(run["matmul_flops_per_second"] for run in each)
    flops = sum(run["flops_per_second"] for run in each) / len(each)
    beside = {}
    if not args.alone:
        beside["plain_tokens_per_second"] = rates["plain"]
        beside["ratio_to_plain"] = rates["ours"] / rates["plain"]
    return {
        "device": each[0]["device"],
        "threads": each[0]["threads"],
        "tcmalloc": each[0]["tcmalloc"],
        "precision": each[0]["precision"],
        "parameters": each[0]["parameters"],
        "tokens_per_second": rates["ours"],
        **beside,
        "model_flops_per_second": flops,
        "matmul_flops_per_second": matmul,
        "share_of_matmul_rate": flops / matmul,
        "shares": {
            phase: sum(run["shares"][phase] for run in each) / len(each)
            for phase in each[0]["shares"]
        },
        "peak_memory_bytes": max(run["peak_memory_bytes"] for run in each),
    }


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--src", default="data/multi30k/train.en", help="source sentences")
    parser.add_argument("--tgt", default="data/multi30k/train.de", help="target sentences")
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--ff-dim", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--dropout", type=float, default=0.1)
    add_steps(parser)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without the plain loop")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--precision", help="as trainer.precision; default: the device's best")
    parser.add_argument("--compile", action="store_true", help="as training.compile")
    parser.add_argument("--cache", default="~/.cache/seq2seq", help="of stores and subwords")
    parser.add_argument("--json", action="store_true", help="print one object")
    return parser


def main() -> None:
    args = parser().parse_args()
    for path in (args.src, args.tgt):
        if not Path(path).is_file():
            raise SystemExit(f"error: {path} does not exist; see seq2seq fetch, or name your own.")
    args.precision = args.precision or precision_for(args.device, args.d_model)
    try:
        found = measured(args)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
    if args.json:
        print(json.dumps(found))
        return
    beside = ""
    if not args.alone:
        beside = (
            f", {found['ratio_to_plain']:.2f} times the plain loop's "
            f"{found['plain_tokens_per_second']:,.0f}"
        )
    shares = ", ".join(f"{phase} {share:.1%}" for phase, share in found["shares"].items())
    print(
        f"{found['device']}, {found['threads']} threads{', tcmalloc' * found['tcmalloc']}, "
        f"{found['precision']}, {found['parameters']:,} parameters\n"
        f"{found['tokens_per_second']:,.0f} target tokens/s{beside}\n"
        f"{found['model_flops_per_second'] / 1e9:,.0f} GFLOP/s of the model, "
        f"{found['share_of_matmul_rate']:.1%} of the {found['matmul_flops_per_second'] / 1e9:,.0f} "
        f"of matrix products\n"
        f"of a step: {shares}\n"
        f"peak memory: {found['peak_memory_bytes'] / 2**20:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
