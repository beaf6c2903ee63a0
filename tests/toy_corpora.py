"""Healthy corpora of made-up languages: every source word has one translation, names stay."""

import random
from collections.abc import Callable
from pathlib import Path

Pairs = list[tuple[str, str]]

NAMES = ["Adele", "Boris", "Chiara", "Dmitri"]


def words(syllables: str, count: int, seed: int, longest: int) -> list[str]:
    rng = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made["".join(rng.choices(syllables.split(), k=rng.randint(1, longest)))] = None
    return list(made)


LATIN = words("the wi sho ca ly ing ow ee ther ay", 200, 1, 3)
OTHER_LATIN = words("sch eu ü ung ich ö acht kei z ver", 200, 2, 3)
HAN = words(" ".join(map(chr, range(0x4E00, 0x4E00 + 150))), 200, 3, 2)


def latin(count: int, seed: int = 0) -> Pairs:
    """Two languages in Latin letters."""
    return translated(count, seed, OTHER_LATIN, " ", ".")


def han(count: int, seed: int = 0) -> Pairs:
    """A language in Latin letters and one in Han without spaces."""
    return translated(count, seed, HAN, "", "。")


CORPORA: dict[str, Callable[[int, int], Pairs]] = {"latin": latin, "han": han}


def translated(count: int, seed: int, lexicon: list[str], space: str, end: str) -> Pairs:
    """No two sources are the same."""
    rng = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        chosen = rng.choices(range(len(LATIN)), k=rng.randint(5, 25))
        name, number = rng.choice(NAMES), str(rng.randrange(100))
        source = " ".join([name, *(LATIN[n] for n in chosen), number]) + "."
        pairs[source] = space.join([name, *(lexicon[n] for n in chosen), number]) + end
    return list(pairs.items())


def write(folder: Path, name: str, pairs: Pairs) -> tuple[str, str]:
    """NAME.src and NAME.tgt; lone surrogates become the bytes that they stand for."""
    paths = folder / f"{name}.src", folder / f"{name}.tgt"
    for path, side in zip(paths, (0, 1), strict=True):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return str(paths[0]), str(paths[1])
