"""Facts about corpora, against hashlib and the lines of the files."""

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from seq2seq.data import origin as module
from seq2seq.data.corpus import CorpusFiles, Languages, stream_pairs
from seq2seq.data.origin import origin, terms_beside
from seq2seq.data.store import store_of
from seq2seq.errors import CorpusError
from seq2seq.provenance import Corpus

PAIRS = [("one", "eins"), ("two", "zwei"), ("", "drei")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts(files: CorpusFiles, languages: Languages = ("", "")) -> Corpus:
    pairs = len(list(stream_pairs(files, languages)))
    return origin("test", "news", files, pairs, Path("cache"), languages)


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_of_two_text_files_the_hashes_of_the_bytes_and_the_lines() -> None:
    Path("a").write_text("".join(f"{src}\n" for src, _ in PAIRS))
    Path("b.gz").write_bytes(gzip.compress("".join(f"{tgt}\n" for _, tgt in PAIRS).encode()))
    assert facts(CorpusFiles(src="a", tgt="b.gz")) == {
        "role": "test",
        "name": "news",
        "pairs": 3,
        "files": [
            {"path": "a", "sha256": sha256("a"), "lines": 3},
            {"path": "b.gz", "sha256": sha256("b.gz"), "lines": 3},
        ],
    }


def test_of_files_chosen_by_their_languages_those_that_were_read() -> None:
    for lang in ("en", "de", "fr"):
        Path(f"train.{lang}").write_text("x\n")
    found = facts(CorpusFiles(path="train"), ("de", "fr"))
    assert [file["path"] for file in found["files"]] == ["train.de", "train.fr"]


def test_lines_are_told_where_the_format_has_them() -> None:
    Path("a.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS))
    rows = (json.dumps({"src": src, "tgt": tgt}) for src, tgt in PAIRS)
    Path("a.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    for name in ("a.tsv", "a.jsonl.gz"):
        (file,) = facts(CorpusFiles(path=name))["files"]
        assert file == {"path": name, "sha256": sha256(name), "lines": 3}
    Path("a.po").write_text('msgid "one"\nmsgstr "eins"\n\nmsgid "two"\nmsgstr "zwei"\n')
    found = facts(CorpusFiles(path="a.po"))
    assert found["pairs"] == 2
    assert found["files"] == [{"path": "a.po", "sha256": sha256("a.po")}]


def test_a_pipe_is_not_read_again() -> None:
    Path("a").write_text("x\n")
    drained, written = os.pipe()
    os.close(written)
    pipe = f"/dev/fd/{drained}"
    found = origin("test", "", CorpusFiles(src="a", tgt=pipe), 1, Path("cache"))
    os.close(drained)
    assert [file["path"] for file in found["files"]] == ["a"]


def test_a_corpus_that_was_stored_is_not_read_for_its_hashes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a", "b"):
        Path(name).write_text(f"{name}\n")
    files = CorpusFiles(src="a", tgt="b")
    store_of(files, Path("cache"), print)
    expected = [sha256("a"), sha256("b")]

    def read(*_: object) -> None:
        raise AssertionError("the file was read")

    monkeypatch.setattr(hashlib, "file_digest", read)
    found = origin("train", "", files, 1, Path("cache"))
    assert [file["sha256"] for file in found["files"]] == expected
    assert "name" not in found


@pytest.mark.parametrize("local", [True, False])
def test_a_dataset_of_the_hub_and_one_of_this_disk_are_told_apart(
    local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fingerprint", lambda *_: "f1ngerpr1nt")
    if local:
        Path("some").mkdir()
        Path("some/data").mkdir()
    corpus = CorpusFiles(path="hf:some/data", split="dev")
    assert origin("validation", "", corpus, 4, Path("cache")) == {
        "role": "validation",
        "pairs": 4,
        "files": [],
        "dataset_folder" if local else "dataset": "some/data",
        "split": "dev",
        "fingerprint": "f1ngerpr1nt",
    }


def test_the_terms_beside_the_files_are_kept_once_and_whole() -> None:
    for name in ("one", "two", "three"):
        Path(name).mkdir()
        Path(name, "a").write_text("x\n")
        Path(name, "b").write_text("y\n")
    Path("one/SOURCE.md").write_text("# one\n\n**Licence**: é\n", encoding="utf-8")
    Path("two/SOURCE.md").write_bytes(b"caf\xe9")
    Path("two/a.SOURCE.md").write_text("# a")
    Path("two/c.SOURCE.md").write_text("# c")
    files = [Path(n, name) for n in ("one", "two", "three") for name in ("a", "b")]
    assert terms_beside([*files, *files]) == {
        "one/SOURCE.md": "# one\n\n**Licence**: é\n",
        "two/SOURCE.md": "caf�",
        "two/a.SOURCE.md": "# a",
    }


def test_terms_that_cannot_be_read_are_named() -> None:
    Path("one/SOURCE.md").mkdir(parents=True)
    with pytest.raises(CorpusError, match=r"^one/SOURCE\.md cannot be read: Is a directory\.$"):
        terms_beside([Path("one/a")])
