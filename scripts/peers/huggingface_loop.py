"""Translate with Hugging Face's `generate`, lines of similar length together.

    huggingface_loop.py MODEL BEAM THREADS BATCH_TOKENS ALONE DEVICE < lines

Prints one object: the figures that scripts/bench_translate.py compares, and the translations.
"""

import json
import resource
import sys
import time

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model_folder, device = sys.argv[1], sys.argv[6]
beam, threads, batch_tokens, alone = map(int, sys.argv[2:6])
torch.set_num_threads(threads)
lines = [line.rstrip("\n") for line in sys.stdin]
begin = time.perf_counter()
tokenizer = AutoTokenizer.from_pretrained(model_folder)
model = AutoModelForSeq2SeqLM.from_pretrained(model_folder).to(device).eval()
load_seconds = time.perf_counter() - begin


def translate(texts: list[str]) -> list[str]:
    ids = tokenizer(texts)["input_ids"]
    order = sorted(range(len(texts)), key=lambda index: len(ids[index]), reverse=True)
    found = [""] * len(texts)
    while order:
        longest = len(ids[order[0]])
        size = max(1, batch_tokens // longest)
        batch, order = order[:size], order[size:]
        told = model.generate(
            **tokenizer.pad({"input_ids": [ids[i] for i in batch]}, return_tensors="pt").to(device),
            num_beams=beam,
            early_stopping=True,
            length_penalty=1.0,
            max_new_tokens=2 * longest + 10,
        )
        texts_of_batch = tokenizer.batch_decode(told, skip_special_tokens=True)
        for index, text in zip(batch, texts_of_batch, strict=True):
            found[index] = text
    return found


def timed(texts: list[str]) -> tuple[float, list[str]]:
    begin = time.perf_counter()
    translations = translate(texts)
    return time.perf_counter() - begin, translations


with torch.inference_mode():
    translate(lines[:50])
    seconds, translations = min(timed(lines) for _ in range(2))
    latencies = [timed([line])[0] for line in lines[:alone]]
if device.startswith("cuda"):
    memory = torch.cuda.max_memory_allocated()
else:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(
    json.dumps(
        {
            "load_seconds": load_seconds,
            "seconds": seconds,
            "latencies": latencies,
            "peak_memory_bytes": memory,
            "translations": translations,
        }
    )
)
