"""Greedy search: always the likeliest next token. Beam search of width 1 gives the same."""

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


def greedy_search(
    stepper: Stepper,
    limits: Tensor,
    start_id: int,
    config: SearchConfig,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """A `Search`, see search.py; one hypothesis a sentence."""
    best: list[list[Hypothesis]] = [[] for _ in limits]
    stepper.start(1)
    alive = torch.arange(len(limits), device=limits.device)  # (B,), numbers of open sentences
    tokens = torch.full_like(alive, start_id)  # (B,)
    prefixes = tokens.new_empty(len(alive), 0)  # (B, t)
    scores = torch.zeros(len(alive), device=limits.device)  # (B,)
    for length in range(1, int(limits.max()) + 1):
        log_probs = stepper.step(tokens)[:, None]  # (B, 1, V)
        for rule in rules:
            log_probs = rule(log_probs, prefixes[:, None], alive)
        log_probs = end_at_limit(log_probs, limits, length)[:, 0]  # (B, V)
        gained, tokens = log_probs.max(dim=-1)
        scores = scores + gained
        ended = (tokens == EOS_ID).nonzero().flatten()
        if len(ended):
            penalty = length_penalty(length, config)
            for sentence, prefix, score in zip(
                alive[ended].tolist(), prefixes[ended].tolist(), scores[ended].tolist(), strict=True
            ):
                best[sentence] = [Hypothesis(prefix, score / penalty)]
            still = moved_up(tokens != EOS_ID)
            if not len(still):
                break
            alive, tokens, prefixes = alive[still], tokens[still], prefixes[still]
            scores, limits = scores[still], limits[still]
            stepper.select(still, torch.zeros_like(still)[:, None])
        prefixes = torch.cat([prefixes, tokens[:, None]], dim=1)
    return best
