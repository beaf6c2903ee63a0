"""How far the search of a batch is: which sentences go on, and what has been finished.

The host keeps count of it, so that each step waits for the device once, in `Progress.finish`.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import EOS_ID
from seq2seq.decoding.search import Hypothesis


class Progress:
    """How far one search is; its tensors have a row for each of B sentences that still go on."""

    def __init__(self, limits: Tensor, enough: int | None = None) -> None:
        """limits: how many tokens each may have, the end token counted. A sentence is done when it
        has `enough` hypotheses."""
        self.limits: list[int] = limits.tolist()
        self.enough = enough
        self.numbers = list(range(len(limits)))
        """The sentence of each row, by its place in the batch."""
        self.alive = torch.arange(len(limits), device=limits.device)
        """(B,): the same on the device."""
        self._counts = [0] * len(limits)
        self._finished: list[tuple[list[int], list[float], Tensor]] = []

    @property
    def longest(self) -> int:
        """The most tokens that any may have."""
        return max(self.limits)

    def end_at_limit(self, log_probs: Tensor, length: int) -> Tensor:
        """log_probs (B, W, V), with only the end token allowed where `length` reaches the limit.

        So a cut translation still has the score of a whole one, and no other sentence of the batch
        has a say in where it is cut.
        """
        reached = [row for row, each in enumerate(self.numbers) if self.limits[each] <= length]
        if not reached:
            return log_probs
        rows = sent(reached, log_probs.device)
        ended = torch.full_like(log_probs[rows], -torch.inf)  # (N, W, V)
        ended[..., EOS_ID] = log_probs[rows, :, EOS_ID]
        return log_probs.index_copy(0, rows, ended)

    def finish(
        self, totals: Tensor, going: Tensor, penalty: float, prefixes: Tensor, beams: Tensor
    ) -> list[int]:
        """Keep what has ended, and forget the sentences that are done.

        totals (B, C), log-probabilities of C candidates, -inf for those that have not ended; going
        (B,), whether the sentence could go on; prefixes (B, W, t), and beams (B, C or more), which
        of them each candidate continues -> for each row from now on, which row it was before
        """
        told = torch.cat([totals, going[:, None]], dim=1).tolist()  # here it waits
        ended = [
            (row, candidate)
            for row, (*each, _) in enumerate(told)
            for candidate, total in enumerate(each)
            if math.isfinite(total)
        ]
        if ended:
            rows, candidates = sent(ended, prefixes.device).unbind(dim=1)  # (n,)
            numbers = [self.numbers[row] for row, _ in ended]
            scores = [told[row][candidate] / penalty for row, candidate in ended]
            said = prefixes[rows, beams[rows, candidates]]  # (n, t), read at the very end
            self._finished.append((numbers, scores, said))
            for number in numbers:
                self._counts[number] += 1
        kept = moved_up([self._goes_on(row, each[-1]) for row, each in enumerate(told)])
        if len(kept) < len(told):
            self.numbers = [self.numbers[row] for row in kept]
            self.alive = sent(self.numbers, self.alive.device)
        return kept

    def _goes_on(self, row: int, going: float) -> bool:
        done = self.enough is not None and self._counts[self.numbers[row]] >= self.enough
        return bool(going) and not done

    def found(self, n_best: int) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first."""
        found: list[list[Hypothesis]] = [[] for _ in self.limits]
        for numbers, scores, said in self._finished:
            for number, score, tokens in zip(numbers, scores, said.tolist(), strict=True):
                found[number].append(Hypothesis(tokens, score))
        return [sorted(each, key=lambda h: h.score, reverse=True)[:n_best] for each in found]


def moved_up(still: Sequence[bool]) -> list[int]:
    """Which rows are still open -> the N open rows, so ordered that few change their place.

    The first N stay where they are; where one of them is closed, one from behind moves up.
    """
    count = sum(still)
    others = (row for row in range(count, len(still)) if still[row])
    return [row if still[row] else next(others) for row in range(count)]


def sent(numbers: Sequence[Any], device: torch.device) -> Tensor:
    """Whole numbers on a device, which is not waited for."""
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)
