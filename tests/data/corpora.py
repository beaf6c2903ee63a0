"""Small corpora for the tests of this folder."""

import random
from pathlib import Path

from seq2seq.data.corpus import Pair
from seq2seq.data.store import PairStore, write_store

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]


def random_pairs(number: int, most_words: int = 5) -> list[Pair]:
    """Sentences of up to `most_words` words, and the same backwards; some are empty."""
    rng = random.Random(number)
    rows = [rng.choices(WORDS, k=rng.randint(0, most_words)) for _ in range(number)]
    return [Pair(" ".join(row), " ".join(row[::-1])) for row in rows]


def stored(pairs: list[Pair], folder: Path) -> PairStore:
    """The pairs as a store in a new folder."""
    write_store(pairs, folder)
    return PairStore(folder)


def written(path: Path, *lines: str, end: str = "\n") -> str:
    """A file of these lines, of which the last one has this end."""
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes((text.removesuffix("\n") + end).encode() if lines else b"")
    return str(path)
