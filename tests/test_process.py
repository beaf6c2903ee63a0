"""Applications decide for their process, before there is a model in it."""

from pathlib import Path

import pytest
from test_translator import random_network, subwords

from seq2seq import process
from seq2seq.cli import main
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.nn.transformer import Transformer


class ModelIsMade(Exception):
    """What comes after it is of no interest here."""


@pytest.mark.parametrize(
    "command",
    [
        "translate model text --device cpu --workers 1",
        "score model text text --device cpu",
        "plot model --attention text",
        "export model --to huggingface exported",
    ],
)
def test_memory_that_tensors_free_is_kept_and_threads_are_limited_before_a_model_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def made(*_: object) -> None:
        raise ModelIsMade

    done = list[str]()
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("kare\n")
    save_model(SavedModel(random_network(), subwords(), subwords()), Path("model"))
    monkeypatch.setattr(process, "keep_freed_memory", lambda: done.append("memory"))
    monkeypatch.setattr(process, "limit_threads", lambda: done.append("threads"))
    monkeypatch.setattr(Transformer, "__init__", made)
    with pytest.raises(ModelIsMade):
        main(command.split())
    assert done == ["memory", "threads"]
