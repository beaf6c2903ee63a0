"""Diverse beam search: groups of beams that avoid what the groups before them said
(Vijayakumar et al. 2018)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import torch
from torch import Tensor

from seq2seq.config import PAD_ID, Diversity, SearchConfig
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty


def diverse_search(
    stepper: Stepper,
    limits: Tensor,
    start_id: int,
    config: SearchConfig,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """A `Search`, see search.py.

    Every group is a beam search of its own, one after the other. It keeps away from the
    translations that the groups before it ended with; in the paper, where groups take their steps
    together, from the beams that they have at that step.
    """
    groups, strength = config.diversity.groups, config.diversity.strength
    width = config.beam // groups
    narrow = replace(config, beam=width, n_best=width, diversity=Diversity())
    said: list[list[list[int]]] = [[] for _ in limits]  # of each sentence, by all groups so far
    found: list[list[list[Hypothesis]]] = [[] for _ in limits]  # of each sentence, group by group
    for _ in range(groups):
        unlike = Unlike(said, strength, limits.device)
        group = beam_search(stepper, limits, start_id, narrow, [*rules, unlike])
        for sentence, hypotheses in enumerate(group):
            plain = []
            for tokens, score in hypotheses:
                cost = strength * alike(tokens, said[sentence])
                penalty = length_penalty(len(tokens) + 1, config)
                plain.append(Hypothesis(tokens, score + cost / penalty))
            found[sentence].append(plain)
            said[sentence] += [each.tokens for each in plain]
    return [in_turn(each, config.n_best) for each in found]


class Unlike:
    """A token costs `strength` for each translation in `said` that has it in the same place."""

    def __init__(
        self, said: Sequence[Sequence[Sequence[int]]], strength: float, device: torch.device
    ) -> None:
        self.strength = strength
        most = max(map(len, said))
        longest = max((len(tokens) for each in said for tokens in each), default=0)
        table = torch.full((len(said), most, longest), PAD_ID)
        for row, each in enumerate(said):
            for column, tokens in enumerate(each):
                table[row, column, : len(tokens)] = torch.tensor(tokens)
        self.said = table.to(device)  # (B, C, T), padding, which none says, beyond their ends

    def __call__(self, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        length = prefixes.shape[2]
        if length >= self.said.shape[2]:
            return log_probs
        tokens = self.said[sentences, :, length]  # (B, C)
        costs = log_probs.new_zeros(len(tokens), log_probs.shape[2])  # (B, V)
        costs.scatter_add_(1, tokens, torch.full_like(tokens, self.strength, dtype=costs.dtype))
        return log_probs - costs[:, None]


def alike(tokens: Sequence[int], said: Sequence[Sequence[int]]) -> int:
    """How often a translation has the same token in the same place as another one."""
    return sum(a == b for other in said for a, b in zip(tokens, other, strict=False))


def in_turn(groups: Sequence[Sequence[Hypothesis]], count: int) -> list[Hypothesis]:
    """`count` different ones, best first: the best of each group, then each second best ...

    Within a turn the better come first, so that `count` of 1 is the best of all.
    """

    def by_score(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda each: each.score, reverse=True)

    different: dict[tuple[int, ...], Hypothesis] = {}
    for turn in zip_longest(*map(by_score, groups)):
        for each in by_score([each for each in turn if each is not None]):
            different.setdefault(tuple(each.tokens), each)
    return by_score(list(different.values())[:count])
