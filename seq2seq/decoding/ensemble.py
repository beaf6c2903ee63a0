"""Several models that decide together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.decoding.search import Stepper


class Ensemble:
    """A `Stepper` whose probabilities are the mean of other steppers' probabilities.

    All know the same sentences and the same vocabulary.
    """

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self.steppers = steppers

    def start(self, width: int, capacity: int) -> None:
        for stepper in self.steppers:
            stepper.start(width, capacity)

    def step(self, tokens: Tensor) -> Tensor:
        told = torch.stack([stepper.step(tokens) for stepper in self.steppers])  # (M, B * W, V)
        return told.logsumexp(dim=0) - math.log(len(told))

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        for stepper in self.steppers:
            stepper.select(sentences, beams)
