"""Corpora on disk, memory-mapped: built once, found again by the content of their files.

A store is a folder: the text of each side in one file without separators, and the positions where
its sentences begin (and the last one ends), so that memory does not grow with the corpus.
"""

import hashlib
import json
import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from io import BufferedReader
from itertools import accumulate, islice
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.cache import build_once
from seq2seq.data.corpus import CorpusFiles, Languages, Pair, files_of, stream_pairs
from seq2seq.data.huggingface import fingerprint, row_files
from seq2seq.data.lines import open_bytes, refuse_pipe
from seq2seq.errors import CorpusError
from seq2seq.text.subwords import VERSION, Subwords

FORMAT = 3
"""Of the files in a store's folder, and of how corpora are read into them; a store of another
format is not found, but built anew."""
SIDES = ("src", "tgt")
CHUNK = 8192
"""Pairs that are held in memory while a store is built or measured."""

Say = Callable[[str], object]
Lengths = NDArray[np.uint32]
"""(N, 2): subwords of both sides of each pair, without special tokens."""


class PairStore(Sequence[Pair]):
    """The pairs in a store's folder; reads from disk what it is asked for, and keeps nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sides = [(_map(folder / f"{side}.text"), _positions(folder, side)) for side in SIDES]

    def __len__(self) -> int:
        return len(self._sides[0][1]) - 1

    def __getitem__(self, index: int) -> Pair:  # type: ignore[override]
        place = range(len(self))[index]
        return Pair(*(self._text(side, place) for side in range(2)))

    def __reduce__(self) -> tuple[object, ...]:
        return PairStore, (self.folder,)  # a worker process maps the files for itself

    def _text(self, side: int, index: int) -> str:
        text, positions = self._sides[side]
        return str(text[positions[index] : positions[index + 1]], "utf-8")

    def lengths(self, src: Subwords, tgt: Subwords, say: Say) -> Lengths:
        """The lengths of all pairs, memory-mapped; counted once for these subword models."""
        key = hashlib.sha256(VERSION.encode() + src.serialized + tgt.serialized).hexdigest()[:32]
        target = self.folder / f"lengths-{key}"
        with build_once(target) as unfinished:
            if unfinished is not None:
                say(f"counting the subwords of {len(self)} pairs")
                # Written as a file, not as a map: with no room left that is an error, not SIGBUS.
                with unfinished.open("wb") as file:
                    for start in range(0, len(self), CHUNK):
                        pairs = [self[i] for i in range(start, min(start + CHUNK, len(self)))]
                        file.write(lengths_of(pairs, src, tgt).tobytes())
        return np.memmap(target, np.uint32, "r", shape=(len(self), 2))


def lengths_of(pairs: Sequence[Pair], src: Subwords, tgt: Subwords) -> Lengths:
    """The lengths of a few pairs, in memory."""
    sides = (src.encode_all(pair.src for pair in pairs), tgt.encode_all(pair.tgt for pair in pairs))
    return np.array([[len(ids) for ids in side] for side in sides], np.uint32).T


def store_of(
    files: CorpusFiles, cache: Path, say: Say, languages: Languages = ("", "")
) -> PairStore:
    """The store of a corpus, built if `cache` does not hold it yet.

    Its name follows from the content of the corpus's files and from how they are read; two files of
    text are read alike whatever their languages. Raises what reading the corpus raises, and leaves
    nothing then.
    """
    codes = dict(zip(("src_lang", "tgt_lang"), languages, strict=True))
    read_as = {**asdict(files), "src": None, "tgt": None, "path": None, "weight": None}
    content = _content(files, cache, languages)
    key = json.dumps([FORMAT, codes if files.path else None, read_as, content])
    target = cache / "corpora" / hashlib.sha256(key.encode()).hexdigest()[:32]
    with build_once(target) as unfinished:
        if unfinished is not None:
            say(f"storing {files} in {target}")
            write_store(stream_pairs(files, languages), unfinished)
            if _content(files, cache, languages) != content:
                raise CorpusError(
                    f"{files} changed while it was stored; start again when it is written."
                )
    return PairStore(target)


def write_store(pairs: Iterable[Pair], folder: Path) -> None:
    """Write a new store's folder."""
    folder.mkdir()
    written = [0, 0]  # bytes of each side
    with ExitStack() as stack:
        texts, positions = (
            [stack.enter_context((folder / f"{side}.{kind}").open("wb")) for side in SIDES]
            for kind in ("text", "positions")
        )
        for file in positions:
            file.write(bytes(8))  # the first sentence begins at 0, each other one where one ends
        for chunk in _chunks(pairs):
            for side in range(2):
                sentences = [pair[side].encode("utf-8") for pair in chunk]
                ends = array("q", accumulate(map(len, sentences), initial=written[side]))
                texts[side].write(b"".join(sentences))
                positions[side].write(ends[1:].tobytes())
                written[side] = ends[-1]


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    waiting = iter(pairs)
    while chunk := list(islice(waiting, CHUNK)):
        yield chunk


def _map(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        empty = not path.stat().st_size  # nothing to map: one side of every pair is blank
        return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _positions(folder: Path, side: str) -> NDArray[np.int64]:
    return np.memmap(folder / f"{side}.positions", np.int64, "r")


def _content(files: CorpusFiles, cache: Path, languages: Languages) -> object:
    """What names the pairs of a corpus, however its files are called."""
    if (name := files.dataset) is not None:
        rows = row_files(name, files.split)
        return [fingerprint(name, files.split), *(digest_of(path, cache) for path in rows)]
    return [_identity(path, cache) for path in files_of(files, languages)]


def _identity(path: Path, cache: Path) -> list[str]:
    """The suffixes, which tell the format, and the SHA-256 of the bytes."""
    return ["".join(path.suffixes[-2:]), digest_of(path, cache)]


def digest_of(path: Path, cache: Path) -> str:
    """The SHA-256 of a file's bytes, hexadecimal.

    Reading a large corpus for its hash takes seconds, so the hash is remembered for as long as
    size, times and place of the file stay the same.
    """
    refuse_pipe(path)
    with open_bytes(path, unpack=False):
        seen = path.stat()
    state = (path.resolve(), seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    known = cache / "digests" / hashlib.sha256(repr(state).encode()).hexdigest()[:32]
    with build_once(known) as unfinished:
        if unfinished is not None:
            with open_bytes(path, unpack=False) as file:
                digest = hashlib.file_digest(cast(BufferedReader, file), "sha256")
            unfinished.write_text(digest.hexdigest())
    return known.read_text()
