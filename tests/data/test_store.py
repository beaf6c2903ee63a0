"""The store must behave as the list it was made of, be built once, and survive being killed."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import random_pairs, stored
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from seq2seq.config import SubwordConfig
from seq2seq.data import store as store_module
from seq2seq.data.corpus import CorpusFiles, Pair
from seq2seq.data.store import PairStore, lengths_of, store_of
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.text.subwords import Subwords, train_subwords

PAIRS = random_pairs(300)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # all but lone surrogates


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_subwords((pair.src for pair in PAIRS), SubwordConfig(), 290))


def corpus_files(folder: Path, pairs: list[Pair] = PAIRS) -> CorpusFiles:
    for side in ("src", "tgt"):
        text = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
        (folder / f"train.{side}").write_text(text, encoding="utf-8")
    return CorpusFiles(src=str(folder / "train.src"), tgt=str(folder / "train.tgt"))


def stores_in(cache: Path) -> list[Path]:
    return [path for path in (cache / "corpora").iterdir() if path.is_dir()]


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT)))
def test_a_store_is_the_list_of_pairs_it_was_made_of(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]
) -> None:
    pairs = [Pair(*text) for text in texts]
    found = stored(pairs, tmp_path_factory.mktemp("stores") / "store")
    assert list(found) == pairs
    assert list(reversed(found)) == pairs[::-1]
    assert [found[-n] for n in range(1, len(pairs) + 1)] == pairs[::-1]
    assert len(found) == len(pairs)
    assert list(pickle.loads(pickle.dumps(found))) == pairs


def test_a_corpus_larger_than_what_is_held_at_once_is_stored_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subwords: Subwords
) -> None:
    monkeypatch.setattr(store_module, "CHUNK", 7)
    found = stored(PAIRS, tmp_path / "store")
    assert list(found) == PAIRS
    expected = [[len(subwords.encode(side)) for side in pair] for pair in PAIRS]
    assert found.lengths(subwords, subwords, print).tolist() == expected
    assert lengths_of(PAIRS, subwords, subwords).tolist() == expected


def test_a_store_is_built_once_and_found_by_the_content_of_its_files(tmp_path: Path) -> None:
    said: list[str] = []
    files = corpus_files(tmp_path)
    first = store_of(files, tmp_path / "cache", said.append)
    copy = tmp_path / "copy"
    copy.mkdir()
    again = [
        store_of(files, tmp_path / "cache", said.append),
        store_of(corpus_files(copy), tmp_path / "cache", said.append),
        store_of(replace(files, weight=2.0), tmp_path / "cache", said.append),
        store_of(files, tmp_path / "cache", said.append, ("en", "de")),
    ]
    assert [store.folder for store in again] == [first.folder] * 4
    assert list(first) == PAIRS
    assert len(said) == len(stores_in(tmp_path / "cache")) == 1


def test_other_content_and_sides_swapped_are_other_stores(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    files = corpus_files(tmp_path)
    store_of(files, cache, print)
    store_of(CorpusFiles(src=files.tgt, tgt=files.src), cache, print)
    assert len(stores_in(cache)) == 2
    changed = store_of(corpus_files(tmp_path, [*PAIRS[:-1], Pair("tosu", "kare")]), cache, print)
    assert changed[len(PAIRS) - 1] == ("tosu", "kare")
    assert len(stores_in(cache)) == 3


def test_the_same_bytes_read_in_another_way_are_another_store(tmp_path: Path) -> None:
    text = '{"src": "ka",\t"tgt": "to"}\n'  # JSON, and two columns
    for ending in ("jsonl", "tsv"):
        (tmp_path / f"x.{ending}").write_text(text)
    units = "".join(f'<tuv xml:lang="{lang}"><seg>{lang}</seg></tuv>' for lang in ("en", "de"))
    (tmp_path / "x.tmx").write_text(f"<tmx><body><tu>{units}</tu></body></tmx>")

    def read(name: str, src_lang: str, **fields: str) -> list[Pair]:
        files = CorpusFiles(path=str(tmp_path / name), **fields)  # type: ignore[arg-type]
        languages = src_lang, "en" if src_lang == "de" else "de"
        return list(store_of(files, tmp_path / "cache", str, languages))

    assert read("x.jsonl", "en") == [("ka", "to")]
    assert read("x.jsonl", "en", src_field="tgt", tgt_field="src") == [("to", "ka")]
    assert read("x.tsv", "en") == [('{"src": "ka",', '"tgt": "to"}')]
    assert read("x.tmx", "en") == [("en", "de")]
    assert read("x.tmx", "de") == [("de", "en")]


def test_a_cache_whose_name_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^data\.cache: \S+xxx/digests cannot be written to"):
        store_of(corpus_files(tmp_path, PAIRS), tmp_path / ("x" * 300), str)


def test_a_corpus_that_cannot_be_read_leaves_no_store(tmp_path: Path) -> None:
    files = corpus_files(tmp_path)
    (tmp_path / "train.tgt").write_text("one line\n")
    with pytest.raises(CorpusError, match="has 1 lines"):
        store_of(files, tmp_path / "cache", print)
    assert stores_in(tmp_path / "cache") == []
    with pytest.raises(CorpusError, match="missing does not exist"):
        store_of(CorpusFiles(src="missing", tgt="missing"), tmp_path / "cache", print)


def test_stores_that_are_asked_for_at_once_are_built_by_one(tmp_path: Path) -> None:
    files, said = corpus_files(tmp_path), list[str]()

    def ask(_: int) -> list[Pair]:
        return list(store_of(files, tmp_path / "cache", said.append))

    with ThreadPool(8) as pool:
        assert pool.map(ask, range(8)) == [PAIRS] * 8
    assert len(said) == 1


def test_a_build_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    files = corpus_files(tmp_path)
    code = f"""
from pathlib import Path
from seq2seq.data import store
from seq2seq.data.corpus import CorpusFiles, Pair

def slow(files, languages):
    for number in range(20_000):
        yield Pair("half", "a store")
    print("now", flush=True)
    import time; time.sleep(60)

store.stream_pairs = slow
store.store_of(CorpusFiles(src={files.src!r}, tgt={files.tgt!r}), Path({str(tmp_path)!r}), str)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stdout.readline() == "now\n"
        (unfinished,) = stores_in(tmp_path)
        os.kill(build.pid, signal.SIGKILL)
    assert (unfinished / "src.text").stat().st_size > 0
    assert list(store_of(files, tmp_path, print)) == PAIRS
    assert not unfinished.exists()


def test_lengths_are_counted_once_for_each_pair_of_subword_models(
    tmp_path: Path, subwords: Subwords
) -> None:
    other = Subwords(train_subwords((pair.src for pair in PAIRS), SubwordConfig(kind="bpe"), 290))
    said: list[str] = []
    found = stored(PAIRS, tmp_path / "store")
    first = found.lengths(subwords, other, said.append)
    assert np.array_equal(first, PairStore(tmp_path / "store").lengths(subwords, other, print))
    assert len(said) == 1
    assert not np.array_equal(first, found.lengths(other, subwords, said.append))
    assert len(said) == 2


def test_lengths_take_room_as_they_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subwords: Subwords
) -> None:
    """A file as large as it will be, with holes, is killed by SIGBUS where a disk gets full."""
    sizes = list[int]()

    def watched(*args: Any) -> NDArray[np.uint32]:
        sizes.extend(path.stat().st_size for path in folder.glob("lengths-*.unfinished"))
        return lengths_of(*args)

    folder = tmp_path / "store"
    found = stored(PAIRS, folder)
    monkeypatch.setattr(store_module, "lengths_of", watched)
    monkeypatch.setattr(store_module, "CHUNK", 7)
    counted = found.lengths(subwords, subwords, print)
    assert max(sizes) < counted.nbytes


def test_a_corpus_that_changes_while_it_is_stored_gets_no_store(tmp_path: Path) -> None:
    files = corpus_files(tmp_path)

    def change(_: str) -> None:
        corpus_files(tmp_path, [*PAIRS, Pair("tosu", "kare")])

    with pytest.raises(CorpusError, match=r"train\.tgt changed while it was stored"):
        store_of(files, tmp_path / "cache", change)
    corpus_files(tmp_path)  # as it was
    assert list(store_of(files, tmp_path / "cache", print)) == PAIRS


def test_a_file_that_changes_between_two_runs_is_noticed(tmp_path: Path) -> None:
    files = corpus_files(tmp_path, [Pair("one", "eins")])
    assert list(store_of(files, tmp_path, print)) == [("one", "eins")]
    time.sleep(0.01)
    (tmp_path / "train.src").write_text("two\n")  # as many bytes as before
    assert list(store_of(files, tmp_path, print)) == [("two", "eins")]
