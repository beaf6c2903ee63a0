"""Each rule beside its definition, and searches that keep to rules beside an exhaustive one."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch
from test_searches import (
    WORDS,
    A,
    B,
    C,
    ToyStepper,
    all_sequences,
    config_of,
    log_probability,
    random_model,
    same,
)
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, SearchConfig
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.rules import (
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    forbid,
    rules_for,
)
from seq2seq.decoding.search import Hypothesis, Rule, length_penalty

LIMIT = 5
ALL = all_sequences(LIMIT)


def best_of(config: SearchConfig, worth: Callable[[int, list[int]], float]) -> list[Hypothesis]:
    """The best of 6 sentences among all sequences; their worth is -inf where a rule forbids."""
    found = []
    for seed in range(6):
        scored = [
            Hypothesis(words, worth(seed, words) / length_penalty(len(words) + 1, config))
            for words in ALL
        ]
        found.append(max(scored, key=lambda each: each.score))
    return found


def searched(
    config: SearchConfig, prefixes: Sequence[Sequence[int]] = ((),) * 6
) -> list[Hypothesis]:
    """What beam search of full width finds for the same 6 sentences."""
    limits = torch.tensor([LIMIT] * 6)
    batch = [Request([A], prefix) for prefix in prefixes]
    stepper = ToyStepper([random_model(seed) for seed in range(6)])
    found = beam_search(stepper, limits, BOS_ID, config, rules_for(batch, config, limits))
    return [each[0] for each in found]


def repeats(words: Sequence[int], size: int) -> bool:
    ngrams = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize("least", [1, 2, 4])
def test_the_best_of_at_least_the_minimum_length_is_found(least: int) -> None:
    def worth(seed: int, words: list[int]) -> float:
        allowed = len(words) >= least
        return log_probability(random_model(seed), words) if allowed else -math.inf

    config = config_of(len(ALL), min_target_length=least, alpha=0.0)
    assert same(searched(config), best_of(config, worth))


def test_a_minimum_beyond_the_limits_is_theirs() -> None:
    huge, limit = (searched(config_of(4, min_target_length=least)) for least in (10**6, LIMIT - 1))
    assert same(huge, limit)


@pytest.mark.parametrize("size", [1, 2])
def test_the_best_without_a_repeated_ngram_is_found(size: int) -> None:
    def worth(seed: int, words: list[int]) -> float:
        return -math.inf if repeats(words, size) else log_probability(random_model(seed), words)

    config = config_of(len(ALL), no_repeat_ngram=size, alpha=1.0)
    expected = best_of(config, worth)
    assert same(searched(config), expected)
    free = searched(config_of(len(ALL), alpha=1.0))
    assert any(repeats(each.tokens, size) for each in free)


@pytest.mark.parametrize("factor", [1.5, 4.0])
def test_a_score_has_the_factor_for_every_repeated_word(factor: float) -> None:
    def worth(seed: int, words: list[int]) -> float:
        whole, model = [*words, EOS_ID], random_model(seed)
        return sum(
            model(tuple(words[:at]))[token] * (factor if token in words[:at] else 1)
            for at, token in enumerate(whole)
        )

    config = config_of(len(ALL), repetition_penalty=factor, alpha=1.0)
    assert same(searched(config), best_of(config, worth))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_what_would_end_a_known_ngram_is_forbidden_and_nothing_else(size: int) -> None:
    rng, log_probs = random.Random(size), torch.zeros(2, 3, 8)
    rule = NoRepeatNgram(size)
    hits = 0
    for length in range(12):
        said = [[rng.choices(WORDS, k=length) for _ in range(3)] for _ in range(2)]
        prefixes = torch.tensor(said, dtype=torch.int64).reshape(2, 3, length)
        found = rule(log_probs, prefixes, torch.arange(2))
        for row in range(2):
            for beam in range(3):
                words = said[row][beam]
                ngrams = {tuple(words[at : at + size]) for at in range(length - size + 1)}
                begun = words[length - size + 1 :] if size > 1 else []
                forbidden = {t for t in range(8) if (*begun, t) in ngrams and length >= size}
                marked = found[row, beam].isinf().nonzero().flatten().tolist()
                assert set(marked) == forbidden
                hits += len(forbidden)
    assert hits > 5


def test_a_word_that_was_said_costs_the_factor_in_its_own_row_only() -> None:
    log_probs = torch.randn(2, 2, 7, generator=torch.Generator().manual_seed(0)) - 5
    prefixes = torch.tensor([[[A, A], [B, C]], [[C, B], [A, B]]])
    found = RepetitionPenalty(1.3)(log_probs, prefixes, torch.arange(2))
    for row, beam, token in torch.cartesian_prod(*map(torch.arange, (2, 2, 7))).tolist():
        factor = 1.3 if token in prefixes[row, beam] else 1.0
        assert float(found[row, beam, token]) == pytest.approx(
            float(log_probs[row, beam, token]) * factor
        )


def test_a_row_in_which_nothing_would_be_left_stays_as_it_is() -> None:
    log_probs = torch.tensor([[[-1.0, -2.0, -torch.inf], [-1.0, -2.0, -3.0]]])
    found = forbid(log_probs, torch.tensor([True, True, False]))
    assert found[0, 0].equal(log_probs[0, 0])
    assert found[0, 1].tolist() == [-math.inf, -math.inf, -3.0]


@pytest.mark.parametrize("beam", [1, 3])
def test_the_limit_wins_over_the_minimum_length(beam: int) -> None:
    limits, config = torch.tensor([1, 3, 6, 9]), config_of(beam, min_target_length=5)
    search = greedy_search if beam == 1 else beam_search
    for seed in range(10):
        stepper = ToyStepper([random_model(seed)] * 4)
        rules: list[Rule] = [MinLength(5, limits)]
        found = search(stepper, limits, BOS_ID, config, rules)
        assert [len(each[0].tokens) for each in found[:3]] == [0, 2, 5]
        assert 5 <= len(found[3][0].tokens) <= 8


@pytest.mark.parametrize("beam", [1, 3])
def test_rules_that_leave_nothing_together_yield_to_the_earlier_and_lose_no_sentence(
    beam: int,
) -> None:
    # Three words cannot make five without one twice, and a prefix may have one twice already.
    config = config_of(beam, min_target_length=5, no_repeat_ngram=1)
    limits, batch = (
        torch.tensor([9] * 3),
        [Request([A]), Request([A], [B, B, B]), Request([A], [C])],
    )
    search = greedy_search if beam == 1 else beam_search
    for seed in range(10):
        rules = rules_for(batch, config, limits)
        found = search(ToyStepper([random_model(seed)] * 3), limits, BOS_ID, config, rules)
        for request, each in zip(batch, found, strict=True):
            tokens, score = each[0]
            assert tokens[: len(request.prefix)] == list(request.prefix)
            assert len(tokens) >= 5
            assert score == pytest.approx(log_probability(random_model(seed), tokens))
        assert set(found[0][0].tokens[:3]) == set(WORDS)


def test_a_forced_prefix_is_begun_with_and_the_rest_is_the_best_there_is() -> None:
    prefixes = [(), (A,), (B, B), (C, A, B), (), (A, A)]

    def worth(seed: int, words: list[int]) -> float:
        begun = tuple(words[: len(prefixes[seed])]) == prefixes[seed]
        return log_probability(random_model(seed), words) if begun else -math.inf

    config = config_of(len(ALL), alpha=0.0)
    assert same(searched(config, prefixes), best_of(config, worth))


def test_where_its_prefix_has_ended_a_translation_is_free() -> None:
    log_probs = torch.randn(3, 1, 7, generator=torch.Generator().manual_seed(0))
    batch = [Request([A], prefix) for prefix in ([B], [B, A, C], [])]
    said = torch.tensor([[[B, A]], [[B, A]], [[C, C]]])
    found = ForcedPrefix(batch, said.device)(log_probs, said, torch.arange(3))
    assert found[0].equal(log_probs[0])
    assert found[1].isfinite().nonzero().tolist() == [[0, C]]
    assert found[2].equal(log_probs[2])


def test_settings_make_the_rules_that_they_name_and_the_defaults_none() -> None:
    limits = torch.tensor([9])

    def kinds(config: SearchConfig, prefix: Sequence[int] = ()) -> list[type]:
        return [type(rule) for rule in rules_for([Request([A], prefix)], config, limits)]

    assert kinds(SearchConfig()) == []
    assert kinds(SearchConfig(), [A]) == [ForcedPrefix]
    assert kinds(SearchConfig(min_target_length=1)) == [MinLength]
    assert kinds(SearchConfig(no_repeat_ngram=3)) == [NoRepeatNgram]
    assert kinds(SearchConfig(repetition_penalty=1.1)) == [RepetitionPenalty]


def test_a_rule_leaves_what_it_was_given_as_it_was() -> None:
    log_probs: Tensor = torch.randn(1, 2, 7, generator=torch.Generator().manual_seed(0))
    before, prefixes = log_probs.clone(), torch.tensor([[[A, B, A], [A, A, A]]])
    config = SearchConfig(min_target_length=9, no_repeat_ngram=2, repetition_penalty=2.0)
    batch = [Request([A], [A, B, A, C])]
    for rule in rules_for(batch, config, torch.tensor([20])):
        rule(log_probs, prefixes, torch.arange(1))
        assert log_probs.equal(before)
