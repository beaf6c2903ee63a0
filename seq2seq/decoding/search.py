"""What every search shares: the model's side (Stepper), the result (Hypothesis), the penalty."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig


class Hypothesis(NamedTuple):
    """A finished translation."""

    tokens: list[int]
    """Without start and end token."""
    score: float
    """log P(tokens, end | source) divided by the length penalty; the higher the better. Under a
    constraint without what is given, see constrained.py."""


class Stepper(Protocol):
    """The model's side of a search over B sentences.

    start(width): begin W rows for each sentence
    step(tokens (B * W,)) -> log-probabilities (B * W, V) of what follows each row, in fp32
    select(sentences (N,), beams (N, W)): go on with these sentences only; their beam w continues
        what was beam beams[., w]
    """

    def start(self, width: int) -> None: ...
    def step(self, tokens: Tensor) -> Tensor: ...
    def select(self, sentences: Tensor, beams: Tensor) -> None: ...


def length_penalty(length: int, config: SearchConfig) -> float:
    """What divides the log-probability of `length` tokens, the end token counted."""
    if config.length_penalty == "gnmt":
        return float(((5 + length) / 6) ** config.alpha)
    return float(length**config.alpha)


class Rule(Protocol):
    """Changes what may come next.

    log_probs (B, W, V) of B open sentences in W beams, their prefixes (B, W, t) so far without
    the start token, and sentences (B,), the rows of the batch that they are -> (B, W, V)
    """

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor: ...


def end_at_limit(log_probs: Tensor, limits: Tensor, length: int) -> Tensor:
    """Allow only the end token where `length` reaches a sentence's limit.

    log_probs (B, W, V), limits (B,): so a cut translation still has the score of a whole one, and
    no other sentence of the batch has a say in where it is cut.
    """
    reached = limits <= length
    if not reached.any():
        return log_probs
    ended = torch.full_like(log_probs, -torch.inf)
    ended[..., EOS_ID] = log_probs[..., EOS_ID]
    return torch.where(reached[:, None, None], ended, log_probs)


def moved_up(still_open: Tensor) -> Tensor:
    """still_open (B,), with N true -> their indices (N,), so that few change their place.

    The first N stay where they are; where one of them is closed, one of the others moves up.
    """
    where = still_open.nonzero().flatten()  # (N,)
    rows = torch.arange(len(where), device=where.device)
    rows[~still_open[: len(where)]] = where[where >= len(where)]
    return rows


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
