"""A Hugging Face dataset is a corpus like any other; without the extra, the error says so."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest

from seq2seq.data import huggingface
from seq2seq.data.corpus import CorpusFiles, Pair, read_pairs, stream_pairs
from seq2seq.data.store import store_of
from seq2seq.errors import ConfigError, CorpusError

ROWS = [
    {"id": 1, "src": "one", "tgt": "eins", "translation": {"en": "1", "de": "I"}},
    {"id": 2, "src": "two\u2028 <b>", "tgt": "zwei\n", "translation": {"en": "2", "de": None}},
]
PAIRS = [(row["src"], row["tgt"]) for row in ROWS]


def saved(folder: Path, rows: list[dict[str, Any]]) -> CorpusFiles:
    datasets.Dataset.from_list(rows).save_to_disk(folder)
    return CorpusFiles(path=f"hf:{folder}")


def saved_splits(folder: Path, split: str) -> CorpusFiles:
    splits = {name: datasets.Dataset.from_list(ROWS[i:]) for i, name in enumerate(("train", "dev"))}
    datasets.DatasetDict(splits).save_to_disk(folder)
    return CorpusFiles(path=f"hf:{folder}", split=split)


def content_of(files: CorpusFiles) -> str:
    assert files.dataset is not None
    return huggingface.fingerprint(files.dataset, files.split)


def test_a_saved_dataset_gives_its_rows(tmp_path: Path) -> None:
    assert list(stream_pairs(saved(tmp_path / "a", ROWS))) == PAIRS


def test_a_saved_dataset_of_several_splits_gives_the_one_that_is_asked_for(tmp_path: Path) -> None:
    assert list(stream_pairs(saved_splits(tmp_path / "a", "train"))) == PAIRS
    assert list(stream_pairs(saved_splits(tmp_path / "b", "dev"))) == PAIRS[1:]
    with pytest.raises(ConfigError, match=r"^split=test is not in hf:.*c; choose .* train, dev\."):
        list(stream_pairs(saved_splits(tmp_path / "c", "test")))


def test_a_dataset_without_splits_is_the_split_that_it_was_and_no_other(tmp_path: Path) -> None:
    """What is named as validation must not be the training set."""
    datasets.Dataset.from_list(ROWS, split="dev").save_to_disk(tmp_path / "a")
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "dev")
    for folder in ("a", "dev"):
        for split in ("dev", "train"):  # train is what a setting says that says nothing
            files = CorpusFiles(path=f"hf:{tmp_path / folder}", split=split)
            assert list(stream_pairs(files)) == PAIRS
        for split in ("test", "None"):
            with pytest.raises(ConfigError, match=rf"^split={split}: .*{folder} holds no splits"):
                list(stream_pairs(CorpusFiles(path=f"hf:{tmp_path / folder}", split=split)))


def test_fields_are_named_and_missing_ones_told_as_in_jsonl(tmp_path: Path) -> None:
    path = saved(tmp_path / "a", ROWS).path
    nested = CorpusFiles(path=path, src_field="translation.en", tgt_field="translation.de")
    rows = stream_pairs(nested)
    assert next(rows) == ("1", "I")
    with pytest.raises(CorpusError, match=rf"^{path} row 1: tgt_field=translation\.de is None"):
        next(rows)
    with pytest.raises(
        CorpusError, match=r'src_field=en; its fields are "id", "src", .*"translation.en"'
    ):
        list(stream_pairs(CorpusFiles(path=path, src_field="en")))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("arrow", None), ("pandas", None), ("numpy", ["src", "tgt"]), ("numpy", ["id"])],
    ids=repr,
)
def test_the_format_that_a_dataset_was_saved_with_does_not_matter(
    tmp_path: Path, kind: str, columns: list[str] | None
) -> None:
    formatted = datasets.Dataset.from_list(ROWS).with_format(kind, columns=columns)
    formatted.save_to_disk(tmp_path / "a")
    assert list(stream_pairs(CorpusFiles(path=f"hf:{tmp_path / 'a'}"))) == PAIRS


def test_rows_are_read_many_at_once_in_order_and_numbered(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"src": f"{i}", "tgt": {"x": f"{-i}"} if i % 3 else None} for i in range(2, 252)
    ]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "a")
    files = CorpusFiles(path=f"hf:{tmp_path / 'a'}", tgt_field="tgt.x")
    read = list(read_pairs(files, errors="surrogateescape"))
    assert read == [(row["src"], row["tgt"]["x"]) if row["tgt"] else (str(row), "") for row in rows]
    with pytest.raises(CorpusError, match=r" row 1 has no field tgt_field=tgt\.x"):
        list(read_pairs(files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.Dataset, "__iter__", None)  # one by one is slow
        assert list(read_pairs(files, errors="surrogateescape")) == read


def test_a_field_whose_own_name_has_a_dot_is_found_before_a_nested_one(tmp_path: Path) -> None:
    nested = [{"translation": row["translation"]} for row in ROWS[:1]]
    datasets.Dataset.from_list(nested).flatten().save_to_disk(tmp_path / "flat")

    def pairs(path: str) -> list[Pair]:
        files = CorpusFiles(path=path, src_field="translation.en", tgt_field="translation.de")
        return list(stream_pairs(files))

    assert pairs(f"hf:{tmp_path / 'flat'}") == [("1", "I")]
    both = {"translation": {"en": "in", "de": "in"}, "translation.en": "own"}
    datasets.Dataset.from_list([both]).save_to_disk(tmp_path / "both")
    (tmp_path / "both.jsonl").write_text(json.dumps(both) + "\n")
    for path in (f"hf:{tmp_path / 'both'}", str(tmp_path / "both.jsonl")):
        assert pairs(path) == [("own", "in")]


def test_a_row_without_a_translation_is_one_side_where_rows_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Dataset(list[dict[str, Any]]):
        column_names = ("src", "tgt")

        def with_format(self, _: None) -> "Dataset":
            return self

        def iter(self, batch_size: int) -> Iterator[dict[str, list[Any]]]:
            for start in range(0, len(self), batch_size):
                rows = self[start : start + batch_size]
                yield {name: [row[name] for row in rows] for name in self.column_names}

        def select_columns(self, _: list[str]) -> "Dataset":
            return self

    rows = Dataset([{"src": "one", "tgt": None}, {"src": "two", "tgt": "zwei"}])
    monkeypatch.setattr(huggingface, "load", lambda *_: rows)
    files = CorpusFiles(path="hf:any")
    assert list(read_pairs(files, errors="surrogateescape")) == [
        (str(rows[0]), ""),
        ("two", "zwei"),
    ]
    with pytest.raises(CorpusError, match=r"^hf:any row 0: tgt_field=tgt is None, not text"):
        list(read_pairs(files))
    del rows[1]
    with pytest.raises(CorpusError, match=r"^hf:any row 0: tgt_field=tgt is None, not text"):
        list(read_pairs(files, errors="surrogateescape"))


def test_the_source_of_a_dataset_is_a_fingerprint_of_its_content(tmp_path: Path) -> None:
    first = saved(tmp_path / "a", ROWS)
    assert content_of(first) == content_of(first)
    assert content_of(first) != content_of(saved(tmp_path / "b", ROWS[:1]))
    assert content_of(saved_splits(tmp_path / "c", "train")) != content_of(
        CorpusFiles(path=f"hf:{tmp_path / 'c'}", split="dev")
    )


@pytest.mark.parametrize("splits", [False, True])
def test_other_rows_are_stored_anew_though_the_fingerprint_is_the_same(
    tmp_path: Path, splits: bool
) -> None:
    files, outside = CorpusFiles(path=f"hf:{tmp_path / 'a'}"), tmp_path / "outside"
    found = []
    for text in ("one", "two"):
        outside.write_text(text)
        dataset = datasets.Dataset.from_dict({"src": ["1"]}).map(
            lambda _, path=str(outside): {"tgt": Path(path).read_text()}
        )
        (datasets.DatasetDict(train=dataset) if splits else dataset).save_to_disk(tmp_path / "a")
        found.append(content_of(files))
        assert list(store_of(files, tmp_path / "cache", print)) == [("1", text)]
    assert found[0] == found[1]


def test_a_folder_that_holds_no_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"^hf:{tmp_path} cannot be loaded: .*neither"):
        list(stream_pairs(CorpusFiles(path=f"hf:{tmp_path}")))


def test_a_dataset_without_rows_and_a_path_without_a_name_are_told(tmp_path: Path) -> None:
    full = datasets.Dataset.from_list(ROWS)
    splits = {"train": full, "dev": full.select(range(0))}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "a")
    for path, said in (("a", "one of its splits has no rows; .*/a/SPLIT is"), ("a/dev", "it has")):
        with pytest.raises(CorpusError, match=rf"^hf:{tmp_path}/{path}(.*{said}|: the corpus is)"):
            list(stream_pairs(CorpusFiles(path=f"hf:{tmp_path / path}", split="dev")))
    assert list(stream_pairs(CorpusFiles(path=f"hf:{tmp_path / 'a' / 'train'}"))) == PAIRS
    for path in ("hf:", "hf::", "hf::en-de"):
        with pytest.raises(ConfigError, match=f"^{path} names no dataset"):
            list(stream_pairs(CorpusFiles(path=path)))


def hub(**functions: Any) -> SimpleNamespace:
    """Takes the place of `datasets`, so that no test asks the network."""
    exceptions = SimpleNamespace(DatasetsError=type("DatasetsError", (Exception,), {}))
    return SimpleNamespace(exceptions=exceptions, **functions)


@pytest.mark.parametrize(
    ("path", "asked"), [("hf:a/b", ("a/b", None)), ("hf:a/b:en-de", ("a/b", "en-de"))]
)
def test_a_name_is_looked_up_with_its_configuration_and_split(
    monkeypatch: pytest.MonkeyPatch, path: str, asked: tuple[str, str | None]
) -> None:
    def load_dataset(name: str, configuration: str | None, *, split: str) -> Any:
        raise ValueError(f"asked for {(name, configuration)} {split}\nand more")

    monkeypatch.setitem(sys.modules, "datasets", hub(load_dataset=load_dataset))
    with pytest.raises(CorpusError) as raised:
        list(stream_pairs(CorpusFiles(path=path, split="dev")))
    assert str(raised.value) == f"{path} cannot be loaded: asked for {asked} dev"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("Dataset scripts are no longer supported"), "Dataset scripts are no longer"),
        (ValueError(), "ValueError"),
    ],
    ids=repr,
)
def test_whatever_stops_a_dataset_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def load_dataset(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setitem(sys.modules, "datasets", hub(load_dataset=load_dataset))
    with pytest.raises(CorpusError, match=f"^hf:a/b cannot be loaded: {said}"):
        list(stream_pairs(CorpusFiles(path="hf:a/b")))


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    for use in (content_of, lambda files: list(stream_pairs(files))):
        with pytest.raises(ConfigError, match=r"pip install 'seq2seq-lightning\[datasets\]'"):
            use(CorpusFiles(path="hf:any"))
