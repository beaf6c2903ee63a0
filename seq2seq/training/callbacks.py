"""What happens beside the training steps: the model folder, the progress bar."""

import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback, TQDMProgressBar
from pytorch_lightning.utilities import rank_zero_info, rank_zero_only

from seq2seq.model_folder import save_model
from seq2seq.training.module import TranslationModule


class BestModelFolder(Callback):
    """Writes the model folder whenever validation BLEU is the best so far.

    So the best model is always there, also when the run is killed. A run that is interrupted before
    its first validation leaves the model as it is then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best: float | None = None

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        bleu = float(trainer.callback_metrics["val_bleu"])
        if self.best is None or bleu > self.best:
            self.best = bleu
            self._save(module)

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(exception, KeyboardInterrupt) and trainer.state.fn == "fit":
            if self.best is None and trainer.global_step > 0:
                self._save(module)
            rank_zero_info(f"interrupted after {trainer.global_step} steps; model: {self.folder}")

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.best is None:
            self._save(module)
        best = "not validated" if self.best is None else f"validation BLEU {self.best:.2f}"
        rank_zero_info(f"model: {self.folder} ({best})")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    @rank_zero_only
    def _save(self, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        save_model(module.saved_model(), self.folder)


class ProgressBar(TQDMProgressBar):
    """Lightning's bar, without its version number, and quiet in log files."""

    def __init__(self) -> None:
        super().__init__(refresh_rate=10 if sys.stderr.isatty() else 200)

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return metrics
