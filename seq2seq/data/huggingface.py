"""Hugging Face datasets as corpora; they need the extra `datasets`.

FOLDER was written by `save_to_disk`; NAME is one on the hub, and NAME:CONFIGURATION where it has
several.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seq2seq.data.formats import Pair, Sides, pairs_in_rows, steps_to
from seq2seq.data.lines import Errors
from seq2seq.errors import ConfigError, CorpusError


def read_dataset(name: str, split: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """The pairs of a dataset, row by row."""
    dataset = load(name, split).with_format(None)  # one saved may have another, or hide columns
    known = set(dataset.column_names)
    columns = {steps_to(field, known)[0] for field in (sides.src_field, sides.tgt_field)}
    if columns <= known:
        dataset = dataset.select_columns(sorted(columns))  # others, e.g. images, stay encoded
    rows = ((f"hf:{name} row {number}", record) for number, record in enumerate(_rows(dataset)))
    return pairs_in_rows(rows, sides, errors)


def _rows(dataset: Any) -> Iterator[dict[str, Any]]:
    """Many at once: twenty times as fast as one by one."""
    for columns in dataset.iter(batch_size=100):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def fingerprint(name: str, split: str) -> str:
    """Names the content of a dataset, as `datasets` does in its own cache."""
    return str(load(name, split)._fingerprint)


def row_files(name: str, split: str) -> list[Path]:
    """The files of a folder that hold the rows of a split; none where it is no folder.

    The fingerprint alone does not name them: `map` derives it from its function, whatever else that
    reads.
    """
    folder = Path(name)
    return sorted((folder if (folder / "state.json").is_file() else folder / split).glob("*.arrow"))


def load(name: str, split: str) -> Any:
    """A `datasets.Dataset`, memory-mapped; a folder that holds no splits is one split."""
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            f"hf:{name} needs the package datasets ({error}): "
            f"pip install 'seq2seq-lightning[datasets]'."
        ) from None
    hub_name, _, configuration = name.partition(":")
    if not hub_name:
        raise ConfigError(f"hf:{name} names no dataset; expected hf:FOLDER or hf:NAME.")
    try:
        if not Path(name).is_dir():
            return datasets.load_dataset(hub_name, configuration or None, split=split)
        loaded = _from_disk(name)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise CorpusError(f"hf:{name} cannot be loaded: {said}") from None
    if not isinstance(loaded, datasets.DatasetDict):
        known = "train", loaded.split and str(loaded.split), Path(name).name
        if split not in known:  # train is the default
            raise ConfigError(
                f"split={split}: hf:{name} holds no splits, so all its rows would be read; leave "
                f"it out, and name a split of another folder hf:FOLDER/SPLIT."
            )
        return loaded
    if split not in loaded:
        raise ConfigError(f"split={split} is not in hf:{name}; choose one of {', '.join(loaded)}.")
    return loaded[split]


def _from_disk(folder: str) -> Any:
    """A `Dataset`, or a `DatasetDict` of several."""
    import datasets

    try:
        return datasets.load_from_disk(folder)
    except IndexError:  # of datasets 5, where no file has rows
        said = "it has no rows"
        if (Path(folder) / "dataset_dict.json").is_file():
            said = f"one of its splits has no rows; hf:{folder}/SPLIT is one alone"
        raise CorpusError(f"hf:{folder} cannot be loaded: {said}.") from None
