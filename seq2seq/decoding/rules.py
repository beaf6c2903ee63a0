"""Rules of a search: what may come next, and what it is worth.

A rule is one small class and one line in `rules_for`. Rules are applied in the order of that list.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import PAD_ID, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Rule


class ForcedPrefix:
    """A translation begins with given tokens; their log-probabilities count in its score."""

    def __init__(self, batch: Sequence[Request]) -> None:
        longest = max(len(each.prefix) for each in batch)
        rows = [[*each.prefix, *[PAD_ID] * (longest - len(each.prefix))] for each in batch]
        self.tokens = torch.tensor(rows)  # (N, P), padding where a prefix has ended

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        length = prefixes.shape[2]
        if length >= self.tokens.shape[1]:
            return log_probs
        self.tokens = self.tokens.to(sentences.device)
        wanted = self.tokens[sentences, length][:, None, None]  # (B, 1, 1)
        others = torch.arange(log_probs.shape[2], device=wanted.device) != wanted  # (B, 1, V)
        return log_probs.masked_fill(others & (wanted != PAD_ID), -torch.inf)


def rules_for(batch: Sequence[Request], config: SearchConfig) -> list[Rule]:
    """The rules that this batch and these settings ask for."""
    rules: list[Rule] = []
    if any(each.prefix for each in batch):
        rules.append(ForcedPrefix(batch))
    return rules
