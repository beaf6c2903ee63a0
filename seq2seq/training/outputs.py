"""Translations of test and predict, and the files that hold them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

from seq2seq.data.output import replacing, writing
from seq2seq.training.processes import gathered
from seq2seq.translation import Translation


class Outputs:
    """What the processes of a run have translated, by name, for files in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, list[tuple[int, Translation]]] = {}

    def add(self, name: str, indices: Sequence[int], best: Sequence[Translation]) -> None:
        """Of these lines of a corpus, in this process."""
        self._found.setdefault(name, []).extend(zip(indices, best, strict=True))

    def gather(self, name: str) -> dict[int, Translation]:
        """Line -> translation, in order, from all processes: of every line, unless the trainer
        limits batches. All processes must ask, and once."""
        parts = gathered(self._found.pop(name, []))
        return dict(sorted(pair for part in parts for pair in part))

    @rank_zero_only
    def write(self, name: str, lines: Iterable[str]) -> None:
        """A file of the folder, whole or not at all."""
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, str(path)) as unfinished:
                unfinished.write_text("".join(lines), encoding="utf-8")
        print(f"translations: {path}")
