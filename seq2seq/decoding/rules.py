"""Rules of a search: what may come next, and what it is worth.

A rule is one small class and one line in `rules_for`. Rules are applied in the order of that list,
and one that would leave nothing possible yields to those before it, so no sentence is lost.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, PAD_ID, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Rule


def forbid(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """No probability for `tokens`, True in a mask that broadcasts to log_probs (B, W, V).

    A row in which nothing would be left stays as it is.
    """
    left = log_probs.masked_fill(tokens, -torch.inf)
    return torch.where(left.isfinite().any(dim=-1, keepdim=True), left, log_probs)


class ForcedPrefix:
    """A translation begins with given tokens; their log-probabilities count in its score."""

    def __init__(self, batch: Sequence[Request], device: torch.device) -> None:
        longest = max(len(each.prefix) for each in batch)
        rows = [[*each.prefix, *[PAD_ID] * (longest - len(each.prefix))] for each in batch]
        self.tokens = torch.tensor(rows, device=device)  # (N, P), padding where a prefix has ended

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        length = prefixes.shape[2]
        if length >= self.tokens.shape[1]:
            return log_probs
        wanted = self.tokens[sentences, length][:, None, None]  # (B, 1, 1)
        others = torch.arange(log_probs.shape[2], device=wanted.device) != wanted  # (B, 1, V)
        return forbid(log_probs, others & (wanted != PAD_ID))


class MinLength:
    """No translation ends before it has `least` tokens, or one less than its limit."""

    def __init__(self, least: int, limits: Tensor) -> None:
        self.least, self.limits = least, limits  # (N,)

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        length = prefixes.shape[2]
        if length >= self.least:
            return log_probs
        may_go_on = (length + 1 < self.limits[sentences])[:, None, None]  # (B, 1, 1)
        ends = torch.arange(log_probs.shape[2], device=may_go_on.device) == EOS_ID  # (V,)
        return forbid(log_probs, may_go_on & ends)


class NoRepeatNgram:
    """No translation has the same `size` tokens in a row twice (Paulus et al. 2018, sec. 2.5)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        length, vocab_size = prefixes.shape[2], log_probs.shape[2]
        if length < self.size:
            return log_probs
        ngrams = prefixes.unfold(2, self.size, 1)  # (B, W, N, size)
        begun = prefixes[:, :, None, length - self.size + 1 :]  # (B, W, 1, size - 1)
        again = (ngrams[..., :-1] == begun).all(dim=-1)  # (B, W, N)
        # What would end a known n-gram; the others mark a place behind the vocabulary.
        tokens = ngrams[..., -1].masked_fill(~again, vocab_size)
        marks = log_probs.new_zeros(*log_probs.shape[:2], vocab_size + 1, dtype=torch.bool)
        return forbid(log_probs, marks.scatter_(2, tokens, True)[..., :-1])


class RepetitionPenalty:
    """Multiplies by `factor` the log-probability of each token that a translation has already.

    Keskar et al. (2019, sec. 4.1) divide logits, whose sign and zero mean nothing; probabilities
    raised to the power `factor` are the same idea with a meaning. They are not normalised again.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        said = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(2, prefixes, True)
        return torch.where(said, log_probs * self.factor, log_probs)


def rules_for(batch: Sequence[Request], config: SearchConfig, limits: Tensor) -> list[Rule]:
    """The rules that this batch and these settings ask for; limits (N,) as a search gets them."""
    rules: list[Rule] = []
    if config.repetition_penalty > 1:
        rules.append(RepetitionPenalty(config.repetition_penalty))
    if any(each.prefix for each in batch):
        rules.append(ForcedPrefix(batch, limits.device))
    if config.min_target_length > 0:
        rules.append(MinLength(config.min_target_length, limits))
    if config.no_repeat_ngram > 0:
        rules.append(NoRepeatNgram(config.no_repeat_ngram))
    return rules
