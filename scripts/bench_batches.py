"""Does a translation depend on its batch? Count the lines that differ, in fp32.

The lines are translated once with the default settings and again with other batches: of one
sentence, of 512 and of 16,384 tokens, in another order, by several processes.

    python scripts/bench_batches.py runs/multi30k-en-de data/multi30k/val.en
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from random import Random

from seq2seq.data.lines import read_lines
from seq2seq.translator import Translation, Translator
from seq2seq.verification import verdict_on

VARIANTS = [
    # batch tokens, shuffled, workers
    (4096, False, 1),  # what the others are compared with
    (1, False, 1),
    (512, False, 1),
    (16_384, False, 1),
    (4096, True, 1),
    (512, True, 2),
    (16_384, True, 2),
]


def main() -> None:
    """Print a row for each variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", metavar="MODEL", help="a model folder or a run folder")
    parser.add_argument("inputs", metavar="INPUT", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, help="only so many of each input (default: all)")
    args = parser.parse_args()
    lines = [line for path in args.inputs for line in list(read_lines(path))[: args.lines]]
    print(f"{len(lines)} lines")
    print("batch tokens  order     workers  lines/s  same  tie  different  scores differ by")
    expected: list[Translation] = []
    for batch_tokens, shuffled, workers in VARIANTS:
        translator = Translator.load(
            args.model, device="cpu", batch_tokens=batch_tokens, workers=workers
        )
        order = list(range(len(lines)))
        if shuffled:
            Random(0).shuffle(order)
        start = time.perf_counter()
        found = translator.n_best([lines[index] for index in order])
        speed = len(lines) / (time.perf_counter() - start)
        best = {index: each[0] for index, each in zip(order, found, strict=True)}
        expected = expected or [best[index] for index in range(len(lines))]
        counts = Counter(verdict_on(one, best[n]) for n, one in enumerate(expected))
        apart = max(abs(one.score - best[n].score) for n, one in enumerate(expected))
        print(
            f"{batch_tokens:<13,} {'shuffled' if shuffled else 'as it is':9} {workers:<8} "
            f"{speed:<8.0f} {counts['same']:<5} {counts['tie']:<4} {counts['different']:<10} "
            f"{apart:.1e}",
            flush=True,
        )
        for n, one in enumerate(expected):
            if (verdict := verdict_on(one, best[n])) != "same":
                print(f"  line {n + 1}, {verdict}: {one.text!r} ({one.score:.6f})")
                print(f"      {best[n].text!r} ({best[n].score:.6f})", flush=True)


if __name__ == "__main__":
    main()
