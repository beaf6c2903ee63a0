"""A few validation sentences and how they are translated now: progress to read, not to plot."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_info

from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import TextBatch
from seq2seq.text.normalize import clean, shortened
from seq2seq.training.module import TranslationModule
from seq2seq.training.processes import gathered

SAMPLES = 3


def chosen(pairs: list[Pair]) -> list[int]:
    """Indices of samples, evenly over the pairs with a source: the same all through a run."""
    full = [index for index, pair in enumerate(pairs) if clean(pair.src)]
    number = min(SAMPLES, len(full))
    return [full[(2 * place + 1) * len(full) // (2 * number)] for place in range(number)]


class Samples(Callback):
    """After each validation: to the terminal, to TensorBoard's texts, and appended to `path`; in a
    `fast_dev_run` to the terminal alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._wanted: list[int] = []
        self._found: dict[int, str] = {}

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        self._wanted = chosen(module.data.texts["validation"])
        self._found = {}

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: TextBatch,
        batch_index: int,
        dataloader_index: int = 0,
    ) -> None:
        translated = zip(batch.indices, outputs["translations"], strict=True)
        self._found.update((index, text) for index, text in translated if index in self._wanted)

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        found = {index: text for part in gathered(self._found) for index, text in part.items()}
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        pairs, step = module.data.texts["validation"], trainer.global_step
        rows = [
            (name, text)
            for index in self._wanted
            if index in found
            for name, text in (
                ("source", pairs[index].src),
                ("translation", found[index]),
                ("reference", pairs[index].tgt),
            )
        ]
        if not rows:
            return  # trainer.limit_val_batches left them out
        rank_zero_info("\n".join(f"  {name:12} {shortened(text)}" for name, text in rows))
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        whole = "".join(f"  {name:12} {clean(text)}\n" for name, text in rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"step {step}, BLEU {trainer.callback_metrics['val_bleu']:.2f}\n{whole}")
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_text("samples", f"```text\n{whole}```", step)
