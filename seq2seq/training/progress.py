"""How far a run is: a bar on a terminal, lines in a file."""

import time
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from seq2seq.training.module import TranslationModule


def _known(trainer: pl.Trainer, module: pl.LightningModule) -> dict[str, Tensor]:
    """The numbers of the last step, logged or not, and all others as they were logged last."""
    assert isinstance(module, TranslationModule)
    return {**trainer.callback_metrics, **module.step_numbers}


class ProgressBar(TQDMProgressBar):
    """Lightning's bar, for terminals.

    It fetches numbers only when it is drawn. Lightning would convert what is logged with
    `prog_bar=True` to a number in every step, and wait for the device each time.
    """

    SHOWN = ("loss", "grad_norm", "lr", "tokens_per_second", "val_ppl", "val_bleu")

    def __init__(self) -> None:
        super().__init__(refresh_rate=25)

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        known = _known(trainer, pl_module)
        return {name: float(known[name]) for name in self.SHOWN if name in known}


class ProgressLines(pl.callbacks.ProgressBar):
    """Where a bar would fill a log file: a line a minute, while a run trains."""

    SHOWN = ("loss", "grad_norm", "lr", "tokens_per_second")
    SECONDS = 60

    def disable(self) -> None:
        """Lightning asks it of all processes but the first, which alone writes anyway."""

    def enable(self) -> None:
        """See `disable`."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self._due = time.monotonic() + self.SECONDS

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self.SECONDS
        known, end = _known(trainer, module), trainer.max_steps
        numbers = [f"{name} {_brief(float(known[name]))}" for name in self.SHOWN if name in known]
        where = f"{trainer.global_step} of {end}" if end > 0 else f"{trainer.global_step}"
        rank_zero_info(f"step {where}: {', '.join(numbers)}")


def _brief(value: float) -> str:
    """Four digits, and all those before the point."""
    return f"{value:,.0f}" if 1e3 <= value < 1e12 else f"{value:.4g}"
