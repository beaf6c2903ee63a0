"""Beam search: keep the W likeliest beginnings of each sentence (Graves 2012; Freitag and
Al-Onaizan 2017 for what it does to translation)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.decoding.likeliest import likeliest
from seq2seq.decoding.progress import Progress, sent
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty


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
    are finished, as in fairseq (Ott et al. 2019), or when nothing goes on: a beginning that might
    have ended better than all of them is not waited for.
    """
    width, progress = config.beam, Progress(limits, enough=config.beam)
    stepper.start(width)
    tokens = torch.full((len(limits) * width,), start_id, device=limits.device)  # (B * W,)
    prefixes = tokens.new_empty(len(limits), width, 0)  # (B, W, t)
    scores = torch.full((len(limits), width), -torch.inf, device=limits.device)  # (B, W)
    scores[:, 0] = 0.0  # all beams begin alike: only the first may spread
    for length in range(1, progress.longest + 1):
        log_probs = stepper.step(tokens).unflatten(0, (-1, width))  # (B, W, V)
        for rule in rules:
            log_probs = rule(log_probs, prefixes, progress.alive)
        log_probs = progress.end_at_limit(log_probs, length)
        best, beams, next_tokens = likeliest(scores, log_probs, 2 * width)  # (B, 2W)
        ends = next_tokens == EOS_ID
        # At most W of the 2W end, one of each beam. Stable: the others stay in the order of `best`.
        going = ends.to(torch.int8).argsort(dim=1, stable=True)[:, :width]  # (B, W)
        scores = best.gather(1, going)

        finishing = best.masked_fill(~ends, -torch.inf)[:, :width]  # (B, W)
        penalty = length_penalty(length, config)
        kept = progress.finish(finishing, scores[:, 0].isfinite(), penalty, prefixes, beams)
        if not kept:
            break
        beams, next_tokens = beams.gather(1, going), next_tokens.gather(1, going)
        prefixes = prefixes.gather(1, beams[..., None].expand(-1, -1, length - 1))
        prefixes = torch.cat([prefixes, next_tokens[..., None]], dim=2)
        if len(kept) < len(scores):
            rows = sent(kept, limits.device)
            beams, scores, prefixes = beams[rows], scores[rows], prefixes[rows]
        stepper.select(kept, beams)
        tokens = prefixes[..., -1].flatten()
    return progress.found(config.n_best)
