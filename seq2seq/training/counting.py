"""Steps, where Lightning counts batches and epochs."""

from collections.abc import Mapping
from typing import Any, cast

import pytorch_lightning as pl

from seq2seq.data.batch import round_up
from seq2seq.data.loader import ResumableLoader


def end_of(trainer: pl.Trainer, checkpoint: Mapping[str, Any] | None = None) -> int:
    """The last step of a run, -1 where it has none; Lightning's limits are set to it. The first
    call gets the checkpoint that the run goes on from, if there is one."""
    loop, most = trainer.fit_loop, trainer.max_steps
    if loop.max_epochs not in (None, -1, 0):
        # Converted to steps: if a run stops in the last step of an epoch, and goes on, Lightning
        # counts that epoch twice. It would also open its loader to count batches before it has read
        # where the run goes on.
        loader, done = trainer.datamodule.train_dataloader(), 0  # type: ignore[attr-defined]
        if checkpoint is not None:
            (place,) = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"]
            loader.load_state_dict(place)
            done = checkpoint["global_step"]
        batches = (loop.max_epochs - loader.epoch) * loader.sampler.end - loader.seen
        steps = done + max(0, batches) // trainer.accumulate_grad_batches
        loop.epoch_loop.max_steps = steps if most == -1 else min(steps, most)
        loop.max_epochs = -1
    return trainer.max_steps


def find_place(trainer: pl.Trainer) -> None:
    """Tell Lightning where a run goes on in an epoch, whose batches may be others now."""
    fit, loader = trainer.fit_loop, cast(ResumableLoader, trainer.train_dataloader)
    loop, progress = fit.epoch_loop, fit.epoch_loop.batch_progress
    if progress.is_last_batch:
        # Else Lightning stays in the epoch that has ended, and counts too few epochs from then on.
        ended = dict.fromkeys(("ready", "started", "processed", "completed"), loader.epoch)
        fit.epoch_progress.load_state_dict({"total": ended, "current": ended})
        fit.reset_restart_stage()
        loop.restarting = False
    else:
        progress.current.increment_by(loader.seen - progress.current.ready)


def validate_after_whole_steps(trainer: pl.Trainer) -> None:
    """A share of an epoch is rounded up to whole steps: a checkpoint within one would lose it."""
    if isinstance(due := trainer.val_check_batch, int):
        trainer.val_check_batch = round_up(due, trainer.accumulate_grad_batches)


def count_batch(trainer: pl.Trainer, batch_index: int) -> None:
    """Before a batch, set Lightning's counts of steps and batches to what has been done."""
    loop, accumulated = trainer.fit_loop.epoch_loop, trainer.accumulate_grad_batches
    # What loggers call the step. Lightning counts it apart from the steps, and one short where a
    # run goes on from a checkpoint after which no validation is due.
    loop._batches_that_stepped = trainer.global_step
    # Lightning sees from the number of batches when a validation is due; steps of an earlier
    # session may have had more or fewer batches.
    total, place = loop.batch_progress.total, batch_index % accumulated + 1
    total.increment_by(trainer.global_step * accumulated + place - total.ready)
