"""What corpora are made of, as facts for a model's card."""

from collections.abc import Iterable
from pathlib import Path

from seq2seq.data.corpus import CorpusFiles, Languages, files_of
from seq2seq.data.formats import read_jsonl, read_tsv, reader_of
from seq2seq.data.huggingface import fingerprint
from seq2seq.data.store import digest_of
from seq2seq.errors import CorpusError
from seq2seq.provenance import Corpus, File, Role, terms_paths

BY_LINES = (None, read_tsv, read_jsonl)
"""Readers of formats in which every line is a pair, or half of one."""


def origin(
    role: Role,
    name: str,
    corpus: CorpusFiles,
    pairs: int,
    cache: Path,
    languages: Languages = ("", ""),
) -> Corpus:
    """The facts about a corpus that was read and has so many pairs; `name` may be empty.

    A file is read for its SHA-256 only if `cache` does not know it as it is; a pipe, whose text is
    gone, is not a file.
    """
    facts = Corpus(role=role, pairs=pairs, files=[])
    if name:
        facts["name"] = name
    if corpus.dataset is not None:
        folder = Path(corpus.dataset).is_dir()
        facts["dataset_folder" if folder else "dataset"] = corpus.dataset
        facts["split"] = corpus.split
        facts["fingerprint"] = fingerprint(corpus.dataset, corpus.split)
        return facts
    for path in filter(Path.is_file, files_of(corpus, languages)):
        file = File(path=str(path), sha256=digest_of(path, cache))
        if reader_of(str(path)) in BY_LINES:
            file["lines"] = pairs
        facts["files"].append(file)
    return facts


def terms_beside(files: Iterable[Path]) -> dict[str, str]:
    """Path -> text of the terms of each of these files, and of those of their folders; CorpusError
    names one that cannot be read."""
    found = {}
    for path in dict.fromkeys(path for file in files for path in terms_paths(file)):
        try:
            found[str(path)] = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None
    return found
