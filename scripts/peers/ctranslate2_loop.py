"""Translate with CTranslate2 as its documentation shows it, in as many workers as threads.

    ctranslate2_loop.py MODEL SUBWORDS COMPUTE_TYPE BEAM THREADS BATCH_TOKENS ALONE < lines

Prints one object: the figures that scripts/bench_translate.py compares, and the translations.
"""

import json
import resource
import sys
import time

import ctranslate2
import sentencepiece

model, subwords, compute_type = sys.argv[1:4]
beam, threads, batch_tokens, alone = map(int, sys.argv[4:])
lines = [line.rstrip("\n") for line in sys.stdin]
begin = time.perf_counter()
pieces = sentencepiece.SentencePieceProcessor(model_file=subwords)
translator = ctranslate2.Translator(
    model, device="cpu", compute_type=compute_type, inter_threads=threads, intra_threads=1
)
load_seconds = time.perf_counter() - begin


def translate(texts: list[str]) -> list[str]:
    sources = pieces.encode(texts, out_type=str)
    found = translator.translate_batch(
        sources,
        beam_size=beam,
        max_batch_size=batch_tokens,
        batch_type="tokens",
        min_decoding_length=0,
        max_decoding_length=2 * max(map(len, sources)) + 10,
    )
    return [pieces.decode(each.hypotheses[0]) for each in found]


def timed(texts: list[str]) -> tuple[float, list[str]]:
    begin = time.perf_counter()
    translations = translate(texts)
    return time.perf_counter() - begin, translations


translate(lines[:50])
seconds, translations = min(timed(lines) for _ in range(2))
print(
    json.dumps(
        {
            "load_seconds": load_seconds,
            "seconds": seconds,
            "latencies": [timed([line])[0] for line in lines[:alone]],
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "translations": translations,
        }
    )
)
