"""Translations of test and predict, and the files that hold them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_info, rank_zero_only

from seq2seq.data.corpus import Pair
from seq2seq.data.json_lines import json_fields, json_row
from seq2seq.data.output import replacing, writing
from seq2seq.evaluation.metrics import Score, evaluate
from seq2seq.sentence import MAX_LENGTH
from seq2seq.training.processes import gathered
from seq2seq.translation import Translation


class Outputs:
    """What the processes of a run have translated, by name, for files in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, list[tuple[int, Translation]]] = {}

    def add(self, name: str, indices: Sequence[int], best: Sequence[Translation]) -> None:
        """Keep the best translations of these lines of a corpus, which this process has made."""
        self._found.setdefault(name, []).extend(zip(indices, best, strict=True))

    def score(self, name: str, pairs: Sequence[Pair], tgt_lang: str) -> tuple[list[Score], bool]:
        """Score the test set of these pairs; its translations go to a file -> the scores, and
        whether they are of all lines. All processes must call it, exactly once."""
        found = self._gather(name)
        references = [pairs[index].tgt for index in found]
        hypotheses = [translation.text for translation in found.values()]
        scores = evaluate(hypotheses, [references], tgt_lang)
        for score in scores:
            rank_zero_only(print)(f"{name}: {score}")
        self._write(f"test/{name}.txt", (f"{line}\n" for line in hypotheses))
        told = {"tgt_lang": tgt_lang, "references": references, "translations": hypotheses}
        self._write(f"test/{name}.json", [json.dumps(told)])
        return scores, len(found) == len(pairs)

    def write_predictions(self, pairs: Sequence[Pair]) -> None:
        """A file of all that `predict` has translated. All processes must call it, exactly once."""
        rows = (
            {"index": i, "src": pairs[i].src, "translation": each.text, "score": each.score}
            for i, each in self._gather("predict").items()
        )
        self._write("predictions.jsonl", (f"{json_row(json_fields(row))}\n" for row in rows))

    def _gather(self, name: str) -> dict[int, Translation]:
        """Line -> translation, in order, from all processes: of every line, unless the trainer
        limits batches. Says how many lines were longer than `translate` takes, too."""
        parts = gathered(self._found.pop(name, []))
        found = dict(sorted(pair for part in parts for pair in part))
        if number := sum(each.pieces > 1 for each in found.values()):
            rank_zero_info(
                f"{name}: lines of more than {MAX_LENGTH} subwords, which were split: {number}"
            )
        return found

    @rank_zero_only
    def _write(self, name: str, lines: Iterable[str]) -> None:
        """A file of the folder, whole or not at all."""
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, str(path)) as unfinished:
                unfinished.write_text("".join(lines), encoding="utf-8")
        print(f"translations: {path}")
