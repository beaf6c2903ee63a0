"""Greedy search: always the likeliest next token. Beam search of width 1 gives the same."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.decoding.progress import Progress, sent
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty


def greedy_search(
    stepper: Stepper,
    limits: Tensor,
    start_id: int,
    config: SearchConfig,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """A `Search`, see search.py; one hypothesis a sentence."""
    progress = Progress(limits)
    stepper.start(1)
    tokens = torch.full_like(limits, start_id)  # (B,)
    prefixes = tokens.new_empty(len(limits), 1, 0)  # (B, 1, t)
    scores = torch.zeros(len(limits), device=limits.device)  # (B,)
    only = torch.zeros_like(limits)[:, None]  # (B, 1), the beam that each continues
    for length in range(1, progress.longest + 1):
        log_probs = stepper.step(tokens)[:, None]  # (B, 1, V)
        for rule in rules:
            log_probs = rule(log_probs, prefixes, progress.alive)
        gained, tokens = progress.end_at_limit(log_probs, length)[:, 0].max(dim=-1)
        scores = scores + gained
        ends = tokens == EOS_ID
        finishing = scores.masked_fill(~ends, -torch.inf)[:, None]  # (B, 1)
        penalty = length_penalty(length, config)
        kept = progress.finish(finishing, ~ends, penalty, prefixes, only)
        if not kept:
            break
        if len(kept) < len(scores):
            rows = sent(kept, limits.device)
            tokens, scores, prefixes = tokens[rows], scores[rows], prefixes[rows]
            only = only[: len(kept)]
            stepper.select(kept, only)
        prefixes = torch.cat([prefixes, tokens[:, None, None]], dim=2)
    return progress.found(1)
