"""An exponential moving average of the weights, kept beside the training."""

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from seq2seq.training.module import TranslationModule


class ExponentialMovingAverage(Callback):
    """average = d * average + (1 - d) * weights after every optimizer step, in fp32.

    The averaging is Polyak and Juditsky's (1992), with shares that decay. At the t-th step d is
    min(decay, (1 + t) / (10 + t)), as in TensorFlow's ExponentialMovingAverage, so that a short run
    is not held at its initial weights. Training and validation know nothing of it; it is a part of
    every checkpoint.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.weights: dict[str, Tensor] = {}
        """The average, by name of the network's parameters; on its device while it trains."""
        self._last_step = 0

    def update(self, network: nn.Module) -> None:
        """Take in the weights after one more step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        current = [parameter.float() for parameter in network.parameters()]
        get_ema_multi_avg_fn(decay)(list(self.weights.values()), current, self.steps)

    def copy_to(self, network: nn.Module) -> None:
        """Set the network's weights to the average."""
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.copy_(self.weights[name])

    def start(self, network: nn.Module) -> None:
        """Begin at the network's weights, or go on from what a checkpoint held."""
        self.weights = {
            name: self.weights.get(name, weight.detach()).to(
                weight.device, torch.float32, copy=True
            )
            for name, weight in network.named_parameters()
        }

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        self.start(module.network)
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        assert isinstance(module, TranslationModule)
        # Where gradients add up, not every batch is a step.
        if trainer.global_step > self._last_step:
            self.update(module.network)
            self._last_step = trainer.global_step

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps, self.weights = state_dict["steps"], state_dict["weights"]
