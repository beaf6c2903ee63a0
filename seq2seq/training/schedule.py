"""Learning rate schedules: fn(step, warmup, total) -> share of the peak rate after the warm-up."""

import math
from collections.abc import Callable


def inverse_sqrt(step: int, warmup: int, total: int) -> float:
    """Falls with the square root of the step (Vaswani et al. 2017, section 5.3); has no end."""
    return math.sqrt(max(warmup, 1) / step)


def linear(step: int, warmup: int, total: int) -> float:
    """Falls in a straight line to 0 at `total`."""
    return (total - step) / max(total - warmup, 1)


def cosine(step: int, warmup: int, total: int) -> float:
    """Falls along half a cosine to 0 at `total` (Loshchilov and Hutter 2017)."""
    return (1 + math.cos(math.pi * min((step - warmup) / max(total - warmup, 1), 1))) / 2


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "inverse-sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
}


def factor(schedule: str, step: int, warmup: int, total: int) -> float:
    """Share of the peak rate at `step`, counted from 1, of `total`; 1 at the end of warm-up."""
    if step <= warmup:
        return step / warmup
    return max(SCHEDULES[schedule](step, warmup, total), 0.0)
