"""Write the reverse-the-words corpus: `python scripts/make_reverse.py`."""

import argparse
import random
from pathlib import Path

WORDS = [consonant + vowel for consonant in "bdfgklmn" for vowel in "aeiou"]


def write_corpus(folder: Path) -> None:
    """10,000 training, 200 validation and 200 test sentences of 2 to 8 words; none occurs twice."""
    rng = random.Random(1)
    sentences: dict[tuple[str, ...], None] = {}
    while len(sentences) < 10_400:
        sentences[tuple(rng.choices(WORDS, k=rng.randint(2, 8)))] = None
    lines = list(sentences)
    rng.shuffle(lines)
    folder.mkdir(parents=True, exist_ok=True)
    splits = {"test": lines[:200], "valid": lines[200:400], "train": lines[400:]}
    for name, split in splits.items():
        src = "".join(" ".join(words) + "\n" for words in split)
        tgt = "".join(" ".join(reversed(words)) + "\n" for words in split)
        (folder / f"{name}.src").write_text(src, encoding="utf-8")
        (folder / f"{name}.tgt").write_text(tgt, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("data/reverse"))
    write_corpus(parser.parse_args().output)
