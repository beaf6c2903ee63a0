"""Train Hugging Face's MarianMTModel in a plain loop, and print how fast it was as JSON.

Run by scripts/bench_peers.py with the Python of an environment that has transformers; `--batches`
is a file with one JSON object a line, {"src": [[id ...] ...], "tgt": [[id ...] ...]}, end tokens
included. This is what a competent user writes first: nothing is tuned, nothing is left out.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
IGNORED = -100


def build(args: argparse.Namespace) -> Any:
    config = MarianConfig(
        vocab_size=args.vocab_size,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.heads,
        decoder_attention_heads=args.heads,
        encoder_ffn_dim=args.ff_dim,
        decoder_ffn_dim=args.ff_dim,
        activation_function="relu",
        dropout=0.1,
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=BOS,
        attn_implementation=args.attention,
    )
    return MarianMTModel(config)


def padded(sentences: list[list[int]], value: int) -> Tensor:
    """(B, N)."""
    return pad_sequence(list(map(torch.tensor, sentences)), batch_first=True, padding_value=value)


def train_step(
    model: Any, optimizer: torch.optim.Optimizer, batch: dict[str, Any], args: argparse.Namespace
) -> None:
    src, labels = padded(batch["src"], PAD), padded(batch["tgt"], IGNORED)
    decoder_input = model.prepare_decoder_input_ids_from_labels(labels)
    with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
        logits = model(
            input_ids=src,
            attention_mask=src != PAD,
            decoder_input_ids=decoder_input,
            decoder_attention_mask=decoder_input != PAD,
            use_cache=False,
        ).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            ignore_index=IGNORED,
            label_smoothing=0.1,
        )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--batches", type=Path, required=True)
    parser.add_argument("--warmup", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--ff-dim", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    args = parser.parse_args()
    torch.manual_seed(1)
    model = build(args).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    batches = [json.loads(line) for line in args.batches.read_text().splitlines()]
    tokens, since = 0, time.perf_counter()
    for step, batch in enumerate(batches):
        if step == args.warmup:
            tokens, since = 0, time.perf_counter()
        train_step(model, optimizer, batch, args)
        tokens += sum(map(len, batch["tgt"]))
    found = {
        "tokens_per_second": tokens / (time.perf_counter() - since),
        "precision": args.precision,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
