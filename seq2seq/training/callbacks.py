"""What happens beside the training steps: the model folder, and how a run begins and ends."""

import fcntl
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, Timer
from pytorch_lightning.utilities import rank_zero_info, rank_zero_only

from seq2seq.errors import ConfigError
from seq2seq.model_facts import save_provenance
from seq2seq.model_folder import CONFIG, SavedModel, holds, save_model
from seq2seq.provenance import PROVENANCE, read_provenance, with_tests
from seq2seq.training.checkpoints import is_in
from seq2seq.training.compatibility import check_yardstick, yardstick
from seq2seq.training.module import TranslationModule
from seq2seq.training.quality import Quality, validated
from seq2seq.training.record import Record


class Alone(Callback):
    """Refuses a second fit in a run folder while one is at work there: each would take the other's
    checkpoints for its own.

    The lock is one of the process (POSIX), so that workers which outlive it by moments, when it is
    killed, do not keep a resumed run out.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._file: TextIO | None = None

    def on_fit_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        taken = trainer.is_global_zero and not self._lock()
        if trainer.strategy.broadcast(taken):  # all processes end
            raise ConfigError(
                f"run={self.run} is being trained by another process; wait for it, or choose "
                f"another --run."
            )

    def _lock(self) -> bool:
        """Whether the folder is ours from now on."""
        self.run.mkdir(parents=True, exist_ok=True)
        self._file = (self.run / ".lock").open("w")  # locked until it is closed
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            pass
        return True

    def teardown(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        self._leave()

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._file is not None:
            self._file.close()


class BestModelFolder(Callback):
    """Writes the model folder whenever a validation is the best so far, and better than that of the
    model that an earlier session chose at its end.

    So the best model is always there, except while it is being written, even if the run is killed.
    A run that is interrupted before its first validation leaves the model as it is then.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.record = folder, record
        self.best: Quality | None = None
        """Of all validations."""
        self.chosen = -math.inf
        """The rank of the model that an earlier session chose at its end, perhaps a mean."""

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.sanity_checking:
            return
        found = validated(trainer)
        if self.best is None or found.rank > self.best.rank:
            self.best = found
            if found.rank > self.chosen:
                self._save(trainer, module)

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        if isinstance(exception, KeyboardInterrupt | SystemExit):
            if self.best is None and trainer.global_step > 0:
                self._save(trainer, module)
            there = f"; model: {self.folder}" if (self.folder / CONFIG).is_file() else ""
            doubt = " (not validated)" if there and self.best is None else ""
            rank_zero_info(f"interrupted after {trainer.global_step} steps{there}{doubt}")

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.best is None:
            self._save(trainer, module)
            rank_zero_info(f"model: {self.folder} (not validated)")

    def on_load_checkpoint(
        self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        assert isinstance(module, TranslationModule)
        state = checkpoint["callbacks"].get(self.state_key, {})
        if state.get("best") is not None:
            now = yardstick(trainer, module.data, module.search)
            check_yardstick(now, checkpoint, str(trainer.ckpt_path))

    def state_dict(self) -> dict[str, Any]:
        bleu, perplexity = self.best or (None, None)
        return {"best": bleu, "perplexity": perplexity}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        bleu = state_dict["best"]
        self.best = None if bleu is None else Quality(bleu, state_dict["perplexity"])

    def _save(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        kind = "last step" if self.best is None else "best checkpoint"
        model, bleu = module.saved_model(), None if self.best is None else self.best.bleu
        self.save(trainer, module, model, kind, [trainer.global_step], bleu)

    @rank_zero_only
    def save(
        self,
        trainer: pl.Trainer,
        module: TranslationModule,
        model: SavedModel,
        kind: str,
        steps: list[int],
        bleu: float | None,
    ) -> None:
        """Put a model into the folder, with what is known of it; not in a `fast_dev_run`.

        If the folder holds this very model already, its test scores are kept, and so is a card that
        was edited.
        """
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        known = self.record.provenance(trainer, module, kind, steps, bleu)
        if holds(self.folder, model):
            known = with_tests(known, read_provenance(self.folder / PROVENANCE))
            save_provenance(self.folder, known)
        else:
            save_model(replace(model, provenance=known), self.folder)


class LastValidation(Callback):
    """The last step of a run is validated too, whatever the interval: nothing learned is lost. No
    step is the last one before `trainer.min_steps` and `min_epochs`."""

    def setup(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        # Timers come first: they decide whether a step is the last one.
        trainer.callbacks = sorted(trainer.callbacks, key=lambda each: not isinstance(each, Timer))  # type: ignore[attr-defined]

    def on_train_batch_start(
        self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, batch_index: int
    ) -> None:
        trainer.should_stop = False  # whoever asked this early asks again if there is still reason

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        if trainer.should_stop:
            for timer in _timers(trainer):
                timer._verbose = False  # it has said so
        if (batch_index + 1) % trainer.accumulate_grad_batches:
            trainer.should_stop = False  # a step ends with its last batch
        if trainer.global_step == trainer.max_steps:
            trainer.should_stop = True  # Lightning validates before it stops
            loop = trainer.fit_loop
            loop.min_epochs = loop.epoch_loop.min_steps = None  # which would put the stop off
        if not trainer.fit_loop._can_stop_early:
            trainer.should_stop = False
        if trainer.should_stop:
            trainer.check_val_every_n_epoch = None  # which would leave some epochs out


class Patience(EarlyStopping):
    """Stops after `count` validations without a better one, also where an earlier session, with
    another patience, has seen some or all of them."""

    def __init__(self, count: int) -> None:
        super().__init__("val_bleu", mode="max", patience=count, check_on_train_epoch_end=False)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "patience": self.patience})

    def _run_early_stopping_check(self, trainer: pl.Trainer) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        rank = torch.tensor(validated(trainer).rank, dtype=torch.float64)
        stops, _ = self._evaluate_stopping_criteria(rank)
        stops = trainer.strategy.reduce_boolean_decision(stops, all=False)
        trainer.should_stop = trainer.should_stop or stops

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.wait_count >= self.patience:
            rank_zero_info(
                f"stopped at step {trainer.global_step}: no better validation in "
                f"{self.wait_count} in a row (training.patience={self.patience})"
            )


class Branch(Callback):
    """A run that begins at a checkpoint of another run chooses its model, warns and stops early
    anew, and has all of `trainer.max_time`: the best models, warnings and time of the other run do
    not count.
    """

    def __init__(self, checkpoints: Path, own: Sequence[Callback]) -> None:
        """`checkpoints` is the run's folder of them; `own` remember what belongs to one run."""
        self.checkpoints, self.own = checkpoints, own

    def on_load_checkpoint(
        self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        states, path = checkpoint["callbacks"], trainer.ckpt_path
        assert path is not None
        if not is_in(self.checkpoints, path):
            stops = (each for each in trainer.callbacks if isinstance(each, EarlyStopping | Timer))  # type: ignore[attr-defined]
            for callback in [*self.own, *stops]:
                states.pop(callback.state_key, None)
            ends = 0 <= trainer.max_steps <= (step := checkpoint["global_step"])
            if ends and not trainer.fast_dev_run:  # type: ignore[attr-defined]
                raise ConfigError(
                    f"ckpt_path={path} is at step {step}, so nothing is left to train up to step "
                    f"{trainer.max_steps}: trainer.max_steps and max_epochs count what the other "
                    f"run has done, too; raise them."
                )


def _timers(trainer: pl.Trainer) -> list[Timer]:
    return [each for each in trainer.callbacks if isinstance(each, Timer)]  # type: ignore[attr-defined]
