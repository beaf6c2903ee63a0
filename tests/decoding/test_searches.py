"""Searches over toy models that keep honest books: they log what each row was told, nothing else.

So a search that mixes up rows asks about the wrong beginnings and gets other scores than the
oracles, which compute the probability of a whole sequence from the same table.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import pytest
import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, SearchConfig
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.progress import Progress, moved_up
from seq2seq.decoding.search import Hypothesis, Search, length_penalty

Model = Callable[[tuple[int, ...]], Sequence[float]]
"""What was said so far -> log-probability of each next token."""

A, B, C = 4, 5, 6
WORDS = (A, B, C)
PENALTIES: list[tuple[Literal["length", "gnmt"], float]] = [
    ("length", 0),
    ("length", 0.6),
    ("length", 1),
    ("gnmt", 0.6),
    ("gnmt", 1),
]


class ToyStepper:
    """A `Stepper` over one model for each sentence."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.every, self.models, self.width = models, list(models), 0
        self.told: list[tuple[int, ...]] = []

    def start(self, width: int) -> None:
        self.models, self.width = list(self.every), width
        self.told = [()] * (len(self.models) * width)

    def step(self, tokens: Tensor) -> Tensor:
        self.told = [(*told, t) for told, t in zip(self.told, tokens.tolist(), strict=True)]
        rows = enumerate(self.told)
        return torch.tensor([self.models[row // self.width](told[1:]) for row, told in rows])

    def select(self, sentences: Sequence[int], beams: Tensor) -> None:
        assert beams.shape == (len(sentences), self.width)
        rows = (torch.tensor(sentences)[:, None] * self.width + beams).flatten().tolist()
        self.told = [self.told[row] for row in rows]
        self.models = [self.models[sentence] for sentence in sentences]


def random_model(seed: int, memory: int = 9, sharpness: float = 1.5) -> Model:
    """Random probabilities of the end and of three words, given the last `memory` tokens."""

    @cache
    def model(said: tuple[int, ...]) -> Sequence[float]:
        rng = random.Random(f"{seed} {said[-memory:] if memory else ()}")
        scores = [math.exp(rng.gauss(0, sharpness)) for _ in (EOS_ID, *WORDS)]
        return [-math.inf] * 3 + [math.log(score / sum(scores)) for score in scores]

    return model


def log_probability(model: Model, tokens: Sequence[int]) -> float:
    """Of the tokens and the end after them."""
    whole = (*tokens, EOS_ID)
    return sum(model(whole[:position])[token] for position, token in enumerate(whole))


def all_sequences(limit: int) -> list[list[int]]:
    """All with at most `limit` tokens, the end counted."""
    return [
        list(words) for length in range(limit) for words in itertools.product(WORDS, repeat=length)
    ]


def exhaustive(model: Model, limit: int, config: SearchConfig) -> list[Hypothesis]:
    """Every hypothesis there is, best first."""
    scored = [
        Hypothesis(words, log_probability(model, words) / length_penalty(len(words) + 1, config))
        for words in all_sequences(limit)
    ]
    return sorted(scored, key=lambda hypothesis: hypothesis.score, reverse=True)


def textbook_beam(model: Model, limit: int, config: SearchConfig) -> list[Hypothesis]:
    """Beam search as its docstring tells it, with lists, one sentence at a time."""
    finished: list[Hypothesis] = []
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for length in range(1, limit + 1):
        going_on = [
            (total + log_prob, (*said, token))
            for total, said in beams
            for token, log_prob in enumerate(model(said))
            if log_prob > -math.inf and (token == EOS_ID or length < limit)
        ]
        going_on.sort(reverse=True)
        penalty = length_penalty(length, config)
        finished += [
            Hypothesis(list(said[:-1]), total / penalty)
            for total, said in going_on[: config.beam]
            if said[-1] == EOS_ID
        ]
        beams = [each for each in going_on if each[1][-1] != EOS_ID][: config.beam]
        if len(finished) >= config.beam:
            break
    return sorted(finished, key=lambda each: each.score, reverse=True)[: config.n_best]


def searched(
    search: Search, models: Sequence[Model], limits: Sequence[int], config: SearchConfig
) -> list[list[Hypothesis]]:
    return search(ToyStepper(models), torch.tensor(limits), BOS_ID, config)


def same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> bool:
    """The same tokens in the same order, and the same scores but for rounding to fp32."""
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected])
    return True


def config_of(beam: int, **settings: object) -> SearchConfig:
    return replace(SearchConfig(beam=beam, alpha=0.0), **settings)  # type: ignore[arg-type]


def trellis(said: tuple[int, ...]) -> Sequence[float]:
    """The likelier first word leads to the less likely translations:

    start --.55--> A --.4--> end       A A end  .55 * .5 * .4 = .11
          --.45--> B --.8--> end       B end    .45 * .8      = .36
    A --.5--> A   A --.1--> B   B --.1--> A   B --.1--> B
    """
    table = {(): (0.0, 0.55, 0.45), (A,): (0.4, 0.5, 0.1), (B,): (0.8, 0.1, 0.1)}
    row = (0, 0, 0, *table.get(said[-1:], (1, 0, 0)), 0)
    return [math.log(probability) if probability else -math.inf for probability in row]


def test_greedy_search_takes_the_likeliest_first_word_of_the_trellis() -> None:
    (found,) = searched(greedy_search, [trellis], [3], config_of(1))
    assert same(found, [Hypothesis([A, A], math.log(0.11))])


def test_beam_search_finds_the_better_path_through_the_trellis() -> None:
    (found,) = searched(beam_search, [trellis], [3], config_of(2, n_best=2))
    # A end (.22) was third at its step: only the W best continuations of a step are finished.
    assert same(found, [Hypothesis([B], math.log(0.36)), Hypothesis([A, A], math.log(0.11))])


def test_a_wider_beam_finds_the_path_that_the_narrow_one_dropped() -> None:
    (found,) = searched(beam_search, [trellis], [3], config_of(3, n_best=2))
    assert same(found, [Hypothesis([B], math.log(0.36)), Hypothesis([A], math.log(0.22))])


def test_a_search_ends_with_its_beam_full_of_finished_ones_though_a_better_one_goes_on() -> None:
    def patient(said: tuple[int, ...]) -> Sequence[float]:
        """Nothing has .3 and A .6 * .3, while A A, with .6 * .7, surely ends."""
        table = {(): (0.3, 0.6), (A,): (0.3, 0.7)}
        row = (0, 0, 0, *table.get(said, (1, 0)), 0, 0)
        return [math.log(probability) if probability else -math.inf for probability in row]

    (found,) = searched(beam_search, [patient], [9], config_of(2, n_best=2))
    assert same(found, [Hypothesis([], math.log(0.3)), Hypothesis([A], math.log(0.18))])
    (found,) = searched(beam_search, [patient], [9], config_of(3))
    assert same(found, [Hypothesis([A, A], math.log(0.42))])


def test_a_strong_length_penalty_prefers_the_longer_paths_through_the_trellis() -> None:
    (found,) = searched(beam_search, [trellis], [3], config_of(13, n_best=4, alpha=3.0))
    longer = [([A, A], 0.11), ([A, B], 0.55 * 0.1 * 0.8), ([B, B], 0.45 * 0.1 * 0.8)]
    expected = [Hypothesis(words, math.log(p) / 3**3) for words, p in longer]
    assert same(found, [*expected, Hypothesis([B], math.log(0.36) / 2**3)])


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("memory", [1, 2, 9])
def test_beam_search_of_width_one_is_greedy_search(
    memory: int, penalty: Literal["length", "gnmt"], alpha: float
) -> None:
    config = config_of(1, length_penalty=penalty, alpha=alpha)
    models = [random_model(seed, memory) for seed in range(60)]
    limits = [seed % 9 + 1 for seed in range(60)]
    greedy = searched(greedy_search, models, limits, config)
    beam = searched(beam_search, models, limits, config)
    assert all(map(same, beam, greedy))


def test_greedy_search_takes_the_likeliest_token_at_every_step() -> None:
    for seed in range(40):
        model, said = random_model(seed), list[int]()
        while len(said) < 5:
            best = max((EOS_ID, *WORDS), key=model(tuple(said)).__getitem__)
            if best == EOS_ID:
                break
            said.append(best)
        ((found,),) = searched(greedy_search, [model], [6], config_of(1))
        assert found.tokens == said
        assert found.score == pytest.approx(log_probability(model, said))


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_beam_search_of_full_width_is_exhaustive_search(
    limit: int, penalty: Literal["length", "gnmt"], alpha: float
) -> None:
    width = len(all_sequences(limit))
    config = config_of(width, n_best=width, length_penalty=penalty, alpha=alpha)
    models = [random_model(seed) for seed in range(8)]
    found = searched(beam_search, models, [limit] * 8, config)
    assert all(map(same, found, (exhaustive(model, limit, config) for model in models)))


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("width", [2, 3, 5])
def test_beam_search_is_the_textbooks(
    width: int, penalty: Literal["length", "gnmt"], alpha: float
) -> None:
    config = config_of(width, n_best=width, length_penalty=penalty, alpha=alpha)
    models = [random_model(seed) for seed in range(30)]
    limits = [seed % 7 + 1 for seed in range(30)]
    found = searched(beam_search, models, limits, config)
    expected = [textbook_beam(m, limit, config) for m, limit in zip(models, limits, strict=True)]
    assert all(map(same, found, expected))


@pytest.mark.parametrize("search", [greedy_search, beam_search])
@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
def test_a_score_is_the_log_probability_of_the_whole_over_the_length_penalty(
    search: Search, penalty: Literal["length", "gnmt"], alpha: float
) -> None:
    width = 1 if search is greedy_search else 3
    config = config_of(width, n_best=width, length_penalty=penalty, alpha=alpha)
    models = [random_model(seed) for seed in range(20)]
    for model, found in zip(models, searched(search, models, [7] * 20, config), strict=True):
        for tokens, score in found:
            length = len(tokens) + 1
            divisor = length**alpha if penalty == "length" else ((5 + length) / 6) ** alpha
            assert score == pytest.approx(log_probability(model, tokens) / divisor)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_a_batch_of_sentences_is_each_sentence_alone(search: Search) -> None:
    width = 1 if search is greedy_search else 4
    config = config_of(width, n_best=width, alpha=0.6)
    models = [random_model(seed) for seed in range(25)]
    limits = [seed % 8 + 1 for seed in range(25)]
    together = searched(search, models, limits, config)
    for model, limit, found in zip(models, limits, together, strict=True):
        assert same(found, searched(search, [model], [limit], config)[0])
    backwards = searched(search, models[::-1], limits[::-1], config)
    assert all(map(same, backwards[::-1], together))


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_no_translation_is_longer_than_its_sentences_limit_and_the_cut_one_has_a_whole_score(
    search: Search,
) -> None:
    width = 1 if search is greedy_search else 3
    endless = random_model(3, memory=0)

    def talkative(said: tuple[int, ...]) -> Sequence[float]:
        return [*[-math.inf] * 3, math.log(1e-9), *endless(said)[4:]]

    limits = [5, 1, 3, 8]
    config = config_of(width, n_best=width)
    found = searched(search, [talkative] * 4, limits, config)
    for limit, hypotheses in zip(limits, found, strict=True):
        assert hypotheses
        for tokens, score in hypotheses:
            assert len(tokens) + 1 == limit
            assert score == pytest.approx(log_probability(talkative, tokens))


def test_n_best_are_distinct_sorted_and_as_many_as_asked_for() -> None:
    models = [random_model(seed) for seed in range(20)]
    for n_best in (1, 2, 5):
        config = config_of(5, n_best=n_best, alpha=1.0)
        for found in searched(beam_search, models, [6] * 20, config):
            assert len(found) == n_best
            assert len({tuple(each.tokens) for each in found}) == n_best
            assert [each.score for each in found] == sorted(
                (each.score for each in found), reverse=True
            )
            whole = searched(beam_search, models, [6] * 20, replace(config, n_best=5))
        assert [each[:n_best] for each in whole] == searched(beam_search, models, [6] * 20, config)


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("n_best", [1, 3, 13])
def test_n_best_of_full_width_are_the_exhaustive_best(
    n_best: int, penalty: Literal["length", "gnmt"], alpha: float
) -> None:
    config = config_of(13, n_best=n_best, length_penalty=penalty, alpha=alpha)
    for seed in range(5):
        (found,) = searched(beam_search, [random_model(seed)], [3], config)
        assert same(found, exhaustive(random_model(seed), 3, config)[:n_best])


def test_fewer_translations_than_asked_for_are_what_the_search_returns() -> None:
    (found,) = searched(beam_search, [random_model(0)], [1], config_of(5, n_best=5))
    assert same(found, [Hypothesis([], log_probability(random_model(0), []))])


def test_a_beam_wider_than_the_vocabulary_is_searched() -> None:
    config = config_of(50, n_best=4)
    (found,) = searched(beam_search, [random_model(0)], [3], config)
    assert same(found, exhaustive(random_model(0), 3, config)[:4])


def test_tokens_without_probability_are_never_said() -> None:
    def only_b(said: tuple[int, ...]) -> Sequence[float]:
        return [math.log(p) if p else -math.inf for p in (0, 0, 0, 0.1, 0, 0.9, 0)]

    for search, width in ((greedy_search, 1), (beam_search, 4)):
        for hypotheses in searched(search, [only_b], [5], config_of(width, n_best=width)):
            assert hypotheses
            assert all(set(each.tokens) <= {B} for each in hypotheses)
            assert all(math.isfinite(each.score) for each in hypotheses)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_the_search_begins_once_with_its_width_and_asks_nothing_beyond_a_limit(
    search: Search,
) -> None:
    asked = []

    class Watched(ToyStepper):
        def start(self, width: int) -> None:
            asked.append(width)
            super().start(width)

        def step(self, tokens: Tensor) -> Tensor:
            log_probs = super().step(tokens)
            for row, told in enumerate(self.told):
                assert told[0] == BOS_ID
                assert len(told) <= limits[self.models[row // self.width]]
            return log_probs

    width = 1 if search is greedy_search else 2
    limits = {random_model(seed): limit for seed, limit in enumerate([2, 7, 3, 1, 5, 4])}
    search(Watched([*limits]), torch.tensor([*limits.values()]), BOS_ID, config_of(width))
    assert asked == [width]


@pytest.mark.parametrize("still", list(itertools.product([False, True], repeat=4)))
def test_sentences_that_go_on_move_up_only_into_closed_places(still: tuple[bool, ...]) -> None:
    rows = moved_up(still)
    assert sorted(rows) == [row for row, goes_on in enumerate(still) if goes_on]
    assert all(row == place for place, row in enumerate(rows) if still[place])


@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_length_penalty_has_its_closed_form(length: int) -> None:
    for alpha in (0.0, 0.6, 1.0, 2.0):
        plain = SearchConfig(length_penalty="length", alpha=alpha)
        gnmt = SearchConfig(length_penalty="gnmt", alpha=alpha)
        assert length_penalty(length, plain) == pytest.approx(math.exp(alpha * math.log(length)))
        assert length_penalty(length, gnmt) == pytest.approx(
            math.exp(alpha * (math.log(5 + length) - math.log(6)))
        )
    assert length_penalty(length, SearchConfig(alpha=0.0)) == 1
    assert length_penalty(1, SearchConfig(length_penalty="gnmt", alpha=0.7)) == 1


def test_at_its_limit_a_sentence_may_only_end_and_the_others_are_left_alone() -> None:
    log_probs = torch.randn(3, 2, 7, generator=torch.Generator().manual_seed(0))
    before = log_probs.clone()
    limited = Progress(torch.tensor([4, 5, 3])).end_at_limit(log_probs, 4)
    assert log_probs.equal(before)
    assert limited[1].equal(before[1])
    for sentence in (0, 2):
        assert limited[sentence, :, EOS_ID].equal(before[sentence, :, EOS_ID])
        assert limited[sentence].isfinite().sum() == 2
