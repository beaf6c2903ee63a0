"""Search under constraints: all texts that hold the terms are the oracle."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
import torch
from test_searches import PENALTIES, Model, ToyStepper, config_of, log_probability, random_model
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, SearchConfig
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constrained import ConstrainedSearch, by_likelihood
from seq2seq.decoding.request import Request
from seq2seq.decoding.rules import ForcedPrefix, NoRepeatNgram
from seq2seq.decoding.search import Hypothesis, Rule, length_penalty
from seq2seq.text.terms import Terms

TERMS: list[list[str]] = [
    [],
    ["<"],
    ["<", "<"],
    ["<>"],
    ["<>", "><"],
    ["<", "<>"],
    ["<>", "<>"],
    ["<>", "<><"],
    ["-", "<>"],
]
LIMIT = 6


class Letters:
    """A `Speller` of a toy model's words: each is a letter, none of which makes words."""

    spellings = (b"", b"", b"", b"", b"<", b">", b"-")

    def spell(self, text: str, *, glued: bool = False) -> list[int]:
        return [self.spellings.index(letter.encode()) for letter in text]


class Overlapping(Letters):
    """The same text can be written in several ways."""

    spellings = (b"", b"", b"", b"", b"<", b"<>", b">")


def text_of(tokens: Sequence[int], speller: Letters) -> str:
    return b"".join(speller.spellings[token] for token in tokens).decode()


def times(term: str, text: str) -> int:
    return sum(text.startswith(term, at) for at in range(len(text)))


def asked(terms: Sequence[str]) -> dict[str, int]:
    return {term: sum(times(term, other) for other in terms) for term in terms}


def holds(tokens: Sequence[int], terms: Sequence[str], speller: Letters) -> bool:
    text = text_of(tokens, speller)
    return all(times(term, text) == often for term, often in asked(terms).items())


def score_of(model: Model, tokens: Sequence[int], terms: Terms, config: SearchConfig) -> float:
    """Log-probability of the tokens that do not go on with a term, over their length penalty."""
    state, total, chosen = terms.start, 0.0, 0
    for place, token in enumerate((*tokens, EOS_ID)):
        before = terms.standing(state)
        if token != EOS_ID:
            state = terms.read(state, token)
        if before.inside is None or terms.standing(state).rest >= before.rest:
            total, chosen = total + model(tuple(tokens[:place]))[token], chosen + 1
    return total / length_penalty(chosen, config)


def all_that_hold(
    model: Model, texts: Sequence[str], config: SearchConfig, speller: Letters, limit: int = LIMIT
) -> list[Hypothesis]:
    """Every text that holds the terms, best first."""
    terms = Terms(texts, speller)
    every = itertools.chain.from_iterable(
        itertools.product((4, 5, 6), repeat=size) for size in range(limit)
    )
    best = [
        Hypothesis(list(tokens), score_of(model, tokens, terms, config))
        for tokens in every
        if holds(tokens, texts, speller)
    ]
    return sorted(best, key=lambda each: each.score, reverse=True)


def constrained(
    models: Sequence[Model],
    terms: Sequence[Sequence[str]],
    config: SearchConfig,
    *,
    speller: Letters | None = None,
    limits: Sequence[int] = (),
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    search = ConstrainedSearch([Terms(each, speller or Letters()) for each in terms])
    limited = torch.tensor(limits or [LIMIT] * len(models))
    return search(ToyStepper(models), limited, BOS_ID, config, rules)


def likely(**log_probs: float) -> list[float]:
    """Log-probabilities of end, "<", ">" and "-", by these names."""
    names = ("pad", "unk", "bos", "end", "less", "more", "dash")
    return [log_probs.get(name, -math.inf) for name in names]


@pytest.mark.parametrize(
    ("texts", "speller"),
    [*((each, Letters()) for each in TERMS), *((each, Overlapping()) for each in TERMS[:-1])],
    ids=lambda each: "+".join(each) if isinstance(each, list) else type(each).__name__,
)
@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES[::2])
def test_search_of_full_width_finds_the_best_of_all_that_hold_the_terms(
    texts: list[str], penalty: Literal["length", "gnmt"], alpha: float, speller: Letters
) -> None:
    config = config_of(400, n_best=400, length_penalty=penalty, alpha=alpha)
    (found,) = constrained([random_model(1)], [texts], config, speller=speller)
    best = all_that_hold(random_model(1), texts, config, speller)
    assert len(best) > 3
    assert len(found) == min(len(best), 400)
    assert [each.score for each in found] == pytest.approx([e.score for e in best[: len(found)]])
    assert found[0].tokens == best[0].tokens


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_whatever_the_width_every_term_is_there_exactly_as_often_as_asked(beam: int) -> None:
    texts = [TERMS[seed % len(TERMS)] for seed in range(45)]
    models = [random_model(seed, memory=seed % 4) for seed in range(45)]
    config = config_of(beam, n_best=beam, alpha=1.0)
    found = constrained(models, texts, config, limits=[12 + seed % 5 for seed in range(45)])
    for terms, hypotheses in zip(texts, found, strict=True):
        assert hypotheses
        assert all(holds(each.tokens, terms, Letters()) for each in hypotheses)
        assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses)


def test_a_wide_beam_is_seldom_far_from_the_best_and_a_narrow_one_never_above_it() -> None:
    full, better = config_of(400), 0
    models = [random_model(seed) for seed in range(8)]
    texts = [TERMS[1 + seed] for seed in range(8)]
    best = constrained(models, texts, full)
    for beam in (1, 5):
        found = constrained(models, texts, config_of(beam))
        for one, other in zip(found, best, strict=True):
            assert one[0].score <= other[0].score + 1e-5
            better += one[0].tokens == other[0].tokens
    assert better >= 10


def test_a_score_without_given_tokens_is_that_of_the_plain_search() -> None:
    for seed in range(10):
        for best in constrained([random_model(seed)], [["<", "-"]], config_of(4, n_best=4))[0]:
            whole = log_probability(random_model(seed), best.tokens)
            assert best.score == pytest.approx(whole)


def test_without_terms_the_best_of_full_width_is_what_beam_search_finds() -> None:
    for seed in range(10):
        (plain,) = beam_search(
            ToyStepper([random_model(seed)]), torch.tensor([4]), BOS_ID, config_of(40, n_best=9)
        )
        (found,) = constrained([random_model(seed)], [[]], config_of(40, n_best=9), limits=[4])
        assert [each.tokens for each in found] == [each.tokens for each in plain]
        assert [e.score for e in found] == pytest.approx([e.score for e in plain])


def test_a_batch_of_sentences_is_each_sentence_alone() -> None:
    config = config_of(3, n_best=3, alpha=0.6)
    models = [random_model(seed) for seed in range(18)]
    texts = [TERMS[seed % len(TERMS)] for seed in range(18)]
    limits = [5 + seed % 7 for seed in range(18)]
    together = constrained(models, texts, config, limits=limits)
    for model, terms, limit, found in zip(models, texts, limits, together, strict=True):
        assert constrained([model], [terms], config, limits=[limit]) == [found]


@pytest.mark.parametrize(("texts", "beam"), [(["<>", "-"], 6), ([], 2)])
def test_the_device_is_waited_for_as_often_for_many_sentences_as_for_one(
    texts: list[str], beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, counts, read = 0, [], Tensor.tolist

    def counted(tensor: Tensor) -> object:
        nonlocal waits
        waits += 1
        return read(tensor)

    monkeypatch.setattr(Tensor, "tolist", counted)
    for copies in (1, 9):
        waits = 0
        constrained([random_model(0)] * copies, [texts] * copies, config_of(beam))
        counts.append(waits)
    assert counts[0] == counts[1] > 0


def test_what_does_not_fit_into_the_limit_is_the_best_of_what_misses_least() -> None:
    (found,) = constrained([random_model(0)], [["<>", "-", "-"]], config_of(300), limits=[4])
    assert len(found[0].tokens) == 3
    text = text_of(found[0].tokens, Letters())
    assert sum(min(times(term, text), n) for term, n in {"<>": 1, "-": 2}.items()) == 2
    (found,) = constrained([random_model(0)], [["<>"]], config_of(3), limits=[1])
    assert [each.tokens for each in found] == [[]]


def test_what_misses_a_term_that_does_not_fit_ends_where_the_model_ends_it() -> None:
    def model(said: tuple[int, ...]) -> Sequence[float]:
        return likely(dash=-1.0, less=-9.0, end=-0.1 if said.count(6) == 1 else -5.0)

    for beam in (1, 3):
        (found,) = constrained([model], [["<>>>>"]], config_of(beam), limits=[5])
        assert text_of(found[0].tokens, Letters()) == "-"


def test_a_rule_is_kept_even_where_it_breaks_a_constraint() -> None:
    """In its own sentence, though the one before it has ended."""
    rules = [ForcedPrefix([Request([4], prefix=p) for p in ([], [4, 5, 4])], torch.device("cpu"))]
    models, terms = [random_model(0)] * 2, [["<", "-"]] * 2
    _, found = constrained(models, terms, config_of(3), rules=rules, limits=[1, LIMIT])
    assert found[0].tokens[:3] == [4, 5, 4]
    assert 6 in found[0].tokens


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("size", "terms"), [(1, ["<"] * 3), (1, ["<>"] * 2), (2, ["<><"] * 2)])
def test_what_is_asked_for_may_repeat_where_nothing_else_may(
    size: int, terms: list[str], seed: int
) -> None:
    rules = [NoRepeatNgram(size)]
    (found,) = constrained([random_model(seed)], [terms], config_of(4), rules=rules, limits=[12])
    for each in found:
        assert holds(each.tokens, terms, Letters())
        free = text_of(each.tokens, Letters()).replace(terms[0], " ")
        assert all(times(letter * size, free) <= 1 for letter in "<>-")


@pytest.mark.parametrize("seed", [17, 58, 122])
@pytest.mark.parametrize("term", ["<>", "<>-"])
def test_what_only_begins_a_term_again_and_again_is_stopped(term: str, seed: int) -> None:
    model, config = random_model(seed, memory=1, sharpness=3.0), config_of(4, alpha=1.0)
    rules, limits = [NoRepeatNgram(2)], [14]
    (found,) = constrained([model], [[term]], config, rules=rules, limits=limits)
    assert holds(found[0].tokens, [term], Letters())
    assert "<<<" not in text_of(found[0].tokens, Letters())


def test_a_model_that_has_diverged_finds_nothing() -> None:
    class Diverged(ToyStepper):
        def step(self, tokens: Tensor) -> Tensor:
            return super().step(tokens) * torch.nan

    search = ConstrainedSearch([Terms(["<"], Letters())])
    for limit in (1, 9):
        diverged, limits = Diverged([random_model(0)]), torch.tensor([limit])
        assert search(diverged, limits, BOS_ID, config_of(3)) == [[]]


def test_a_term_is_put_where_the_model_gives_up_least() -> None:
    """The model wants "- - - end", and takes "<" best after two of them."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        dashes, there = said.count(6), 4 in said
        likely = {4: -1.0 if dashes == 2 else -5.0, 6: -0.1, EOS_ID: -7.0, 5: -9.0}
        if dashes == 3:
            likely |= {EOS_ID: -0.1, 6: -7.0}
        if there:
            likely[5] = -20.0  # how unlikely the rest of the term is does not matter
        return [likely.get(token, float("-inf")) for token in range(7)]

    for beam in (2, 3, 5):
        (found,) = constrained([model], [["<>"]], replace(config_of(beam), alpha=1.0), limits=[20])
        assert text_of(found[0].tokens, Letters()) == "--<>-"


def narrowest(model: Model, texts: list[str], limit: int) -> str:
    """What a search with the narrowest beam finds, which must be the best of all there are."""
    config = config_of(1, alpha=1.0)
    (found,) = constrained([model], [texts], config, limits=[limit])
    best = all_that_hold(model, texts, config, Letters(), limit)[0]
    assert found[0].tokens == best.tokens
    assert found[0].score == pytest.approx(best.score)
    return text_of(best.tokens, Letters())


def test_an_end_takes_no_place_from_what_goes_on() -> None:
    """The model would say nothing, and "<" only after a dash."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if 4 in said:
            return likely(end=-0.1, dash=-9.0)
        return likely(less=-0.1, dash=-9.0) if said else likely(end=-0.1, dash=-1.0, less=-9.0)

    assert narrowest(model, ["<"], limit=5) == "-<"


def test_what_would_be_one_too_many_takes_no_place_from_what_would_not() -> None:
    """The model would say nothing but "<", and end after two dashes."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        end = -1.0 if said.count(6) >= 2 else -math.inf
        return likely(less=-0.1, dash=-2.0 if 4 in said else -3.0, end=end)

    assert narrowest(model, ["<"], limit=6) == "<--"


def test_a_draft_that_can_no_longer_hold_its_terms_gives_way_to_one_that_can() -> None:
    """ "<" becomes the likelier the later it is said, until it is too late."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        less = (-4.0, -2.0, -1.0)[min(len(said), 2)]
        end = -0.1 if said.count(5) >= 2 else -math.inf
        return likely(less=-20.0 if 4 in said else less, more=-9.0, dash=-0.1, end=end)

    assert narrowest(model, ["<>>"], limit=5) == "-<>>"


def test_what_holds_more_terms_has_a_place_beside_what_is_likelier_with_fewer() -> None:
    """The model would say dashes, after which no "<" is likely; after both nothing is but ">"."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(4) == 2:
            return likely(more=-3.0, less=-9.0, dash=-9.0, end=-0.1 if said.count(5) >= 2 else -9.0)
        return likely(less=-9.0 if 6 in said else -3.0, dash=-0.1, more=-9.0)

    assert narrowest(model, ["<", "<"], limit=7) == "<<>>"


def test_between_terms_what_is_likelier_is_kept_not_what_has_lost_less() -> None:
    """After a dash nothing is likely: "<" there is nearly the best but worse than at the start."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if 4 in said:
            return likely(dash=-0.1, end=-0.1 if len(said) == 2 else -9.0, less=-9.0)
        return likely(less=-1.6, dash=-1.2, more=-9.0) if said else likely(less=-1.5, dash=-0.5)

    assert narrowest(model, ["<"], limit=5) == "<-"


def test_within_a_term_what_is_likelier_is_kept_not_what_has_lost_less() -> None:
    """Where a dash has been said nothing is likely, so that nothing is lost by what is not."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(5) >= 3:
            return likely(end=-0.1, dash=-9.0)
        if 4 in said:
            return likely(more=-9.0, dash=-9.0)
        return likely(less=-3.1, dash=-3.0) if said else likely(less=-1.5, dash=-0.5)

    assert narrowest(model, ["<>>>"], limit=8) == "<>>>"


def test_what_is_within_a_term_has_a_place_beside_what_gave_it_up() -> None:
    """ "<" is likely at the start only, and a dash always."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(5) >= 3:
            return likely(end=-0.1, dash=-9.0)
        return likely(less=-9.0 if said else -1.1, dash=-0.1, more=-12.0)

    assert narrowest(model, ["<>>>"], limit=7) == "<>>>"


def test_within_a_term_the_mean_of_what_is_chosen_counts() -> None:
    """ "-<" is less likely than "<>", in which one token is given, but has two of its own."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if 4 in said:
            return likely(end=-0.1 if said[0] == 6 else -2.0, dash=-9.0, more=-9.0)
        return likely(less=(-1.0, -1.5, -9.0)[min(len(said), 2)], dash=-0.1)

    assert narrowest(model, ["<>>"], limit=6) == "-<>>"


def test_what_is_between_terms_has_the_last_place_before_what_is_within_one() -> None:
    """What holds the term has the other. The model would say "<" after two dashes."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if 4 in said:
            more = -9.0 if said[-1] == 4 else -math.inf
            return likely(end=-0.1 if said[:2] == (6, 6) else -5.0, more=more)
        return likely(less=-0.1 if len(said) == 2 else -3.0, dash=-0.1)

    assert narrowest(model, ["<>"], limit=6) == "--<>"


def test_of_two_terms_that_are_begun_the_likelier_has_the_last_place() -> None:
    """Two terms have three places, of which both whole ones and a dash take theirs first."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(4) >= 2 and said.count(5) >= 2:
            return likely(end=-0.1, dash=-9.0)
        less, more = {(): (-1.0, -1.2), (4, 4): (-9.0, -5.0), (5, 5): (-1.0, -9.0)}.get(
            said, (-9.0, -9.0)
        )
        return likely(less=less, more=more, dash=-0.1)

    assert narrowest(model, ["<<", ">>"], limit=7) == ">><<"


def test_of_many_numbers_of_terms_those_have_places_that_miss_few() -> None:
    """Five numbers have four places. The model ends after four "<", which it seldom says."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(4) == 4:
            return likely(end=-0.1 if len(said) == 4 else -9.0, dash=-9.0)
        return likely(less=-2.0, dash=-0.1)

    assert narrowest(model, ["<"] * 4, limit=9) == "<<<<"


def test_what_has_lost_less_than_a_finished_one_is_waited_for() -> None:
    """Nothing is likely after a dash but what comes after "-<"; "<" at once is soon finished."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said[:1] == (4,):
            return likely(end=-0.1, dash=-9.0)
        if 4 in said:
            return likely(dash=-0.1, end=-9.0) if len(said) < 5 else likely(end=-0.1, dash=-9.0)
        return likely(less=-1.9, dash=-2.5) if said else likely(less=-1.5, dash=-0.5)

    assert narrowest(model, ["<"], limit=7) == "-<---"


def test_nothing_is_waited_for_that_has_lost_more_than_a_finished_one() -> None:
    """The model would say "<" and end; after another dash it seldom ends."""
    steps = []

    def model(said: tuple[int, ...]) -> Sequence[float]:
        steps.append(len(said))
        if 4 not in said:
            return likely(less=-0.1, dash=-3.0)
        return likely(end=-6.0, dash=-0.1) if said[-1] == 6 else likely(end=-0.1, dash=-3.0)

    (found,) = constrained([model], [["<"]], config_of(2), limits=[20])
    assert text_of(found[0].tokens, Letters()) == "<"
    assert max(steps) == 2


def test_what_begins_a_term_has_lost_no_more_for_being_far_from_the_likeliest() -> None:
    """The model would say a dash or ">" before "<", and end after each."""
    steps = []

    def model(said: tuple[int, ...]) -> Sequence[float]:
        steps.append(len(said))
        if not said:
            return likely(dash=-0.1, more=-0.2, less=-3.0)
        return likely(end=-0.1, dash=-9.0 if 4 in said else -4.1, less=-9.0)

    (found,) = constrained([model], [["<"]], config_of(1), limits=[20])
    assert text_of(found[0].tokens, Letters()) == "<"
    assert max(steps) == 1


def test_each_term_that_is_begun_has_a_place_of_its_own() -> None:
    """At the start "<" is likelier than ">", which comes at no other time."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        if said.count(5) >= 3:
            return likely(less=-0.5, dash=-9.0, end=-0.1 if said.count(4) >= 3 else -9.0)
        return likely(less=-0.6 if said else -1.5, more=-9.0 if said else -2.0, dash=-0.1)

    assert narrowest(model, ["<<<", ">>>"], limit=10) == ">>><<<"


def test_what_says_a_term_too_often_ends_where_the_model_ends_it() -> None:
    """A prefix says it twice."""

    def model(said: tuple[int, ...]) -> Sequence[float]:
        return likely(dash=-1.0, less=-9.0, end=-0.1 if said.count(6) == 1 else -5.0)

    rules = [ForcedPrefix([Request([4], prefix=[4, 4])], torch.device("cpu"))]
    (found,) = constrained([model], [["<"]], config_of(2), rules=rules, limits=[9])
    assert text_of(found[0].tokens, Letters()) == "<<-"


def test_many_terms_do_not_make_the_search_wider_than_four_plain_ones() -> None:
    asked_for = []

    class Watched(ToyStepper):
        def start(self, width: int) -> None:
            asked_for.append(width)
            super().start(width)

    for terms in ([], ["-"], ["-"] * 2, ["-"] * 9):
        search = ConstrainedSearch([Terms(terms, Letters())])
        (found,) = search(Watched([random_model(0)]), torch.tensor([20]), BOS_ID, config_of(5))
        assert text_of(found[0].tokens, Letters()).count("-") == len(terms)
    several = ConstrainedSearch([Terms(["-"] * often, Letters()) for often in (0, 2, 1)])
    several(Watched([random_model(0)] * 3), torch.tensor([20] * 3), BOS_ID, config_of(5))
    assert asked_for == [5, 10, 15, 20, 15], "and several sentences are as wide as the widest"


def test_random_terms_of_random_models_are_held_if_there_is_room() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        texts = ["".join(rng.choices("<>-", k=rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        room = 1 + sum(len(term) * often for term, often in asked(texts).items())
        for beam, limit in itertools.product((1, 4), (room, room + 11)):
            (found,) = constrained([random_model(seed)], [texts], config_of(beam), limits=[limit])
            possible = holds(found[0].tokens, texts, Letters())
            assert possible, (texts, text_of(found[0].tokens, Letters()))


def test_tokens_come_by_likelihood_however_many_there_are() -> None:
    log_probs = torch.randn(300)
    tokens = list(dict(by_likelihood(log_probs)))
    assert tokens == log_probs.argsort(descending=True).tolist()
