"""What a run logs is what the diagrams call it."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_runs import Run, metrics, settings
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.data.batch import Batch, make_batch
from seq2seq.model_folder import SavedModel, load_model
from seq2seq.training import throughput
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe


def whole(corpus: str, model: SavedModel) -> Batch:
    """All pairs of a corpus."""
    src, tgt = (
        subwords.encode_all(Path(f"{corpus}.{side}").read_text().splitlines())
        for side, subwords in (("src", model.src_subwords), ("tgt", model.tgt_subwords))
    )
    return make_batch(src, tgt, model.network.config.start_id)


def loss_of(model: SavedModel, batch: Batch, label_smoothing: float) -> Tensor:
    """The mean over target tokens, end tokens counted."""
    network = model.network
    logits = network.project(network(batch.src, batch.src_lens, batch.tgt_in))
    real = torch.arange(batch.tgt_out.shape[1]) < batch.tgt_lens[:, None]
    return F.cross_entropy(logits[real], batch.tgt_out[real], label_smoothing=label_smoothing)


def model_at(step: int) -> SavedModel:
    """That of the run, with the weights of a checkpoint."""
    model = load_model("run")
    weights = torch.load(f"run/checkpoints/step={step}.ckpt", weights_only=True)["state_dict"]
    names = {name: name.removeprefix("network.") for name in weights}
    model.network.load_state_dict({names[name]: each for name, each in weights.items()})
    return model


def test_perplexity_is_that_of_all_target_tokens_however_many_are_in_a_batch(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(data__batch_tokens=64, trainer__precision="32-true")) == 0
    logged = [float(row["val_ppl"]) for row in metrics(Path("run")) if row["val_ppl"]]
    models = map(model_at, (4, 8))
    expected = [loss_of(model, whole("valid", model), 0.0).exp().item() for model in models]
    assert logged == pytest.approx(expected, rel=1e-5)


def test_the_numbers_of_a_step_are_those_of_all_its_tokens(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is the whole corpus here, and a step takes four seconds."""
    lines = Path("train.tgt").read_text().splitlines()
    Path("train.tgt").write_text("".join(f"{line} ba\n" for line in lines))
    clock, step = 0, TranslationModule.training_step

    def slow_step(self: TranslationModule, *arguments: Any) -> Any:
        nonlocal clock
        clock += 4
        return step(self, *arguments)

    monkeypatch.setattr(TranslationModule, "training_step", slow_step)
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock))
    chosen: dict[str, object] = {
        "data__batch_tokens": 10**6,
        "data__batch_pairs": 4096,
        "training__dropout__residual": 0,
        "trainer__precision": "32-true",
        "trainer__max_steps": 2,
        "trainer__val_check_interval": 1,
        "trainer__log_every_n_steps": 1,
    }
    assert run("fit", *settings(**chosen)) == 0
    first, second = (
        {
            name: float(cell)
            for row in metrics(Path("run"))
            if row["step"] == number
            for name, cell in row.items()
            if cell
        }
        for number in ("0", "1")
    )

    model = model_at(1)
    batch = whole("train", model)
    loss = loss_of(model, batch, 0.1)
    assert second["loss"] == pytest.approx(loss.item(), rel=1e-5)
    gradients = torch.autograd.grad(loss, list(model.network.parameters()))
    norm = math.sqrt(sum(each.double().square().sum().item() for each in gradients))
    assert second["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert [first["lr"], second["lr"]] == pytest.approx([0.002 / 4, 0.002 / 2])
    tokens = batch.tgt_lens.sum().item()
    assert first["tokens_per_second"] == second["tokens_per_second"] == tokens / 4
    padding = 1 - (batch.src_lens.sum().item() + tokens) / (
        batch.src.numel() + batch.tgt_out.numel()
    )
    assert second["padding"] == pytest.approx(padding, rel=1e-5)


def test_a_rate_is_that_of_all_processes_since_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, logged = 0.0, dict[str, float]()
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: clock))
    module = TranslationModule(ModelConfig(), Recipe(), SearchConfig())
    trainer: Any = SimpleNamespace(world_size=3)
    module.trainer = trainer
    monkeypatch.setattr(module, "is_logged", lambda _: True)
    monkeypatch.setattr(module, "log", logged.__setitem__)
    monkeypatch.setattr(module, "log_dict", logged.update)
    batch = make_batch([[5, 6]], [[5, 6, 7]], 2)
    for seconds in (4, 2):
        clock += seconds
        module.throughput.count([batch])
        module.on_train_batch_end(None, [], 0)
        assert logged["tokens_per_second"] == 3 * 4 / seconds


def test_numbers_are_logged_after_whole_steps() -> None:
    module = TranslationModule(ModelConfig(), Recipe(), SearchConfig())
    trainer: Any = SimpleNamespace(
        log_every_n_steps=2, accumulate_grad_batches=3, should_stop=False, global_step=0
    )
    module.trainer, logged = trainer, []
    for batch_index in range(15):
        trainer.global_step = (batch_index + 1) // 3
        if module.is_logged(batch_index):
            logged.append(trainer.global_step)
    assert logged == [2, 4]


def test_the_last_row_of_a_run_is_of_its_last_step(corpus: Path, run: Run) -> None:
    def rows(name: str, every: int) -> list[dict[str, str]]:
        assert run("fit", *settings(run=name, trainer__log_every_n_steps=every)) == 0
        return [row for row in metrics(Path(name)) if row["loss"]]

    names = ("step", "loss", "grad_norm", "lr")
    each, some = (
        [{name: row[name] for name in names} for row in rows(f"every-{every}", every)]
        for every in (1, 3)
    )
    assert some == [each[2], each[5], each[7]]
