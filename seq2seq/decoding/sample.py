"""Sampling: translations drawn from the model instead of searched for."""

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, Sampling, SearchConfig
from seq2seq.decoding.progress import Progress, sent
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty


class Sampler:
    """A `Search`, see search.py: draws `config.n_best` translations of each sentence.

    They are drawn independently, so the same one may come twice. Their scores are those of every
    search: temperature and truncation say what is drawn, not what it is worth. A draw follows from
    the seed, the sentence's place, the sample and the step; the batch has no say.
    """

    def __init__(self, places: Sequence[tuple[int, int]]) -> None:
        self.places = places
        """Of each sentence in the whole input, see `Request.place`."""

    def __call__(
        self,
        stepper: Stepper,
        limits: Tensor,
        start_id: int,
        config: SearchConfig,
        rules: Sequence[Rule] = (),
    ) -> list[list[Hypothesis]]:
        assert config.sampling is not None, "who samples says how"
        sampling, width = config.sampling, config.n_best
        progress = Progress(limits)
        stepper.start(width)
        streams = [
            [Random(f"{sampling.seed}/{line}/{piece}/{w}") for w in range(width)]
            for line, piece in self.places
        ]
        tokens = torch.full((len(limits) * width,), start_id, device=limits.device)  # (B * W,)
        prefixes = tokens.new_empty(len(limits), width, 0)  # (B, W, t)
        scores = torch.zeros(len(limits), width, device=limits.device)  # (B, W), -inf once ended
        same = torch.arange(width, device=limits.device).expand(len(limits), -1)  # (B, W)
        for length in range(1, progress.longest + 1):
            log_probs = stepper.step(tokens).unflatten(0, (-1, width))  # (B, W, V)
            for rule in rules:
                log_probs = rule(log_probs, prefixes, progress.alive)
            log_probs = progress.end_at_limit(log_probs, length)
            probs = truncate((log_probs / sampling.temperature).softmax(dim=-1), sampling)
            chosen = draw(probs, [streams[number] for number in progress.numbers])  # (B, W)
            totals = scores + log_probs.gather(2, chosen[..., None])[..., 0]  # (B, W)
            ends = chosen == EOS_ID
            scores = totals.masked_fill(ends, -torch.inf)
            finishing, going = totals.masked_fill(~ends, -torch.inf), scores.isfinite().any(dim=1)
            penalty = length_penalty(length, config)
            kept = progress.finish(finishing, going, penalty, prefixes, same)
            if not kept:
                break
            prefixes = torch.cat([prefixes, chosen[..., None]], dim=2)
            if len(kept) < len(scores):
                rows, same = sent(kept, limits.device), same[: len(kept)]
                scores, prefixes = scores[rows], prefixes[rows]
                stepper.select(kept, same)
            tokens = prefixes[..., -1].flatten()
        return progress.found(width)


def draw(probs: Tensor, streams: Sequence[Sequence[Random]]) -> Tensor:
    """One token for each row: probs (B, W, V), B times W streams of random numbers -> (B, W).

    The vocabulary is halved until one token is left, each time by a number of its own. So there are
    few borders where rounding, which differs from batch to batch, could change what is drawn: the
    cumulative distribution has one for every token.
    """
    halvings = (probs.shape[-1] - 1).bit_length()
    chances = torch.tensor(
        [[[stream.random() for _ in range(halvings)] for stream in each] for each in streams],
        dtype=torch.float64,
    ).to(probs.device, non_blocking=True)  # (B, W, halvings)
    sums = [torch.nn.functional.pad(probs, (0, 2**halvings - probs.shape[-1]))]  # a power of 2
    for _ in range(halvings):
        sums.append(sums[-1].unflatten(-1, (-1, 2)).sum(dim=-1))  # of neighbours
    place = torch.zeros_like(chances[..., :1], dtype=torch.int64)  # (B, W, 1), from the top down
    for chance, sizes in zip(chances.split(1, dim=-1), reversed(sums[:-1]), strict=True):
        left, right = sizes.gather(-1, 2 * place), sizes.gather(-1, 2 * place + 1)
        place = 2 * place + (chance * (left + right) >= left)
    return place[..., 0]


def truncate(probs: Tensor, sampling: Sampling) -> Tensor:
    """Zero for what top-k (Fan et al. 2018), and then top-p (Holtzman et al. 2020), leave out; the
    rest (..., V) is not normalised again."""
    if sampling.top_k is not None and sampling.top_k < probs.shape[-1]:
        best, where = probs.topk(sampling.top_k)
        probs = torch.zeros_like(probs).scatter_(-1, where, best)
    if sampling.top_p < 1:
        best, where = probs.sort(dim=-1, descending=True)
        before = best.cumsum(dim=-1) - best
        best = best.masked_fill(before >= sampling.top_p * best.sum(dim=-1, keepdim=True), 0.0)
        probs = torch.zeros_like(probs).scatter_(-1, where, best)
    return probs
