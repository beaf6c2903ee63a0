"""Steps, where Lightning counts batches and epochs."""

import pytorch_lightning as pl


def end_of(trainer: pl.Trainer) -> int:
    """The last step of a run, -1 where it has none, told to Lightning. Asked before a checkpoint is
    read, too."""
    loop, most = trainer.fit_loop, trainer.max_steps
    if loop.max_epochs not in (None, -1, 0):
        # Counted as steps: of a run that stops in the last step of an epoch, and goes on, Lightning
        # counts that epoch once more. It would also open its loader to count, before it has read
        # where the run goes on.
        loader = trainer.datamodule.train_dataloader()  # type: ignore[attr-defined]
        steps = loop.max_epochs * loader.sampler.end // trainer.accumulate_grad_batches
        loop.epoch_loop.max_steps = steps if most == -1 else min(steps, most)
        loop.max_epochs = -1
    return trainer.max_steps


def validate_after_whole_steps(trainer: pl.Trainer) -> None:
    """A share of an epoch is rounded up to whole steps: a checkpoint within one would lose it."""
    if isinstance(due := trainer.val_check_batch, int):
        trainer.val_check_batch = due + -due % trainer.accumulate_grad_batches


def count_batch(trainer: pl.Trainer, batch_index: int) -> None:
    """Have Lightning count as many steps and batches as there were, before another one."""
    loop, accumulated = trainer.fit_loop.epoch_loop, trainer.accumulate_grad_batches
    # What loggers call the step. Lightning counts it apart from the steps, and one short where a
    # run goes on from a checkpoint after which no validation is due.
    loop._batches_that_stepped = trainer.global_step
    # By the number of batches it tells when a validation is due; the steps of an earlier session
    # may have had more or fewer.
    total, place = loop.batch_progress.total, batch_index % accumulated + 1
    total.increment_by(trainer.global_step * accumulated + place - total.ready)
