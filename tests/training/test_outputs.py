"""What a run has translated, and the files that hold it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.training.outputs import Outputs


def test_lines_that_were_translated_are_scored_with_their_own_references(tmp_path: Path) -> None:
    pairs = [Pair(f"source {n}", f"the reference of line {n}") for n in range(5)]
    translated: Any = [SimpleNamespace(text=pairs[n].tgt, pieces=1) for n in (4, 1)]
    outputs = Outputs(tmp_path)
    outputs.add("some", [4, 1], translated)
    scores, whole = outputs.score("some", pairs, "en")
    assert scores[0].value > 99.9
    assert not whole
    told = json.loads((tmp_path / "test/some.json").read_text())
    assert told["references"] == told["translations"] == [pairs[n].tgt for n in (1, 4)]
