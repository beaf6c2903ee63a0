"""Diverse beam search beside a plain one: group after group, with lists, from its definition."""

from collections.abc import Sequence
from itertools import zip_longest

import pytest
import torch
from test_searches import (
    A,
    B,
    C,
    Model,
    ToyStepper,
    config_of,
    log_probability,
    random_model,
    same,
    textbook_beam,
)

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, Diversity, SearchConfig
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.diverse import diverse_search, in_turn
from seq2seq.decoding.request import Request
from seq2seq.decoding.rules import rules_for
from seq2seq.decoding.search import Hypothesis, length_penalty

LIMITS = [seed % 7 + 1 for seed in range(20)]


def models() -> list[Model]:
    return [random_model(seed) for seed in range(20)]


def diverse(groups: int, strength: float, beam: int, **settings: object) -> SearchConfig:
    return config_of(beam, diversity=Diversity(groups=groups, strength=strength), **settings)


def searched(config: SearchConfig) -> list[list[Hypothesis]]:
    return diverse_search(ToyStepper(models()), torch.tensor(LIMITS), BOS_ID, config)


def avoiding(model: Model, said: Sequence[Sequence[int]], strength: float) -> Model:
    """The model, with a cost for each translation in `said` that has a word in the same place."""

    def costly(prefix: tuple[int, ...]) -> Sequence[float]:
        place = len(prefix)
        there = [tokens[place] for tokens in said if len(tokens) > place]
        return [lp - strength * there.count(t) for t, lp in enumerate(model(prefix))]

    return costly


def textbook_groups(model: Model, limit: int, config: SearchConfig) -> list[list[Hypothesis]]:
    """What each group finds, with the scores of the model itself, best first."""
    width = config.beam // config.diversity.groups
    narrow = config_of(
        width, n_best=width, length_penalty=config.length_penalty, alpha=config.alpha
    )
    said, groups = list[list[int]](), list[list[Hypothesis]]()
    for _ in range(config.diversity.groups):
        found = textbook_beam(avoiding(model, said, config.diversity.strength), limit, narrow)
        plain = [
            Hypothesis(
                tokens,
                log_probability(model, tokens) / length_penalty(len(tokens) + 1, config),
            )
            for tokens, _ in found
        ]
        groups.append(sorted(plain, key=lambda each: each.score, reverse=True))
        said += [each.tokens for each in found]
    return groups


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("strength", [0.3, 2.0])
@pytest.mark.parametrize(("beam", "groups"), [(2, 2), (4, 2), (6, 3)])
def test_each_group_is_a_beam_search_that_avoids_the_groups_before_it(
    beam: int, groups: int, strength: float, alpha: float
) -> None:
    config = diverse(groups, strength, beam, n_best=beam, alpha=alpha)
    for model, limit, found in zip(models(), LIMITS, searched(config), strict=True):
        expected = {
            tuple(each.tokens): each
            for group in textbook_groups(model, limit, config)
            for each in group
        }
        best_first = sorted(expected.values(), key=lambda each: each.score, reverse=True)
        assert same(found, best_first)


@pytest.mark.parametrize("beam", [1, 3])
def test_one_group_is_beam_search(beam: int) -> None:
    config = diverse(1, 2.0, beam, n_best=beam, alpha=0.6)
    expected = beam_search(ToyStepper(models()), torch.tensor(LIMITS), BOS_ID, config)
    assert searched(config) == expected


def test_groups_without_strength_all_find_what_one_of_them_finds() -> None:
    config, narrow = diverse(3, 0.0, 6, n_best=6), config_of(2, n_best=2)
    expected = beam_search(ToyStepper(models()), torch.tensor(LIMITS), BOS_ID, narrow)
    assert all(map(same, searched(config), expected))


def test_strong_groups_never_say_the_same_word_in_the_same_place() -> None:
    found = searched(diverse(3, 100.0, 3, n_best=3))
    assert sum(map(len, found)) > 30
    for hypotheses in found:
        for words in zip_longest(*(each.tokens for each in hypotheses)):
            said = [word for word in words if word is not None]
            assert len(said) == len(set(said))


def test_the_first_ones_are_the_best_of_each_group() -> None:
    config = diverse(2, 9.0, 6, n_best=2)
    told = 0
    for model, limit, found in zip(models(), LIMITS, searched(config), strict=True):
        one, other = (each[0] for each in textbook_groups(model, limit, config))
        if one.tokens != other.tokens:
            told += 1
            assert same(found, sorted([one, other], key=lambda each: each.score, reverse=True))
    assert told > 5


def test_in_turn_takes_different_ones_group_by_group() -> None:
    one = [Hypothesis([A], -1.0), Hypothesis([B], -2.0), Hypothesis([A, A], -9.0)]
    other = [Hypothesis([C], -3.0), Hypothesis([A], -1.0)]
    assert in_turn([one, other], 1) == one[:1]
    assert in_turn([other[:1], one], 1) == one[:1], "the best of all, whichever group it is of"
    assert in_turn([one, other], 2) == one[:2]
    assert in_turn([one, other], 9) == [one[0], one[1], other[0], one[2]]
    assert in_turn([other, []], 2) == [one[0], other[0]]
    assert in_turn([[], []], 3) == []


def test_groups_keep_to_rules() -> None:
    config = diverse(2, 1.0, 4, n_best=4, min_target_length=2)
    batch = [Request([A], [B] * (seed % 2)) for seed in range(20)]
    limits = torch.tensor([7] * 20)
    rules = rules_for(batch, config, limits)
    found = diverse_search(ToyStepper(models()), limits, BOS_ID, config, rules)
    for request, hypotheses in zip(batch, found, strict=True):
        assert len(hypotheses) > 2
        for tokens, _ in hypotheses:
            assert tokens[: len(request.prefix)] == list(request.prefix)
            assert len(tokens) >= 2
            assert not {PAD_ID, EOS_ID} & set(tokens)
