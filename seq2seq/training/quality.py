"""How good a model is by its validation: what keeps, chooses or waits for models asks here which of
two is better."""

import math
from typing import NamedTuple

import pytorch_lightning as pl
from torchmetrics import MeanMetric


class Quality(NamedTuple):
    """What a validation measures."""

    bleu: float
    perplexity: float

    @property
    def rank(self) -> float:
        """The better model has the higher one: by BLEU and, where that is equal, as it is 0 for
        sentences of fewer than four words, by perplexity, which counts less than any difference
        in BLEU."""
        return self.bleu + (0.0 if math.isnan(self.perplexity) else 1e-7 / self.perplexity)


def validated(trainer: pl.Trainer) -> Quality:
    """That of the last validation."""
    found = trainer.callback_metrics
    return Quality(float(found["val_bleu"]), float(found["val_ppl"]))


def mean_loss() -> MeanMetric:
    """A weighted mean that is NaN if a part is."""
    return MeanMetric(nan_strategy=math.nan)  # "disable" would do that, and drop the weights
