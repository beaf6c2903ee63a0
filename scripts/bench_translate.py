"""Measure the speed of translating, beside other engines with the same network.

    python scripts/bench_translate.py runs/multi30k-en-de \\
      --src data/multi30k/test_2016_flickr.en --ref data/multi30k/test_2016_flickr.de

Each runs in a process of its own, in turn, with the same number of CPU threads (but for a single
sentence, to which CTranslate2 as it is opened here gives one): ours in fp32 and
bf16, CTranslate2 in fp32 and int8 and `generate` of Hugging Face after `seq2seq export`, JoeyNMT in
an environment of its own with the weights renamed. On a GPU: --device cuda
--engines "ours bf16" "ours fp32" "huggingface fp32".

Text goes in and comes out, so tokenization counts; loading is told apart. Sentences/s are those of
full batches, the better of two passes after a short first one (JoeyNMT has but one, the first);
latencies are those of single sentences, one after the other. The ratio is to CTranslate2 in fp32.
"""

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median, quantiles
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bench_peers import positive
from peers.environments import CACHE, SCRIPTS, NotMeasured, attempt, ended, environment, say
from peers.joeynmt_weights import checkpoint

from seq2seq.allocator import begin_anew, keep_freed_memory
from seq2seq.config import SearchConfig
from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError
from seq2seq.evaluation.metrics import bleu
from seq2seq.model_folder import find_model, load_model
from seq2seq.text.subwords import Subwords
from seq2seq.translator import Translator

Found = dict[str, Any]
"""Of an engine: load_seconds, seconds, latencies, peak_memory_bytes, translations."""


def ours(args: argparse.Namespace, folder: Path, beam: int, *, precision: str) -> Found:
    """In a process of its own: this script with --measure."""
    settings = {**vars(args), "beam": beam, "precision": precision}
    settings = {name: str(value) for name, value in settings.items()}
    return read_answer([sys.executable, __file__, "--measure", json.dumps(settings)], args)


def measure(settings: dict[str, str]) -> Found:
    """What the process of `ours` finds."""
    keep_freed_memory()
    threads = int(settings["threads"])
    torch.set_num_threads(threads)
    lines = list(read_lines(settings["src"]))
    load = partial(
        Translator.load,
        settings["model"],
        SearchConfig(beam=int(settings["beam"])),
        device=settings["device"],
        precision=settings["precision"],
        batch_tokens=int(settings["batch_tokens"]),
    )

    def timed(lines: Sequence[str], translator: Translator) -> tuple[float, list[str]]:
        begin = time.perf_counter()
        translations = translator.translate(lines)
        return time.perf_counter() - begin, translations

    begin = time.perf_counter()
    translator = load(workers=threads if settings["device"] == "cpu" else 1)
    load_seconds = time.perf_counter() - begin
    translator.translate(lines[:50])
    seconds, translations = min(timed(lines, translator) for _ in range(2))
    memory = peak_memory(settings["device"])
    single = load(workers=1)
    single.translate(lines[:5])
    return {
        "load_seconds": load_seconds,
        "seconds": seconds,
        "latencies": [timed([line], single)[0] for line in lines[: int(settings["alone"])]],
        "peak_memory_bytes": memory,
        "translations": translations,
    }


def peak_memory(device: str) -> int:
    """Bytes on the GPU, or of this process and of its workers, which end here."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.terminate()
        worker.join()
    own, most = (getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return (own + len(workers) * most) * 1024


def ctranslate2(args: argparse.Namespace, folder: Path, beam: int, *, kind: str) -> Found:
    model = exported(args, folder, "ctranslate2", "" if kind == "float32" else kind)
    loop = [sys.executable, str(SCRIPTS / "peers/ctranslate2_loop.py"), str(model)]
    numbers = [beam, args.threads, args.batch_tokens, args.alone]
    subwords = find_model(args.model) / "subwords.src.model"
    return read_answer([*loop, str(subwords), kind, *map(str, numbers)], args)


def huggingface(args: argparse.Namespace, folder: Path, beam: int) -> Found:
    """`generate` with the same weights, on the device of ours."""
    model = exported(args, folder, "huggingface")
    loop = [sys.executable, str(SCRIPTS / "peers/huggingface_loop.py"), str(model)]
    numbers = [beam, args.threads, args.batch_tokens, args.alone]
    return read_answer([*loop, *map(str, numbers), args.device], args)


def exported(args: argparse.Namespace, folder: Path, target: str, quantize: str = "") -> Path:
    """The model for another library."""
    model = folder / f"{target}-{quantize}"
    if not model.is_dir():
        options = ["--quantize", quantize] if quantize else []
        command = [sys.executable, "-m", "seq2seq", "export", str(args.model), str(model)]
        run([*command, "--to", target, "--check", "0", *options], args)
    return model


def joeynmt(args: argparse.Namespace, folder: Path, beam: int) -> Found:
    """Its `translate`, and the time that its log tells, which counts its tokenization."""
    python = environment("joeynmt", args.environments)
    saved = load_model(args.model)
    wanted = {"norm": "pre", "activation": "relu", "positions": "sinusoidal", "tie": "all"}
    config = asdict(saved.network.config)
    if odd := {name: config[name] for name in wanted if config[name] != wanted[name]}:
        raise NotMeasured(f"it has no such network: {odd}")
    home = folder / "joeynmt"
    (home / "model").mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint(saved.network), home / "model/best.ckpt")
    (home / "subwords.model").write_bytes(saved.src_subwords.serialized)
    pieces = saved.src_subwords.pieces(range(len(saved.src_subwords)))
    (home / "vocabulary.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    template = Template((SCRIPTS / "peers/joeynmt_translate.yaml").read_text(encoding="utf-8"))
    settings = config | {"batch_tokens": args.batch_tokens, "beam": beam}
    (home / "config.yaml").write_text(template.substitute(settings))
    begin = time.perf_counter()
    command = [str(python), "-I", "-m", "joeynmt", "translate", "config.yaml"]
    done = run(command, args, cwd=home)
    whole = time.perf_counter() - begin
    (seconds,) = re.findall(r"Generation took ([\d.]+)\[sec\]", done.stdout + done.stderr)
    lines = done.stdout.removesuffix("\n").split("\n")
    translations = [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d \d\d:", line)]
    return {
        "load_seconds": whole - float(seconds),
        "seconds": float(seconds),
        "latencies": [],
        "peak_memory_bytes": None,
        "translations": translations,
    }


def read_answer(command: Sequence[str], args: argparse.Namespace) -> Found:
    """What a process of ours prints last, with --src as its input."""
    found: Found = json.loads(run(command, args).stdout.splitlines()[-1])
    return found


def run(
    command: Sequence[str], args: argparse.Namespace, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    with open(args.src, encoding="utf-8") as lines:
        return ended(command, {"OMP_NUM_THREADS": str(args.threads)}, cwd, lines)


BASE = "ctranslate2 fp32"
ENGINES: dict[str, Callable[[argparse.Namespace, Path, int], Found]] = {
    "ours fp32": partial(ours, precision="fp32"),
    "ours bf16": partial(ours, precision="bf16"),
    "ctranslate2 fp32": partial(ctranslate2, kind="float32"),
    "ctranslate2 int8": partial(ctranslate2, kind="int8"),
    "huggingface fp32": huggingface,
    "joeynmt fp32": joeynmt,
}


def compared(args: argparse.Namespace) -> Found:
    """Everyone in turn, greedy and with the beam; `None` where it was said why not."""
    lines, references = list(read_lines(args.src)), [list(read_lines(args.ref))]
    saved = load_model(args.model)
    src_tokens = sum(map(len, saved.src_subwords.encode_all(lines)))
    rows: list[Found] = []
    with TemporaryDirectory() as folder:
        for beam in (args.beam, 1):
            for name in args.engines:
                say(f"{name}, beam {beam}")
                found = attempt(name, ENGINES[name], args, Path(folder), beam)
                row: Found = {"engine": name, "beam": beam}
                if found:
                    row |= figures(found, len(lines), src_tokens, saved.tgt_subwords)
                    row["bleu"] = bleu(found["translations"], references, saved.tgt_lang).value
                rows.append(row)
    for row in rows:
        other = next(
            (each for each in rows if each["engine"] == BASE and each["beam"] == row["beam"]), {}
        )
        if "sentences_per_second" in row and "sentences_per_second" in other:
            row["ratio"] = row["sentences_per_second"] / other["sentences_per_second"]
    return {"torch": version("torch"), "threads": args.threads, "rows": rows}


def figures(found: Found, lines: int, src_tokens: int, subwords: Subwords) -> Found:
    seconds, latencies = found["seconds"], sorted(found["latencies"])
    tgt_tokens = sum(map(len, subwords.encode_all(found["translations"])))
    return {
        "sentences_per_second": lines / seconds,
        "source_tokens_per_second": src_tokens / seconds,
        "target_tokens_per_second": tgt_tokens / seconds,
        "load_seconds": found["load_seconds"],
        "peak_memory_bytes": found["peak_memory_bytes"],
        "latency_median": median(latencies) if latencies else None,
        "latency_p95": p95(latencies) if len(latencies) > 1 else None,
    }


def p95(sorted_seconds: list[float]) -> float:
    return quantiles(sorted_seconds, n=20, method="inclusive")[-1]


def table(found: Found) -> str:
    head = f"torch {found['torch']}, {found['threads']} threads"
    columns = "engine             beam  sentences/s  ratio  tokens/s src  tgt   BLEU  load s  MiB"
    rows = [head, columns + "  one sentence: median, p95 ms"]
    for row in found["rows"]:
        start = f"{row['engine']:18} {row['beam']:4}"
        if "bleu" not in row:
            rows.append(f"{start}  not measured")
            continue
        memory = row["peak_memory_bytes"]
        alone = row["latency_median"], row["latency_p95"]
        rows.append(
            f"{start}{row['sentences_per_second']:13.1f}{row.get('ratio', float('nan')):7.2f}"
            f"{row['source_tokens_per_second']:14,.0f}{row['target_tokens_per_second']:7,.0f}"
            f"{row['bleu']:7.2f}{row['load_seconds']:8.1f}"
            f"{memory / 2**20 if memory else float('nan'):6.0f}"
            + "".join(f"{1000 * each:9.1f}" for each in alone if each)
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a model folder or a run folder")
    parser.add_argument("--src", required=True, help="sentences to translate")
    parser.add_argument("--ref", required=True, help="their references")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--beam", type=positive, default=5, help="beside greedy search")
    parser.add_argument("--alone", type=int, default=100, help="sentences for the latency")
    parser.add_argument("--batch-tokens", type=positive, default=4096)
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="default: cores")
    parser.add_argument("--device", default="cpu", help="of ours")
    parser.add_argument("--environments", type=Path, default=CACHE / "peers", metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print one object")
    args = parser.parse_args()
    try:
        found = compared(args)
    except UserError as error:
        say(f"error: {error}")
        return 2
    print(json.dumps(found) if args.json else table(found))
    return 0 if all("bleu" in row for row in found["rows"]) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        begin_anew()
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        sys.exit()
    sys.exit(main())
