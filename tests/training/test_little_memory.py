"""What does not fit into memory is halved, in training and in validation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Run, metrics, settings
from torch import Tensor

from seq2seq.data.batch import Batch
from seq2seq.nn.transformer import Transformer
from seq2seq.training.learner import Learner
from seq2seq.training.module import TranslationModule
from seq2seq.training.parts import positions
from seq2seq.training.pilot import try_longest


def test_a_validation_batch_beyond_the_memory_is_halved_until_it_fits(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = TranslationModule._whole_validation_loss

    def tight(self: TranslationModule, network: Transformer, batch: Batch) -> Tensor:
        if len(batch.src) > 9:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, network, batch)

    assert run("fit", *settings(run="free")) == 0
    monkeypatch.setattr(TranslationModule, "_whole_validation_loss", tight)
    assert run("fit", *settings(run="tight")) == 0
    free, halved = (
        [float(row["val_ppl"]) for row in metrics(Path(name)) if row.get("val_ppl")]
        for name in ("free", "tight")
    )
    assert halved == pytest.approx(free, rel=1e-5)
    monkeypatch.setattr(TranslationModule, "_whole_validation_loss", no_memory)
    assert run("fit", *settings(run="none")) == 2


@pytest.mark.filterwarnings("ignore:out of memory")
def test_what_fits_is_found_out_before_the_first_step_on_a_gpu(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, step = TranslationModule.on_train_start, TranslationModule.training_step
    loss = Learner.loss
    limits: list[int | None] = []

    def on_train_start(self: TranslationModule) -> None:
        begin(self)
        try_longest(self.learner, self.data, self.trainer.optimizers[0])
        assert all(parameter.grad is None for parameter in self.parameters())

    def training_step(self: TranslationModule, *arguments: Any) -> Tensor:
        limits.append(self.learner.parts.limit)
        return step(self, *arguments)

    def tight(self: Learner, batch: Batch) -> Tensor:
        if positions(batch) > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(self, batch)

    monkeypatch.setattr(TranslationModule, "on_train_start", on_train_start)
    monkeypatch.setattr(TranslationModule, "training_step", training_step)
    monkeypatch.setattr(Learner, "loss", tight)
    assert run("fit", *settings()) == 0
    assert len(set(limits)) == 1, "and no step ran out of memory"
    assert limits[0] is not None
    assert 50 < limits[0] <= 100


def no_memory(*_: object) -> Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory")
