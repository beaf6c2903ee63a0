"""Beam search: keep the W likeliest beginnings of each sentence (Graves 2012; Freitag and
Al-Onaizan 2017 for what it does to translation)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.decoding.search import (
    Hypothesis,
    Rule,
    Stepper,
    end_at_limit,
    length_penalty,
    moved_up,
)


def beam_search(
    stepper: Stepper,
    limits: Tensor,
    start_id: int,
    config: SearchConfig,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """A `Search`, see search.py.

    At each step the best 2W continuations of a sentence are looked at: among its W best, those
    that end are finished; the W best that do not end go on. A sentence is done when W hypotheses
    are finished, or when nothing goes on.
    """
    width = config.beam
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    stepper.start(width)
    alive = torch.arange(len(limits), device=limits.device)  # (B,), numbers of open sentences
    numbers = alive.tolist()  # the same on the host
    tokens = torch.full((len(alive) * width,), start_id, device=limits.device)  # (B * W,)
    prefixes = tokens.new_empty(len(alive), width, 0)  # (B, W, t)
    scores = torch.full((len(alive), width), -torch.inf, device=limits.device)  # (B, W)
    scores[:, 0] = 0.0  # all beams begin alike: only the first may spread
    for length in range(1, int(limits.max()) + 1):
        log_probs = stepper.step(tokens).unflatten(0, (-1, width))  # (B, W, V)
        for rule in rules:
            log_probs = rule(log_probs, prefixes, alive)
        totals = scores[:, :, None] + end_at_limit(log_probs, limits, length)
        vocab_size = totals.shape[-1]
        looked_at = min(2 * width, width * vocab_size)
        best, where = totals.flatten(1).topk(looked_at)  # (B, 2W)
        beams, next_tokens = where // vocab_size, where % vocab_size  # (B, 2W)
        ends = next_tokens == EOS_ID

        finishing = (ends & best.isfinite())[:, :width].nonzero()  # (n, 2)
        penalty = length_penalty(length, config)
        rows, ranks = finishing.unbind(dim=1)  # (n,)
        told = rows, prefixes[rows, beams[rows, ranks]], best[rows, ranks]
        for row, prefix, total in zip(*(each.tolist() for each in told), strict=True):
            finished[numbers[row]].append(Hypothesis(prefix, total / penalty))

        # Stable: among the continuations that do not end, the order of `best` stays.
        going = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :width]  # (B, W)
        scores = best.masked_fill(ends, -torch.inf).gather(1, going)  # (B, W)
        beams, next_tokens = beams.gather(1, going), next_tokens.gather(1, going)
        enough = torch.tensor([len(finished[number]) >= width for number in numbers])
        open_rows = moved_up(~enough.to(limits.device) & scores[:, 0].isfinite())
        if not len(open_rows):
            break
        stepper.select(open_rows, beams[open_rows])
        prefixes = prefixes.gather(1, beams[..., None].expand(-1, -1, length - 1))
        prefixes = torch.cat([prefixes, next_tokens[..., None]], dim=2)[open_rows]
        alive, scores, limits = alive[open_rows], scores[open_rows], limits[open_rows]
        numbers = alive.tolist()
        tokens = next_tokens[open_rows].flatten()
    return [
        sorted(hypotheses, key=lambda h: h.score, reverse=True)[: config.n_best]
        for hypotheses in finished
    ]
