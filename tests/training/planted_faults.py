"""What can go wrong in a training, as callbacks for `trainer.callbacks`."""

import math
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from seq2seq.training.module import TranslationModule


class WildGradients(pl.Callback):
    """One process's gradients times a factor, before the processes share them, from a step until
    before another; steps are counted from 0."""

    def __init__(
        self, since: int, until: int = 10**9, factor: float = math.inf, rank: int = 0
    ) -> None:
        self.since, self.until, self.factor, self.rank = since, until, factor, rank

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        def spoil(gradient: Tensor) -> Tensor:
            now = self.since <= trainer.global_step < self.until
            return gradient * self.factor if now and trainer.global_rank == self.rank else gradient

        for weights in module.parameters():
            weights.register_hook(spoil)


class BrokenWeights(pl.Callback):
    """One weight is no longer a number after `step` steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        if trainer.global_step == self.step:
            with torch.no_grad():
                self.spoil(module)

    def spoil(self, module: pl.LightningModule) -> None:
        next(module.parameters()).view(-1)[-1] = torch.nan


class HugeWeights(BrokenWeights):
    """All are finite after `step` steps, but no loss is."""

    def spoil(self, module: pl.LightningModule) -> None:
        for weights in module.parameters():
            weights.fill_(1e30)


class Parrot(pl.Callback):
    """The decoder does not look at its source, and always says one token."""

    def on_fit_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        network = module.network
        with torch.no_grad():
            for layer in network.decoder:
                for weights in layer.cross_attention.output.parameters():  # type: ignore[union-attr]
                    weights.zero_()
            network.output.bias[-1] = 99


class Snapshots(pl.Callback):
    """Copies of the weights and of the optimizer's state after each step."""

    taken: list[tuple[dict[str, Tensor], dict[int, dict[str, Tensor]]]]

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        Snapshots.taken = []

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        weights = {name: value.clone() for name, value in module.state_dict().items()}
        Snapshots.taken.append((weights, _copied(trainer.optimizers[0].state_dict()["state"])))


def _copied(state: dict[int, dict[str, Tensor]]) -> dict[int, dict[str, Tensor]]:
    return {
        index: {name: value.clone() for name, value in each.items()}
        for index, each in state.items()
    }
