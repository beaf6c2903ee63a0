"""A small corpus, and runs of the Lightning verbs in this process."""

import csv
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seq2seq.cli import main
from seq2seq.training.module import TranslationModule

Run = Callable[..., int]


def write_reverse_corpus(folder: Path, train: int = 2000) -> None:
    """Reverse-the-words: 12 words, sentences of 2 to 5, split into train, valid and test."""
    rng = random.Random(1)
    words = [a + b for a in "bdfg" for b in "aei"]
    for name, size in (("train", train), ("valid", 40), ("test", 40)):
        lines = [rng.choices(words, k=rng.randint(2, 5)) for _ in range(size)]
        for side, order in (("src", 1), ("tgt", -1)):
            text = "".join(" ".join(line[::order]) + "\n" for line in lines)
            (folder / f"{name}.{side}").write_text(text)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test, with the corpus in it."""
    write_reverse_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("fit", "--model.heads", 2 ...): the exit status of the command."""

    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["seq2seq", *map(str, arguments)])
        return main()

    return call


def settings(**changes: object) -> list[object]:
    """The command line of a fit on the small corpus; `model__heads=2` changes --model.heads."""
    chosen: dict[str, object] = {
        "run": "run",
        "data.train.src": "train.src",
        "data.train.tgt": "train.tgt",
        "data.validation.src": "valid.src",
        "data.validation.tgt": "valid.tgt",
        "data.test": "{small: {src: test.src, tgt: test.tgt}}",
        "data.subwords.src_vocab_size": 60,
        "data.subwords.tgt_vocab_size": 60,
        "data.subwords.byte_fallback": "false",
        "data.batch_tokens": 512,
        "data.cache": "cache",
        "model.d_model": 32,
        "model.heads": 2,
        "model.ff_dim": 64,
        "model.encoder_layers": 1,
        "model.decoder_layers": 1,
        "training.warmup_steps": 4,
        "search.beam": 2,
        "trainer.max_steps": 8,
        "trainer.val_check_interval": 4,
        "trainer.log_every_n_steps": 2,
        "trainer.accelerator": "cpu",
        "trainer.enable_progress_bar": "false",
    }
    chosen.update({name.replace("__", "."): value for name, value in changes.items()})
    return [part for name, value in chosen.items() for part in (f"--{name}", value)]


def ctrl_c_in_step(asked: int | None, patch: pytest.MonkeyPatch) -> None:
    """It comes while that step of a fit is computed, counted from 1; never if it is None."""
    step = TranslationModule.training_step

    def asking(self: TranslationModule, *arguments: Any) -> Any:
        if self.global_step + 1 == asked:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments)

    patch.setattr(TranslationModule, "training_step", asking)


def metrics(run: Path) -> list[dict[str, str]]:
    """All rows of the newest CSV log."""
    newest = max((run / "logs").glob("version_*"), key=lambda path: int(path.name[8:]))
    with (newest / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def validated_after() -> list[int]:
    """So many steps of the run in `run`; the log counts them from 0."""
    return [int(row["step"]) + 1 for row in metrics(Path("run")) if row.get("val_bleu")]
