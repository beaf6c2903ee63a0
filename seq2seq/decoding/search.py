"""What every search shares: the model's side (Stepper), the result (Hypothesis), the penalty."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from seq2seq.config import SearchConfig


class Hypothesis(NamedTuple):
    """A finished translation."""

    tokens: list[int]
    """Without start and end token."""
    score: float
    """log P(tokens, end | source) divided by the length penalty; the higher the better. Repetition
    and coverage penalties are in it, and what a model of the other direction adds; under a
    constraint, tokens that are given do not count, see constrained.py."""


class Stepper(Protocol):
    """The model's side of a search over B sentences.

    start(width): begin W rows for each sentence; called again, search the same sentences anew
    step(tokens (B * W,)) -> log-probabilities (B * W, V) of what follows each row, in fp32
    select(N sentences, beams (N, W)): go on with these sentences only; their beam w continues
        what was beam beams[., w]
    """

    def start(self, width: int) -> None: ...
    def step(self, tokens: Tensor) -> Tensor: ...
    def select(self, sentences: Sequence[int], beams: Tensor) -> None: ...


def length_penalty(length: int, config: SearchConfig) -> float:
    """What divides the log-probability of `length` tokens, the end token counted: gnmt is that of
    Wu et al. 2016, eq. 14."""
    if config.length_penalty == "gnmt":
        return float(((5 + length) / 6) ** config.alpha)
    return float(length**config.alpha)


class Rule(Protocol):
    """Changes what may come next.

    log_probs (B, W, V) of B open sentences in W beams, their prefixes (B, W, t) so far without
    the start token, and sentences (B,), the rows of the batch that they are -> (B, W, V)
    """

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor: ...


class Search(Protocol):
    """Finds for each sentence its n best, best first.

    `limits` (B,) bounds each sentence's tokens, the end token counted; rules come before limits.
    """

    def __call__(
        self,
        stepper: Stepper,
        limits: Tensor,
        start_id: int,
        config: SearchConfig,
        rules: Sequence[Rule] = (),
    ) -> list[list[Hypothesis]]: ...
