"""Watches a training, and says in plain words what goes wrong while there is time to stop it."""

import math
from pathlib import Path
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_info

from seq2seq.cores import Sharing
from seq2seq.data.dataset import TextBatch
from seq2seq.data.glance import glance
from seq2seq.errors import TrainingError
from seq2seq.training.checkpoints import last_checkpoints
from seq2seq.training.module import TranslationModule
from seq2seq.training.processes import gathered
from seq2seq.training.symptoms import (
    INSPECT,
    Symptom,
    calmer,
    degenerate_output,
    exploding_gradients,
    ignored_source,
    no_learning_rate,
    overlapping_validation,
    skipped_steps,
    vanishing_loss_scale,
)

LOOKED_AT = 200_000
"""Training pairs among which validation pairs are looked for: about a second."""
IN_A_ROW = 20
"""Skipped steps that end a run; the loss scale of fp16 may take 16 to find its value."""


class Health(Callback):
    """Reports each symptom once, and again when it has got worse.

    The device is asked for its gradient norms at the logging interval only, but at least every
    thousand steps. Before the second validation, and up to the end of the warm-up, what validation
    shows is a note, not a warning.
    """

    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        """Symptom -> its grade when it was last reported."""
        self.validations = 0
        self._usual: list[float] = []
        """The median norm at each look."""
        self._skipped = self._in_a_row = 0
        self._restart()

    def _restart(self) -> None:
        self._translations: dict[int, str] = {}
        self._losses = [0.0, 0.0, 0.0]

    # -- before the first step

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        tried = trainer.fast_dev_run  # type: ignore[attr-defined]  # whose few steps are no run
        steps = math.inf if tried else trainer.estimated_stepping_batches
        rate = no_learning_rate(module.recipe, steps)
        if rate is not None:
            self.told.pop(rate.name, None)  # depends on settings, which each session may change
        self._tell(trainer, rate)
        data = module.data
        validation = data.texts.get("validation")
        if validation and trainer.is_global_zero:
            found = glance(validation, data.stores, LOOKED_AT)
            self._tell(trainer, overlapping_validation(found, len(validation)))
        self._sharing = Sharing()

    # -- steps

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        assert isinstance(module, TranslationModule)
        logged = module.is_logged(batch_index)
        if logged or len(module.grad_norms) == module.grad_norms.maxlen:  # or some would be lost
            self._look_at_gradients(trainer, module)
        if logged and module.device.type == "cpu" and (words := self._sharing.words()):
            self._warn(trainer, f"{words}; a run that was stopped goes on with --ckpt_path last.")

    def _look_at_gradients(self, trainer: pl.Trainer, module: TranslationModule) -> None:
        if not module.grad_norms:
            return
        norms = torch.stack(list(module.grad_norms)).tolist()
        module.grad_norms.clear()
        finite = [norm for norm in norms if math.isfinite(norm)]
        self._skipped += len(norms) - len(finite)
        for norm in norms:
            self._in_a_row = 0 if math.isfinite(norm) else self._in_a_row + 1
        if self._in_a_row:
            self._stop_if_hopeless(trainer, module)
        recipe = module.recipe
        if (scaler := getattr(trainer.precision_plugin, "scaler", None)) is None:
            self._tell(trainer, skipped_steps(self._skipped, recipe))
        else:  # skipping is its way to find its scale
            scale = scaler.get_scale()
            self._tell(trainer, vanishing_loss_scale(scale, self._skipped, recipe))
        if finite:
            bound = trainer.gradient_clip_val
            self._tell(trainer, exploding_gradients(max(finite), self._usual, recipe, bound))
            self._usual.append(median(finite))

    def _stop_if_hopeless(
        self, trainer: pl.Trainer, module: TranslationModule, validated: float = 0.0
    ) -> None:
        """Before anything is written, or after a step that was skipped. `validated` is the loss of
        the validation before what is written."""
        lost = "not finite (NaN or infinity)"
        if not all(weights.isfinite().all() for weights in module.network.parameters()):
            why = "the weights are not finite any more"
        elif self._in_a_row >= IN_A_ROW:
            why = (
                f"the last {self._in_a_row} steps were skipped, because their loss or gradients "
                f"were {lost}"
            )
        elif self._in_a_row and not math.isfinite(validated):
            why = f"steps are skipped, and the validation loss is {lost}"
        else:
            return
        go_on = "There is no checkpoint yet. Start anew"
        if last_checkpoints(Path(trainer.default_root_dir)):
            go_on = "The checkpoints are sound. Go on with --ckpt_path last, or start anew"
        raise TrainingError(
            f"stopped at step {trainer.global_step}: {why}. {go_on}, and {calmer(module.recipe)}; "
            f"where trainer.precision is 16-mixed, use bf16-mixed or 32-true; {INSPECT}."
        )

    def on_save_checkpoint(
        self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Refuse weights that are not finite, and store what was seen up to this step."""
        assert isinstance(module, TranslationModule)
        self._look_at_gradients(trainer, module)
        self._stop_if_hopeless(trainer, module)
        checkpoint["callbacks"][self.state_key] = self.state_dict()

    # -- validation

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        self._look_at_gradients(trainer, module)
        self._stop_if_hopeless(trainer, module)
        self._restart()

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: TextBatch,
        batch_index: int,
        dataloader_index: int = 0,
    ) -> None:
        self._translations.update(zip(batch.indices, outputs["translations"], strict=True))
        if len(batch.pairs) > 1:  # one has no neighbour
            losses = torch.stack([outputs["loss"], outputs["other_loss"]]).tolist()
            parts = [*losses, outputs["tokens"]]
            self._losses = [a + b for a, b in zip(self._losses, parts, strict=True)]

    def on_validation_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        if trainer.sanity_checking:
            return
        self._stop_if_hopeless(trainer, module, float(module.validation_loss.compute()))
        self.validations += 1
        early = self.validations < 2 or trainer.global_step <= module.recipe.warmup_steps
        parts = gathered((self._losses, self._translations))
        losses = torch.tensor([part[0] for part in parts], dtype=torch.float64)
        true, other, tokens = losses.sum(0).tolist()
        if tokens:
            module.log("val_source_gain", (other - true) / tokens)
            self._tell(trainer, ignored_source(true / tokens, other / tokens, module.recipe), early)
        translations = {index: text for _, texts in parts for index, text in texts.items()}
        pairs = module.data.texts["validation"]
        references = [pairs[index].tgt for index in translations]
        self._tell(trainer, degenerate_output(list(translations.values()), references), early)

    # -- telling

    def _tell(self, trainer: pl.Trainer, symptom: Symptom | None, early: bool = False) -> None:
        if symptom is None:
            return
        name = f"early {symptom.name}" if early else symptom.name
        if symptom.grade > self.told.get(name, 0):
            self.told[name] = symptom.grade
            self._warn(trainer, symptom.says, early)

    def _warn(self, trainer: pl.Trainer, says: str, early: bool = False) -> None:
        kind, doubt = ("note", ", so early that it may mean nothing") if early else ("warning", "")
        rank_zero_info(f"{kind} at step {trainer.global_step}{doubt}: {says}")

    def state_dict(self) -> dict[str, Any]:
        return {
            "told": self.told,
            "validations": self.validations,
            "skipped": self._skipped,
            "usual": self._usual,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.told, self.validations = state_dict["told"], state_dict["validations"]
        self._skipped, self._usual = state_dict["skipped"], list(state_dict["usual"])
