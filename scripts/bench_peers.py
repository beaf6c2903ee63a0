"""Measure the speed of training beside other toolkits: the same data, subwords, size and batches.

    python scripts/bench_peers.py --src data/multi30k/train.en --tgt data/multi30k/train.de

Each toolkit has an environment of its own, made on the first call. In turn, each in a process of
its own and with the same number of CPU threads, run: ours, the peers, ours again. Tokens are those
of the target, end tokens counted, start tokens and padding not. The peers:

    joeynmt             its own `train`, in fp32 (its only precision on a CPU), in its own order:
                        shuffled, so that short and long sentences share batches
    joeynmt-sorted      the same on a corpus that is laid out in batches of similar length for it
    huggingface         a plain loop over MarianMTModel with bf16 autocast, such batches
    huggingface-eager   the same loop with attention written out instead of the default, sdpa
    huggingface-fp32    the same loop without autocast
"""

import argparse
import json
import math
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from peers.environments import CACHE, SCRIPTS, attempt, environment, output_of, say

from seq2seq.config import EOS_ID, SubwordConfig
from seq2seq.data.corpus import CorpusFiles, Pair
from seq2seq.data.store import store_of
from seq2seq.data.vocabulary import subwords_of
from seq2seq.errors import CorpusError, UserError
from seq2seq.text.subwords import Subwords

MAX_LENGTH = 256
"""Subwords of the longest sentence, as `fit` has it."""

Found = dict[str, Any]
"""Of a toolkit: tokens_per_second, precision, parameters."""


class Corpus(NamedTuple):
    """What the peers train on."""

    subwords: Subwords
    pairs: list[Pair]
    ids: list[tuple[list[int], list[int]]]
    """Of the pairs, with end tokens."""
    batches: list[list[int]]
    """Indices of pairs, see `batches_of`."""


# -- the data


def read_corpus(args: argparse.Namespace) -> Corpus:
    """Without the pairs that some toolkit would drop or read as two."""
    store = store_of(CorpusFiles(src=args.src, tgt=args.tgt), args.cache, say)
    size = args.vocab_size
    config = SubwordConfig(src_vocab_size=size, tgt_vocab_size=size)
    subwords, _ = subwords_of([store], config, args.cache)
    pairs, ids = [], []
    for pair in store:
        src, tgt = map(subwords.normalized, pair)
        src_ids, tgt_ids = ([*subwords.encode(text), EOS_ID] for text in (src, tgt))
        one_line = len(src.splitlines()) == len(tgt.splitlines()) == 1
        if one_line and max(len(src_ids), len(tgt_ids)) <= MAX_LENGTH + 1:
            pairs.append(Pair(src, tgt))
            ids.append((src_ids, tgt_ids))
    batches = batches_of([(len(src), len(tgt)) for src, tgt in ids], args.batch_tokens)
    if not batches:
        raise CorpusError(
            f"{args.src} and {args.tgt} do not fill one batch of --batch-tokens={args.batch_tokens}"
            f"; use more text or smaller batches."
        )
    return Corpus(subwords, pairs, ids, batches)


def batches_of(lengths: Sequence[tuple[int, int]], tokens: int) -> list[list[int]]:
    """Indices of pairs of similar lengths, the batches in random order.

    lengths: of both sides of each pair. A batch ends with the pair with which (pairs) * (longest
    side) reaches `tokens`. That is JoeyNMT's rule, so it cuts a corpus in this order into these
    batches; what is left over at the end would run into the next batch, and stays away.
    """

    def order(index: int) -> tuple[int, int]:
        src, tgt = lengths[index]
        return max(src, tgt), src - tgt

    batches: list[list[int]] = [[]]
    for index in sorted(range(len(lengths)), key=order):
        batches[-1].append(index)
        if len(batches[-1]) * max(lengths[index]) >= tokens:
            batches.append([])
    batches = batches[:-1]
    random.Random(1).shuffle(batches)
    return batches


# -- the toolkits


def ours(args: argparse.Namespace) -> Found:
    command: list[object] = [sys.executable, SCRIPTS / "bench_train.py", "--json", "--alone"]
    command += ["--rounds", 1, "--src", args.src, "--tgt", args.tgt]
    command += ["--batch-tokens", args.batch_tokens]
    command += ["--steps", args.steps, "--warmup", args.warmup]
    command += [*sizes(args), "--vocab-size", args.vocab_size, "--cache", args.cache]
    found: Found = json.loads(output_of(command, threads=args.threads).splitlines()[-1])
    return {name: found[name] for name in ("tokens_per_second", "precision", "parameters")}


def sizes(args: argparse.Namespace) -> list[object]:
    size = {
        "--d-model": args.d_model,
        "--heads": args.heads,
        "--ff-dim": args.ff_dim,
        "--layers": args.layers,
    }
    return [word for option in size.items() for word in option]


def joeynmt(args: argparse.Namespace, corpus: Corpus, python: Path, *, shuffle: bool) -> Found:
    """Its `train` without validation, and the speed that its log tells."""
    frequency = math.gcd(args.warmup, args.steps)
    settings = vars(args) | {
        "shuffle": shuffle,
        "updates": args.warmup + args.steps,
        "logging_freq": frequency,
        "never": 10**6 * frequency,
    }
    template = Template((SCRIPTS / "peers/joeynmt.yaml").read_text(encoding="utf-8"))
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "config.yaml").write_text(template.substitute(settings), encoding="utf-8")
        (folder / "subwords.model").write_bytes(corpus.subwords.serialized)
        pieces = corpus.subwords.pieces(range(len(corpus.subwords)))
        write_lines(folder / "vocabulary.txt", pieces)
        laid_out = [corpus.pairs[index] for batch in corpus.batches for index in batch]
        for side in ("src", "tgt"):
            write_lines(folder / f"train.{side}", [getattr(pair, side) for pair in laid_out])
            write_lines(folder / f"dev.{side}", [getattr(laid_out[0], side)])
        command = [python, "-I", "-m", "joeynmt", "train", "config.yaml", "--skip-test"]
        output_of(command, folder, args.threads)
        return from_log((folder / "model/train.log").read_text(encoding="utf-8"), args.warmup)


def from_log(log: str, warmup: int) -> Found:
    """What JoeyNMT's log says of the steps after the first `warmup`.

    A line has the speed since the line before it. Their mean, weighted by the time between lines,
    is all tokens by all time. JoeyNMT counts tokens as we do.
    """
    lines = re.findall(r"^(\S+ \S+) - .*Step: +(\d+),.*Tokens per Sec: +(\d+)", log, re.MULTILINE)
    times = [datetime.fromisoformat(line[0].replace(",", ".")).timestamp() for line in lines]
    first = [int(step) for _, step, _ in lines].index(warmup)
    weighted = sum(
        (times[line] - times[line - 1]) * int(lines[line][2])
        for line in range(first + 1, len(lines))
    )
    (parameters,) = re.findall(r"Total params: (\d+)", log)
    return {
        "tokens_per_second": weighted / (times[-1] - times[first]),
        "precision": "fp32",
        "parameters": int(parameters),
    }


def huggingface(
    args: argparse.Namespace, corpus: Corpus, python: Path, *, options: Sequence[str] = ()
) -> Found:
    """The loop in peers/marian_loop.py with these options, on batches within the budget."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "batches.jsonl"
        rows = []
        for batch in islice(cycle(corpus.batches), args.warmup + args.steps):
            src, tgt = zip(*(corpus.ids[index] for index in batch), strict=True)
            longest = max(map(len, [*src, *tgt]))
            within = max(1, args.batch_tokens // longest)
            rows.append(json.dumps({"src": src[:within], "tgt": tgt[:within]}))
        write_lines(path, rows)
        loop = [python, "-I", SCRIPTS / "peers/marian_loop.py", "--batches", path]
        size = [*sizes(args), "--vocab-size", len(corpus.subwords), "--warmup", args.warmup]
        found: Found = json.loads(output_of([*loop, *size, *options], threads=args.threads))
        return found


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class Peer(NamedTuple):
    environment: str
    measure: Callable[[argparse.Namespace, Corpus, Path], Found]


PEERS = {
    "joeynmt": Peer("joeynmt", partial(joeynmt, shuffle=True)),
    "joeynmt-sorted": Peer("joeynmt", partial(joeynmt, shuffle=False)),
    "huggingface": Peer("huggingface", huggingface),
    "huggingface-eager": Peer(
        "huggingface", partial(huggingface, options=["--attention", "eager"])
    ),
    "huggingface-fp32": Peer("huggingface", partial(huggingface, options=["--precision", "fp32"])),
}


# -- all of them


def measured(args: argparse.Namespace) -> Found:
    """Environments and data are ready before the first clock starts."""
    corpus = read_corpus(args)
    needed = dict.fromkeys(PEERS[name].environment for name in args.peers)
    pythons = {name: attempt(name, environment, name, args.environments) for name in needed}

    def train(name: str, function: Callable[..., Found], *arguments: Any) -> Found | None:
        say(f"{name}: {args.warmup} + {args.steps} steps")
        found: Found | None = attempt(name, function, args, *arguments)
        return found

    before, peers = train("ours", ours), {}
    for name in args.peers:
        python = pythons[PEERS[name].environment]
        peers[name] = python and train(name, PEERS[name].measure, corpus, python)
    runs = [run for run in (before, train("ours", ours)) if run]
    rates = [run["tokens_per_second"] for run in runs]
    own = {**runs[0], "tokens_per_second": fmean(rates), "runs": rates} if runs else None
    for found in filter(None, peers.values()):
        found["ratio"] = own and own["tokens_per_second"] / found["tokens_per_second"]
    return {"torch": version("torch"), "threads": args.threads, "ours": own, "peers": peers}


def table(found: Found) -> str:
    rows = []
    for name, row in {"ours": found["ours"], **found["peers"]}.items():
        if row is None:
            rows.append(f"{name:18} not measured")
            continue
        ratio = f"  ours is {row['ratio']:.2f} times as fast" if row.get("ratio") else ""
        rows.append(
            f"{name:18}{row['tokens_per_second']:8,.0f} target tokens/s  {row['precision']:10}"
            f"  {row['parameters']:,} parameters{ratio}"
        )
    if found["ours"]:
        both = " and ".join(f"{rate:,.0f}" for rate in found["ours"]["runs"])
        rows.append(f"ours, before and after the others: {both}")
    return "\n".join([f"torch {found['torch']}, {found['threads']} threads", *rows])


def add_steps(parser: argparse.ArgumentParser) -> None:
    """How long a training is measured; its first dozens of steps pay for new memory."""
    parser.add_argument("--steps", type=positive, default=40, help="measured steps of each run")
    parser.add_argument("--warmup", type=positive, default=40, help="steps before them")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--src", required=True, help="source sentences of the corpus")
    parser.add_argument("--tgt", required=True, help="their translations")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER")
    parser.add_argument("--environments", type=Path, default=CACHE / "peers", metavar="FOLDER")
    parser.add_argument("--cache", type=Path, default=CACHE, help="of stores and subwords")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="default: cores")
    parser.add_argument("--d-model", type=positive, default=256)
    parser.add_argument("--heads", type=positive, default=4)
    parser.add_argument("--ff-dim", type=positive, default=1024)
    parser.add_argument("--layers", type=positive, default=3, help="of encoder and of decoder")
    parser.add_argument("--vocab-size", type=positive, default=8000, help="joint")
    parser.add_argument("--batch-tokens", type=positive, default=4096, help="padding counted")
    add_steps(parser)
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    try:
        found = measured(args)
    except UserError as error:
        say(f"error: {error}")
        return 2
    print(json.dumps(found) if args.json else table(found))
    return 0 if found["ours"] and all(found["peers"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
