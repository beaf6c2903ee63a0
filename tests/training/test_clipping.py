"""The gradients that the optimizer gets: of one step, per token, and not too long."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_runs import Run, settings
from torch import Tensor

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.data.batch import Batch
from seq2seq.nn.transformer import Transformer
from seq2seq.training.learner import Learner
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe

CONFIG = ModelConfig(
    src_vocab_size=10,
    tgt_vocab_size=10,
    d_model=8,
    heads=2,
    ff_dim=16,
    encoder_layers=1,
    decoder_layers=1,
)


@pytest.fixture
def trainer() -> Any:
    """Its module does not keep it alive."""
    return SimpleNamespace(world_size=1, precision_plugin=None)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, trainer: Any) -> TranslationModule:
    """At the end of a step: 8 tokens have a loss of 3 units of 40."""
    monkeypatch.setattr(TranslationModule, "_loss_unit", 40)
    module = TranslationModule(CONFIG, Recipe(), SearchConfig())
    module.network = Transformer(CONFIG)
    module.learner = Learner(module.network, module.recipe, 40, Tensor.backward)
    module.step_loss, module.step_tokens = torch.tensor(3.0), 8
    module.trainer = trainer
    return module


@pytest.fixture
def optimizer() -> Any:
    return SimpleNamespace(param_groups=[{"lr": 0.1}])


@pytest.mark.parametrize("share", [None, 0.5, 2.0])
@pytest.mark.parametrize("processes", [1, 2])
def test_gradients_become_those_of_a_token_and_are_cut_where_they_are_longer_than_the_bound(
    module: TranslationModule,
    trainer: Any,
    optimizer: Any,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    share: float | None,
) -> None:
    """`share` is the bound's of their norm."""
    other = torch.tensor([1.0, 4.0])  # loss and tokens of the other process
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda own: own.add_(other))
    loss, tokens = (3.0, 8) if processes == 1 else (4.0, 12)
    trainer.world_size, parameters = processes, module.learner.parameters
    expected = [torch.randn_like(parameter) for parameter in parameters]
    for parameter, gradient in zip(parameters, expected, strict=True):
        # Those of two processes have been averaged.
        parameter.grad = gradient * (tokens / 40 / processes)
    norm = math.sqrt(sum(each.double().square().sum().item() for each in expected))
    module.configure_gradient_clipping(optimizer, share and share * norm)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient * min(share or 1.0, 1.0))
    numbers = {name: each.item() for name, each in module.step_numbers.items()}
    assert numbers == pytest.approx({"loss": loss * 40 / tokens, "grad_norm": norm, "lr": 0.1})
    assert optimizer.found_inf == 0


@pytest.mark.parametrize("wild", [math.inf, -math.inf, math.nan])
def test_an_optimizer_is_told_of_a_gradient_that_is_not_finite(
    module: TranslationModule, optimizer: Any, wild: float
) -> None:
    for parameter in module.learner.parameters:
        parameter.grad = torch.zeros_like(parameter)
    assert parameter.grad is not None
    parameter.grad.view(-1)[0] = wild
    module.configure_gradient_clipping(optimizer, 1.0)
    assert optimizer.found_inf == 1


def test_gradients_are_those_of_all_micro_batches_of_a_step_and_of_no_other(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, steps = list[Batch](), 0
    step, clip = TranslationModule.training_step, TranslationModule.configure_gradient_clipping

    def watched(self: TranslationModule, batch: list[Batch], index: int) -> Tensor:
        parts.extend(batch)
        return step(self, batch, index)

    def checked(self: TranslationModule, *arguments: Any, **named: Any) -> None:
        nonlocal steps
        with torch.enable_grad():
            loss = torch.stack([self.learner.loss(part) for part in parts]).sum()
            expected = torch.autograd.grad(loss, self.learner.parameters)
        for parameter, gradient in zip(self.learner.parameters, expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
        parts.clear()
        steps += 1
        clip(self, *arguments, **named)

    monkeypatch.setattr(TranslationModule, "training_step", watched)
    monkeypatch.setattr(TranslationModule, "configure_gradient_clipping", checked)
    same = {"training__dropout__residual": 0, "trainer__precision": "32-true"}
    same |= {"trainer__accumulate_grad_batches": 2, "trainer__max_steps": 3}
    assert run("fit", *settings(**same)) == 0
    assert steps == 3
