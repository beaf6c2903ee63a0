"""What holds for every format that models are read from."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_ctranslate2_source import write_tiny
from test_fairseq import write_fairseq
from test_joeynmt import write_joeynmt

from seq2seq.cli import main
from seq2seq.interop.formats import SOURCES
from seq2seq.model_folder import load_provenance

WITHOUT_LIBRARIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "ctranslate2": (write_tiny, "model.bin"),
    "joeynmt": (write_joeynmt, "best.ckpt"),
    "fairseq": (write_fairseq, "checkpoint_best.pt"),
}
"""What writes a model, and its file of weights; Marian's are made by transformers."""
assert {"huggingface", *WITHOUT_LIBRARIES} == {*SOURCES}


@pytest.mark.parametrize("name", WITHOUT_LIBRARIES)
@pytest.mark.parametrize("card", ["---\nlicense: cc-by-4.0\n---\n", "---\ndate: 2026-13-41\n---\n"])
def test_the_origin_is_told_by_its_files_and_the_licence_on_its_card(
    name: str, card: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, weights = WITHOUT_LIBRARIES[name]
    (tmp_path / "theirs").mkdir()
    write(tmp_path / "theirs")
    (tmp_path / "theirs/README.md").write_text(card)
    monkeypatch.chdir(tmp_path)
    file = Path("theirs") / weights
    for source in ["theirs", *([str(file)] if name == "fairseq" else [])]:
        ours = f"ours-{len(source)}"
        assert main(["convert", source, ours]) == 0
        facts = load_provenance(ours)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        files = [{"path": str(file), "sha256": digest}]
        assert facts["parent"] == {"path": source, "format": name, "files": files}
        assert facts.get("license") == ("cc-by-4.0" if "license" in card else None)
        assert facts["commands"] == [f"seq2seq convert {source} {ours}"]
