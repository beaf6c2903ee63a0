"""Which of Lightning's callbacks a training takes."""

from collections.abc import Sequence
from pathlib import Path

from pytorch_lightning.callbacks import (
    BatchSizeFinder,
    Callback,
    EarlyStopping,
    GradientAccumulationScheduler,
    LearningRateFinder,
    LearningRateMonitor,
    ModelCheckpoint,
    ModelPruning,
    StochasticWeightAveraging,
    Timer,
    WeightAveraging,
)

from seq2seq.config import one_of
from seq2seq.errors import ConfigError

INSTEAD: dict[type[Callback], str] = {
    BatchSizeFinder: "data.batch_tokens",
    GradientAccumulationScheduler: "trainer.accumulate_grad_batches, the same in all epochs",
    LearningRateFinder: "short runs with several training.lr",
    ModelPruning: "a smaller model, or seq2seq export --quantize",
    StochasticWeightAveraging: "training.ema",
    Timer: "trainer.max_time",
    WeightAveraging: "training.ema",
}
"""What to use instead of callbacks that train on their own, count steps otherwise, replace weights,
or store other weights than a run validates, and of one that the trainer makes itself."""
LOGGED = (
    "loss",
    "grad_norm",
    "lr",
    "tokens_per_second",
    "padding",
    "val_bleu",
    "val_ppl",
    "val_source_gain",
)
"""What callbacks may monitor: what a run measures, by the names in its log."""


def check_callbacks(
    callbacks: Sequence[Callback], kept: Path, *, logs: bool = True, validates: bool = True
) -> None:
    """Raise ConfigError for one of Lightning's that does not do here what it promises. `kept` is
    the folder of the run's own checkpoints, and Lightning's choice for others where no logger
    `logs`; `validates` says whether there are validations."""
    for callback in callbacks:
        for kind, instead in INSTEAD.items():
            if isinstance(callback, kind):
                raise ConfigError(
                    f"trainer.callbacks: {type(callback).__name__} does not work with this "
                    f"training; use {instead}."
                )
        folder = None
        if isinstance(callback, ModelCheckpoint):
            folder = callback.dirpath or (None if logs else kept)
        if folder is not None and Path(folder).resolve() == kept.resolve():
            raise ConfigError(
                f"trainer.callbacks: {type(callback).__name__}: dirpath={folder} is for the "
                f"checkpoints that the run itself keeps and removes; choose another folder."
            )
        if isinstance(callback, EarlyStopping) and callback._check_on_train_epoch_end:
            raise ConfigError(
                "trainer.callbacks: EarlyStopping with check_on_train_epoch_end=True would end the "
                "run with steps that are not validated, nor in a checkpoint; leave it out, so that "
                "it looks at each validation."
            )
        if isinstance(callback, EarlyStopping) and not validates:
            raise ConfigError(
                "trainer.callbacks: EarlyStopping looks at each validation, but "
                "trainer.limit_val_batches=0 leaves out all validation; leave out one of the two."
            )
    others = any(
        isinstance(each, LearningRateMonitor)
        or not type(each).__module__.startswith(("pytorch_lightning.", "seq2seq."))
        for each in callbacks
    )
    if not others:  # which log what they like
        _check_monitors(callbacks)


def stop_after_validations(callbacks: Sequence[Callback]) -> None:
    """Let EarlyStopping that leaves it open look at each validation, before the checkpoint of its
    step is written: what it saw at the end of an epoch, which comes later, a run that goes on would
    not know."""
    for callback in callbacks:
        if isinstance(callback, EarlyStopping) and callback._check_on_train_epoch_end is None:
            callback._check_on_train_epoch_end = False


def _check_monitors(callbacks: Sequence[Callback]) -> None:
    """Raise ConfigError for one that waits for a number that no run logs."""
    for callback in callbacks:
        known = [*LOGGED]
        if isinstance(callback, ModelCheckpoint):
            known += ["epoch", "step"]
        elif not (isinstance(callback, EarlyStopping) and callback.strict):
            continue
        if callback.monitor is not None:
            setting = f"trainer.callbacks: {type(callback).__name__}: monitor"
            one_of(setting, callback.monitor, known)
