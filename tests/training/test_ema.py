"""The moving average against its closed form."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_runs import Run, settings
from torch import Tensor, nn

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.nn.transformer import Transformer
from seq2seq.training.ema import ExponentialMovingAverage
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe


def closed_form(start: Tensor, weights: list[Tensor], decay: float) -> Tensor:
    """prod_i d_i * start + sum_t (1 - d_t) * prod_{s > t} d_s * weights_t, in fp64."""
    decays = torch.tensor([min(decay, (1 + t) / (10 + t)) for t in range(1, len(weights) + 1)])
    decays = decays.double()
    total = decays.prod() * start.double()
    for t, weight in enumerate(weights):
        total += (1 - decays[t]) * decays[t + 1 :].prod() * weight.double()
    return total


@pytest.mark.parametrize("decay", [0.999, 0.5, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_average_is_the_closed_form_sum(decay: float, dtype: torch.dtype) -> None:
    network = nn.Linear(4, 3, dtype=dtype)
    start, seen = network.weight.detach().clone(), []
    ema = ExponentialMovingAverage(decay)
    ema.start(network)
    for _ in range(40):
        nn.init.normal_(network.weight)
        seen.append(network.weight.detach().clone())
        ema.update(network)
    assert torch.equal(network.weight, seen[-1])
    assert not any(average.requires_grad for average in ema.weights.values())
    expected = closed_form(start, seen, decay)
    torch.testing.assert_close(ema.weights["weight"].double(), expected, rtol=1e-5, atol=1e-6)
    ema.copy_to(network)
    torch.testing.assert_close(network.weight.double(), expected.to(dtype).double())


def test_an_average_that_a_checkpoint_held_goes_on_as_one_that_never_stopped() -> None:
    network, whole, parts = nn.Linear(4, 3), *(ExponentialMovingAverage(0.9) for _ in range(2))
    whole.start(network)
    for step in range(8):
        nn.init.normal_(network.weight)
        whole.update(network)
        if step == 4:
            parts.load_state_dict(whole.state_dict())
            parts.start(network)
        elif step > 4:
            parts.update(network)
    assert parts.steps == whole.steps
    torch.testing.assert_close(parts.weights, whole.weights, rtol=0, atol=0)


def test_a_batch_that_ends_no_step_is_not_taken_in_where_a_run_goes_on() -> None:
    module = TranslationModule(ModelConfig(), Recipe(), SearchConfig())
    module.network = Transformer(ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8))
    ema, trainer = ExponentialMovingAverage(0.5), cast(Any, SimpleNamespace(global_step=8))
    ema.on_train_start(trainer, module)
    for step, taken in ((8, 0), (9, 1), (9, 1), (10, 2)):
        trainer.global_step = step
        ema.on_train_batch_end(trainer, module, None, [], 0)
        assert ema.steps == taken


def test_it_takes_in_every_optimizer_step_once_and_no_batch_between(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Tensor]] = []

    def record(name: str) -> None:
        original = getattr(ExponentialMovingAverage, name)

        def recording(self: ExponentialMovingAverage, network: nn.Module) -> None:
            seen.append({n: p.detach().clone() for n, p in network.named_parameters()})
            original(self, network)

        monkeypatch.setattr(ExponentialMovingAverage, name, recording)

    record("start")
    record("update")
    accumulated = settings(training__ema=0.5, trainer__accumulate_grad_batches=3)
    assert run("fit", *accumulated) == 0
    newest = torch.load(corpus / "run/checkpoints/step=8.ckpt", weights_only=True)
    state = newest["callbacks"]["ExponentialMovingAverage"]
    assert state["steps"] == 8
    assert len(seen) == 9
    for name, average in state["weights"].items():
        expected = closed_form(seen[0][name], [each[name] for each in seen[1:]], 0.5)
        torch.testing.assert_close(average.double(), expected, rtol=1e-5, atol=1e-6)
