"""How a network is trained: everything that is not stored with the model."""

from dataclasses import dataclass, field
from typing import Literal

from seq2seq.config import AttentionForm, Dropout, at_least, check_kinds
from seq2seq.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings `training.*`; the defaults suit a few hundred thousand pairs."""

    optimizer: Literal["muon", "adamw", "adam"] = "adamw"
    """Adam (Kingma and Ba 2015), with decoupled weight decay (Loshchilov and Hutter 2019), or Muon
    (Jordan et al. 2024) for the matrices of the layers and AdamW for the rest."""
    lr: float = 2e-3
    """Peak learning rate, reached at the end of the warm-up."""
    schedule: Literal["inverse-sqrt", "linear", "cosine"] = "inverse-sqrt"
    """How the rate falls after the warm-up; linear and cosine reach 0 at trainer.max_steps."""
    warmup_steps: int = 1000
    """Steps in which the rate rises linearly."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Decay rates of Adam's two moments."""
    weight_decay: float = 0.01
    """Strength of the weight decay; adam ignores it."""
    label_smoothing: float = 0.1
    """Probability mass moved from the reference to all subwords."""
    r_drop: float = 0.0
    """Strength alpha of R-Drop (L. Wu et al. 2021), 1 to 5 there: each batch passes twice, and the
    two predictions are pulled towards each other. A step takes 1.6 times as long."""
    dropout: Dropout = field(default_factory=Dropout)
    """Dropout rates."""
    patience: int = 10
    """Validations without a better one before training stops early."""
    keep_last: int = 5
    """Checkpoints of the last validations that stay, for resuming and averaging."""
    keep_best: int = 5
    """Checkpoints of the best validations that stay, for averaging."""
    ema: float | None = None
    """Decay per step of a moving average of the weights, e.g. 0.999; null keeps none."""
    attention: AttentionForm = "auto"
    """Form of attention: folded (the textbook's) or fast (fused); equal but for rounding."""
    compile: bool = False
    """Compile each kind of layer with torch.compile, which takes half a minute; slower on a CPU."""

    def __post_init__(self) -> None:
        check_kinds("training", self)
        at_least("training.lr", self.lr, 0)
        at_least("training.warmup_steps", self.warmup_steps, 0)
        at_least("training.weight_decay", self.weight_decay, 0)
        at_least("training.r_drop", self.r_drop, 0)
        at_least("training.patience", self.patience, 1)
        at_least("training.keep_last", self.keep_last, 1)
        at_least("training.keep_best", self.keep_best, 1)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(
                f"training.betas={list(self.betas)} are not decay rates; use numbers of 0 up to, "
                f"not including, 1."
            )
        if self.ema is not None and not 0 < self.ema < 1:
            raise ConfigError(
                f"training.ema={self.ema} is not a decay; use a number between 0 and 1, e.g. "
                f"0.999, or null for no moving average."
            )
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(
                f"training.label_smoothing={self.label_smoothing} is not a share of probability; "
                f"use 0 up to, not including, 1."
            )
