"""How a signal ends a fit."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from seq2seq.training.checkpoints import LAST

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
SAME_REQUEST = 1.0
"""Seconds in which a request may come twice: a batch system or `timeout` sends it to all processes
of a job, and those that have started others pass it on."""


class CleanStop(Callback):
    """Ctrl-C, SIGTERM and SIGUSR1, which Slurm may be told to send, let the step end, write a
    checkpoint and stop. A second signal, more than `SAME_REQUEST` later, stops at once, and so does
    the first one while candidates are scored: the next session scores them again.

    The status is 128 plus the signal's number, as in a shell. Of several processes it is enough
    that one gets the signal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = 0
        """The signal that came, if one did."""
        self._asked_at = 0.0
        self._may_stop = False
        """Whether a stop may come before the next step: the last one has a checkpoint."""
        self._next_question = 0
        """The step from which on the other processes are asked again."""
        self._handlers: dict[int, Any] = {}
        self._process = 0
        """The one that trains."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        # Lightning asks the processes before every batch, and waits for the device to answer.
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
        if threading.current_thread() is not threading.main_thread():
            return  # where Python allows no handlers
        self._process = os.getpid()
        for number in SIGNALS:
            self._handlers[number] = signal.signal(number, self._on_signal)
        if trainer.received_sigterm:  # before there was a step to end
            trainer._signal_connector.received_sigterm = False  # or this process stops on its own
            self._on_signal(signal.SIGTERM, None)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_index: int,
    ) -> None:
        if (batch_index + 1) % trainer.accumulate_grad_batches:
            return
        loop = trainer.fit_loop
        self._may_stop = loop.epoch_loop._should_check_val_fx(loop._data_fetcher)  # type: ignore[arg-type]
        if self._may_stop:
            return  # a checkpoint between a step and its validation would lose the validation
        if trainer.world_size > 1 and trainer.global_step < self._next_question:
            return  # asking the other processes costs time
        self._next_question = trainer.global_step + trainer.log_every_n_steps  # type: ignore[attr-defined]
        if self._was_asked(trainer):
            name = LAST.format(step=trainer.global_step)
            trainer.save_checkpoint(self.folder / f"{name}.ckpt", weights_only=False)
            self._may_stop = True  # its numbers are logged first

    def on_train_batch_start(
        self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, batch_index: int
    ) -> None:
        if self._may_stop:
            self._may_stop = False
            if self._was_asked(trainer):
                self._stop(trainer)

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """A stop need not wait for the choice of a model: the next session can choose."""
        if self._was_asked(trainer):
            self._stop(trainer)
        self._restore()

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """From now on a signal ends the choice at once, as Ctrl-C does, with the usual message."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS[1:]:
                self._handlers[number] = signal.signal(number, self._exit)

    def teardown(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        self._restore()

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._restore()

    def _was_asked(self, trainer: pl.Trainer) -> bool:
        """Whether any of the processes was asked to stop."""
        return trainer.strategy.reduce_boolean_decision(bool(self.asked), all=False)

    def _stop(self, trainer: pl.Trainer) -> NoReturn:
        raise SystemExit(128 + (self.asked or signal.SIGTERM) if trainer.is_global_zero else 0)

    def _exit(self, number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    def _on_signal(self, number: int, frame: object) -> None:
        """Ask for a stop; a second one, more than a moment later, is a KeyboardInterrupt."""
        if os.getpid() != self._process:
            return  # a worker that makes batches: the training ends it
        now = time.monotonic()
        if self.asked:
            if now - self._asked_at > SAME_REQUEST:
                raise KeyboardInterrupt
            return
        self.asked, self._asked_at = number, now
        os.write(2, b"\nstopping after this step or its validation; a second signal stops it now\n")

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
