"""Several models that decide together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.decoding.search import Stepper


def mean_of_probabilities(log_probs: Tensor) -> Tensor:
    """Of M models: (M, ...) -> (...), logarithms both."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))


class Ensemble:
    """A `Stepper` whose probabilities are the mean of other steppers' probabilities.

    All know the same sentences and the same vocabulary.
    """

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self.steppers = steppers

    def start(self, width: int) -> None:
        for stepper in self.steppers:
            stepper.start(width)

    def step(self, tokens: Tensor) -> Tensor:
        told = torch.stack([stepper.step(tokens) for stepper in self.steppers])  # (M, B * W, V)
        return mean_of_probabilities(told)

    def select(self, sentences: Sequence[int], beams: Tensor) -> None:
        for stepper in self.steppers:
            stepper.select(sentences, beams)
