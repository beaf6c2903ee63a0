"""What is drawn follows the probabilities that the definitions give, and nothing but its place."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

import pytest
import torch
from test_searches import (
    WORDS,
    A,
    B,
    Model,
    ToyStepper,
    all_sequences,
    config_of,
    log_probability,
    random_model,
    trellis,
)
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, Sampling, SearchConfig
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.rules import rules_for
from seq2seq.decoding.sample import Sampler, draw, truncate
from seq2seq.decoding.search import Hypothesis, length_penalty

SETTINGS = [
    Sampling(),
    Sampling(temperature=0.5),
    Sampling(temperature=2.0),
    Sampling(top_k=2),
    Sampling(top_k=1),
    Sampling(top_k=99),
    Sampling(top_p=0.7),
    Sampling(temperature=1.5, top_k=3, top_p=0.8, seed=5),
]


def sampled(
    models: Sequence[Model], limit: int, config: SearchConfig, numbers: Sequence[int] | None = None
) -> list[list[Hypothesis]]:
    places = [(number, 0) for number in numbers or range(len(models))]
    return Sampler(places)(ToyStepper(models), torch.tensor([limit] * len(models)), BOS_ID, config)


def drawn_from(log_probs: Sequence[float], sampling: Sampling) -> dict[int, float]:
    """The definitions: temperature, then top-k, then top-p of what is left."""
    weights = {t: math.exp(lp / sampling.temperature) for t, lp in enumerate(log_probs)}
    likely = sorted(weights, key=weights.__getitem__, reverse=True)[: sampling.top_k]
    total, kept = sum(weights[token] for token in likely), list[int]()
    while sum(weights[token] for token in kept) / total < sampling.top_p and len(kept) < len(
        likely
    ):
        kept.append(likely[len(kept)])
    total = sum(weights[token] for token in kept)
    return {token: weights[token] / total for token in kept if weights[token]}


def chances_of(model: Model, limit: int, sampling: Sampling) -> dict[tuple[int, ...], float]:
    """Of every sequence, multiplied along it; at the limit only the end may come."""
    found = {}
    for words in map(tuple, all_sequences(limit)):
        whole = (*words, EOS_ID) if len(words) + 1 < limit else words
        steps = [drawn_from(model(whole[:at]), sampling) for at in range(len(whole))]
        found[words] = math.prod(
            step.get(token, 0.0) for step, token in zip(steps, whole, strict=True)
        )
    return found


def follows(drawn: Sequence[Hypothesis], chances: dict[tuple[int, ...], float]) -> bool:
    """Pearson's chi-square stays below its mean and four of its standard deviations."""
    counts = Counter(tuple(each.tokens) for each in drawn)
    expected = {words: chance * len(drawn) for words, chance in chances.items() if chance > 0}
    assert sum(expected.values()) == pytest.approx(len(drawn))
    assert counts.keys() <= expected.keys()
    statistic = sum((counts[words] - mean) ** 2 / mean for words, mean in expected.items())
    freedom = len(expected) - 1
    return statistic <= freedom + 4 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_sequences_are_drawn_as_often_as_their_probability_says(sampling: Sampling) -> None:
    model, count = random_model(4), 1000
    chances = chances_of(model, 3, sampling)
    (samples,) = sampled([model], 3, config_of(1, n_best=count, sampling=sampling))
    assert len(samples) == count
    assert follows(samples, chances)
    if sampling.top_k != 1:
        first, second = sorted(chances, key=chances.__getitem__)[-2:]
        moved = 0.6 * chances[first]
        wrong = {first: chances[first] - moved, second: chances[second] + moved}
        assert not follows(samples, chances | wrong), "a wrong probability would not be seen"


def test_the_first_samples_of_many_sentences_are_independent() -> None:
    count, config = 1000, config_of(1, sampling=Sampling())
    samples = [one for (one,) in sampled([trellis] * count, 3, config)]
    assert follows(samples, chances_of(trellis, 3, Sampling()))


@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.5, 1e-6])
@pytest.mark.parametrize("top_k", [None, 1, 7, 49, 50, 99])
def test_top_k_and_top_p_keep_what_their_definitions_keep(top_k: int | None, top_p: float) -> None:
    sampling = Sampling(top_k=top_k, top_p=top_p)
    rows = torch.randn(6, 50, generator=torch.Generator().manual_seed(3)).log_softmax(dim=-1)
    kept = truncate(rows.exp(), sampling)
    for row, left in zip(rows, kept, strict=True):
        expected = drawn_from(row.tolist(), sampling)
        assert set(left.nonzero().flatten().tolist()) == expected.keys()
        for token, chance in expected.items():
            assert float(left[token] / left.sum()) == pytest.approx(chance, rel=1e-4)


@pytest.mark.parametrize(("top_p", "kept"), [(0.5, [1]), (0.6, [0, 1]), (0.75, [0, 1])])
def test_top_p_keeps_as_few_as_reach_it(top_p: float, kept: list[int]) -> None:
    left = truncate(torch.tensor([0.25, 0.5, 0.125, 0.125]), Sampling(top_p=top_p))
    assert left.nonzero().flatten().tolist() == kept


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1e-3),
        Sampling(temperature=1e-6),
        Sampling(top_k=1),
        Sampling(top_p=1e-6),
    ],
    ids=str,
)
def test_without_any_choice_every_sample_is_what_greedy_search_finds(sampling: Sampling) -> None:
    models = [random_model(seed) for seed in range(20)]
    limits = torch.tensor([seed % 7 + 1 for seed in range(20)])
    config = config_of(1, n_best=3, sampling=sampling)
    found = Sampler([(n, 0) for n in range(20)])(ToyStepper(models), limits, BOS_ID, config)
    greedy = greedy_search(ToyStepper(models), limits, BOS_ID, config_of(1))
    for samples, (best,) in zip(found, greedy, strict=True):
        assert [each.tokens for each in samples] == [best.tokens] * 3
        assert [each.score for each in samples] == pytest.approx([best.score] * 3)


def test_a_score_is_the_models_whatever_the_temperature() -> None:
    models = [random_model(seed) for seed in range(10)]
    hot = Sampling(temperature=3.0, top_k=3)
    config = config_of(1, n_best=4, alpha=0.7, sampling=hot)
    for model, samples in zip(models, sampled(models, 7, config), strict=True):
        assert [each.score for each in samples] == sorted(
            (each.score for each in samples), reverse=True
        )
        for tokens, score in samples:
            penalty = length_penalty(len(tokens) + 1, config)
            assert score == pytest.approx(log_probability(model, tokens) / penalty)


def test_neither_batch_nor_width_has_a_say_in_a_sample() -> None:
    models = [random_model(seed) for seed in range(12)]
    config = config_of(1, n_best=5, sampling=Sampling(seed=3))
    together = sampled(models, 8, config)
    for number, (model, samples) in enumerate(zip(models, together, strict=True)):
        assert sampled([model], 8, config, [number]) == [samples]
        for width in (1, 3):
            (fewer,) = sampled([model], 8, replace(config, n_best=width), [number])
            assert not Counter(map(str, fewer)) - Counter(map(str, samples))
    assert sampled(models[::-1], 8, config, range(12)[::-1]) == together[::-1]


def test_another_sentence_sample_or_seed_is_another_draw() -> None:
    model, config = random_model(1), config_of(1, n_best=40, sampling=Sampling(seed=1))
    other = replace(config, sampling=Sampling(seed=2))
    first, second = sampled([model] * 2, 8, config, [0, 1])
    (reseeded,) = sampled([model], 8, other, [0])
    assert first != second
    assert first != reseeded
    assert len({tuple(each.tokens) for each in first}) > 10


def test_samples_keep_to_rules_and_limits() -> None:
    batch = [
        Request([A], prefix, place=(number, 0)) for number, prefix in enumerate([(B, B), (), (A,)])
    ]
    limits = torch.tensor([9, 6, 2])
    config = config_of(1, n_best=30, min_target_length=4, no_repeat_ngram=2, sampling=Sampling())
    stepper = ToyStepper([random_model(seed) for seed in range(3)])
    found = Sampler([each.place for each in batch])(
        stepper, limits, BOS_ID, config, rules_for(batch, config, limits)
    )
    for request, limit, samples in zip(batch, limits.tolist(), found, strict=True):
        assert len(samples) == 30
        for tokens, _ in samples:
            assert tokens[: len(request.prefix)] == list(request.prefix)
            assert min(4, limit - 1) <= len(tokens) < limit
            bigrams = list(pairwise(tokens))
            assert len(bigrams) == len(set(bigrams))


def test_a_sentence_of_which_all_samples_have_ended_is_searched_no_more() -> None:
    class Watched(ToyStepper):
        def step(self, tokens: Tensor) -> Tensor:
            log_probs = super().step(tokens)
            for row in range(0, len(self.told), self.width):
                assert any(EOS_ID not in told for told in self.told[row : row + self.width])
            return log_probs

    models, config = [random_model(seed) for seed in range(20)], config_of(1, sampling=Sampling())
    sampler = Sampler([(number, 0) for number in range(20)])
    sampler(Watched(models), torch.tensor([9] * 20), BOS_ID, replace(config, n_best=2))


def test_words_without_probability_are_never_drawn() -> None:
    def only_b(said: tuple[int, ...]) -> Sequence[float]:
        return [math.log(p) if p else -math.inf for p in (0, 0, 0, 0.3, 0, 0.7, 0)]

    (samples,) = sampled([only_b], 6, config_of(1, n_best=300, sampling=Sampling()))
    assert {token for each in samples for token in each.tokens} == {B}


@pytest.mark.parametrize("words", range(2, 10))
@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_the_least_and_the_largest_random_number_draw_the_first_and_the_last_likely_word(
    number: float, words: int
) -> None:
    class Extreme(Random):
        def random(self) -> float:
            return number

    for first, last in combinations(range(words), 2):
        probs = torch.zeros(1, 1, words)
        probs[..., first], probs[..., last] = 0.3, 0.7
        assert draw(probs, [[Extreme()]]).tolist() == [[last if number else first]]


def test_a_model_that_has_diverged_says_nothing() -> None:
    nothing = [math.nan] * (max(WORDS) + 1)
    config = config_of(1, n_best=3, sampling=Sampling(top_k=2, top_p=0.9))
    assert sampled([lambda _: nothing, trellis], 4, config)[0] == []


def test_rounding_changes_fewer_draws_than_in_the_cumulative_distribution() -> None:
    rows, generator = 500, torch.Generator().manual_seed(0)
    probs = torch.randn(1, rows, 5000, generator=generator).softmax(dim=-1)
    rounded = probs * (1 + 1e-3 * torch.randn(probs.shape, generator=generator))

    def halved(probs: Tensor) -> Tensor:
        return draw(probs, [[Random(row) for row in range(rows)]])

    def cumulative(probs: Tensor) -> Tensor:
        sums = probs.cumsum(dim=-1, dtype=torch.float64)
        chances = torch.tensor([Random(row).random() for row in range(rows)])[None, :, None]
        return torch.searchsorted(sums, chances * sums[..., -1:])[..., 0]

    changed, expected = (int((f(probs) != f(rounded)).sum()) for f in (halved, cumulative))
    assert 10 * changed < expected
