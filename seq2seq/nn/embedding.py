"""Tokens and positions become vectors.

A positional encoding is a module: positions (...) and `end`, a number above all of them that is
known on the host -> (..., D). A new one is one class and one line in `POSITIONS`.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import unserializable_hook

from seq2seq.config import PAD_ID, ModelConfig


class TokenEmbedding(nn.Module):
    """A row of the table per token, times sqrt(D) if asked (Vaswani et al. 2017, section 3.4).

    forward: tokens (...) -> (..., D)
    The padding row is zero and stays zero: no gradient reaches it, not even through a tied output
    projection, so that a decoder may start from it and an export may rely on it.
    """

    def __init__(self, vocab_size: int, d_model: int, *, scale: bool) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if scale else 1.0
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))
        with torch.no_grad():
            self.weight[PAD_ID] = 0
        self.weight.register_hook(_without_padding_row)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles of a parameter lose its hooks."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        learns = self.weight.requires_grad
        self.weight.requires_grad_(True)  # else it accepts no hook; one once accepted stays
        self.weight.register_hook(_without_padding_row)
        self.weight.requires_grad_(learns)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight) * self.scale


@unserializable_hook  # type: ignore[untyped-decorator]  # see __setstate__
def _without_padding_row(gradient: Tensor) -> Tensor:
    gradient = gradient.clone()
    gradient[PAD_ID] = 0
    return gradient


class SinusoidalPositions(nn.Module):
    """sin(p / 10000^(2i/D)) and its cosine (Vaswani et al. 2017, section 3.5).

    As two halves, [sin | cos], which is the order that Marian and CTranslate2 know.
    The table is derived, not learned: it grows on demand, so no sentence is too long.
    """

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.register_buffer("table", sinusoids(256, config.d_model), persistent=False)

    def forward(self, positions: Tensor, end: int) -> Tensor:
        table = self.table  # which another thread may replace
        if end > len(table):
            self.table = table = sinusoids(2 * end, self.d_model).to(table)
        return F.embedding(positions, table)


class LearnedPositions(nn.Module):
    """A learned row per position (Gehring et al. 2017); ends at `max_positions`.

    The caller checks lengths first, see `ModelConfig.max_length`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = (config.max_positions, config.d_model)
        self.table = nn.Parameter(torch.randn(size) / math.sqrt(config.d_model))

    def forward(self, positions: Tensor, end: int) -> Tensor:
        assert end <= len(self.table), f"position {end} of a table of {len(self.table)}"
        return F.embedding(positions, self.table)


POSITIONS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
}


def sinusoids(length: int, d_model: int) -> Tensor:
    """-> (length, D) in fp32, from position 0."""
    angles = torch.arange(length)[:, None] * angular_rates(d_model)  # (length, D / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def angular_rates(d_model: int) -> Tensor:
    """-> (D / 2,): what each sinusoid turns from a position to the next, in radians."""
    return torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
