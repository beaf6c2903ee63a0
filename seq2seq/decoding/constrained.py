"""Beam search for translations that must hold phrases, each exactly as often as asked.

Grid beam search (Hokamp and Liu 2017) gives a beam of its own to the beginnings that hold n of the
phrases, since those that hold fewer are always likelier. Here, as in Post and Vilar (2018), beams
are dealt out anew at each step: what the ones do not need the others get.

A phrase's first token is chosen, those after it are given: neither their probability nor their
number counts. That a URL is long or unlikely says nothing about its translation, and a mean over
all tokens would favour translations that say more besides.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.decoding.constraint import Constraint, Standing
from seq2seq.decoding.progress import sent
from seq2seq.decoding.rules import NoRepeatNgram
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty

MOST_BEAMS = 4
"""However many phrases there are, the search is at most so many times as wide as a plain one."""


class ConstrainedSearch:
    """A `Search`, see search.py, under one constraint for each sentence.

    A draft goes on with its likeliest tokens, as many as the plain beam is wide, and with all that
    help it to a missing phrase.
    `limits` should leave room for the phrases. Where nothing complete is found within them, the
    best of what misses least is given.
    """

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        self.constraints = constraints

    def __call__(
        self,
        stepper: Stepper,
        limits: Tensor,
        start_id: int,
        config: SearchConfig,
        rules: Sequence[Rule] = (),
    ) -> list[list[Hypothesis]]:
        pairs = zip(self.constraints, limits.tolist(), strict=True)
        sentences = [SentenceSearch(constraint, limit, config) for constraint, limit in pairs]
        width = max(each.width for each in sentences)
        stepper.start(width)
        numbers, device = list(range(len(limits))), limits.device  # B numbers of open sentences
        tokens = torch.full((len(limits) * width,), start_id, device=device)  # (B * W,)
        prefixes = tokens.new_empty(len(limits), width, 0)  # (B, W, t)
        while True:
            log_probs = stepper.step(tokens).unflatten(0, (-1, width))  # (B, W, V)
            for rule in rules:
                ruled = rule(log_probs, prefixes, sent(numbers, device))
                if isinstance(rule, NoRepeatNgram):  # what is asked for may repeat
                    places = places_of([sentences[number].nearer() for number in numbers], device)
                    ruled = ruled.index_put(places, log_probs[places])
                log_probs = ruled
            asked = [sentences[number].asks() for number in numbers]
            views = views_of(log_probs, config.beam + 1, asked)
            for number, view in zip(numbers, views, strict=True):
                sentences[number].go_on(view)

            going = [row for row, number in enumerate(numbers) if sentences[number].drafts]
            if not going:
                return [each.found() for each in sentences]
            numbers = [numbers[row] for row in going]
            drafts = [sentences[number].filled(width) for number in numbers]
            prefixes = sent([[draft.tokens for draft in each] for each in drafts], device)
            beams = sent([[draft.beam for draft in each] for each in drafts], device)
            stepper.select(going, beams)
            tokens = prefixes[:, :, -1].flatten()


class Draft(NamedTuple):
    """A translation, or a beginning of one."""

    beam: int
    """Which draft of the step before it continues."""
    tokens: tuple[int, ...]
    """With the end token, if it has ended."""
    chosen: int
    """How many tokens are not given."""
    score: float
    """Log-probability of those."""
    lost: float
    """How much higher the score would be if each of those had been the likeliest. Unlike scores,
    this can be compared where one draft has more left to choose than another."""
    state: Any
    standing: Standing


class View(NamedTuple):
    """What may follow the drafts of one sentence."""

    log_probs: Tensor
    """(W, V), on the device."""
    tops: list[list[tuple[int, float]]]
    """Of each draft the likeliest tokens with their log-probabilities, best first."""
    told: list[list[tuple[int, float]]]
    """Of each draft those that it asked about."""


Asked = Sequence[Sequence[Sequence[int]]]
"""For each sentence, for each of its drafts, the tokens that it asks about."""


def places_of(asked: Asked, device: torch.device) -> tuple[Tensor, ...]:
    """Where they stand in (B, W, V), one after the other."""
    places = [
        (row, beam, token)
        for row, drafts in enumerate(asked)
        for beam, wanted in enumerate(drafts)
        for token in wanted
    ]
    return sent(places, device).view(-1, 3).unbind(1)


def views_of(log_probs: Tensor, count: int, asked: Asked) -> list[View]:
    """log_probs (B, W, V) -> of each sentence. The device is waited for three times, however many
    there are."""
    tops = log_probs.topk(min(count, log_probs.shape[2]))  # (B, W, count)
    values, tokens = tops.values.tolist(), tops.indices.tolist()
    told = iter(log_probs[places_of(asked, log_probs.device)].tolist())
    return [
        View(
            log_probs[row],
            [list(zip(*top, strict=True)) for top in zip(tokens[row], values[row], strict=True)],
            [[(token, next(told)) for token in wanted] for wanted in drafts],
        )
        for row, drafts in enumerate(asked)
    ]


class SentenceSearch:
    """The drafts of one sentence, and what has come to its end."""

    def __init__(self, constraint: Constraint, limit: int, config: SearchConfig) -> None:
        self.constraint, self.limit, self.config = constraint, limit, config
        begun = constraint.standing(constraint.start)
        self.width = config.beam * min(1 + begun.missing, MOST_BEAMS)
        self.drafts = [Draft(0, (), 0, 0.0, 0.0, constraint.start, begun)]
        self._finished: list[Draft] = []
        self._wrong: list[Draft] = []
        """Ended, but holds something too seldom or too often."""

    def filled(self, width: int) -> list[Draft]:
        """The drafts, and the first one again for each beam that has none: nobody reads those."""
        return [*self.drafts, *self.drafts[:1] * (width - len(self.drafts))]

    def asks(self) -> list[list[int]]:
        """Of each draft the tokens to be told of: what helps, or the end if it has to end."""
        if self._must_end:
            return [[EOS_ID] for _ in self.drafts]
        return [list(self.constraint.helpful(draft.state)) for draft in self.drafts]

    def nearer(self) -> list[list[int]]:
        """Of each draft the tokens with which less of the phrases is left to say."""
        read, standing = self.constraint.read, self.constraint.standing
        return [
            [
                token
                for token in self.constraint.helpful(draft.state)
                if standing(read(draft.state, token)).rest < draft.standing.rest
            ]
            for draft in self.drafts
        ]

    @property
    def _must_end(self) -> bool:
        return len(self.drafts[0].tokens) + 1 >= self.limit

    def go_on(self, view: View) -> None:
        """One step."""
        if self._must_end:
            ends = enumerate(end for ((_, end),) in view.told)
            grown = [self._next(beam, EOS_ID, end, end) for beam, end in ends if end > -math.inf]
        else:
            beams = range(len(self.drafts))
            grown = [each for beam in beams for each in self._grow(beam, view)]
        ended = [each for each in grown if each.tokens[-1] == EOS_ID]
        self._finished += [each for each in ended if each.standing.complete]
        self._wrong += [each for each in ended if not each.standing.complete]
        going = [each for each in grown if each.tokens[-1] != EOS_ID]
        going = [each for each in going if not each.standing.over] or going
        self.drafts = [] if self._is_settled(going) else dealt(going, self.width, self.limit)

    def _grow(self, beam: int, view: View) -> Iterator[Draft]:
        """What one draft may become: with its likeliest tokens, until `config.beam` of them neither
        end it nor write a phrase once too often, then with what it asked about."""
        draft, tops, seen, fitting = self.drafts[beam], view.tops[beam], set[int](), 0
        for token, gained in chain(tops, by_likelihood(view.log_probs[beam])):
            if not gained > -math.inf:
                break
            if token in seen:
                continue
            seen.add(token)
            yield (grown := self._next(beam, token, gained, tops[0][1]))
            fitting += token != EOS_ID and grown.standing.over == draft.standing.over
            if fitting == self.config.beam:
                break
        for token, gained in view.told[beam]:
            if token not in seen and gained > -math.inf:
                yield self._next(beam, token, gained, tops[0][1])

    def _next(self, beam: int, token: int, gained: float, best: float) -> Draft:
        _, tokens, chosen, score, lost, state, before = self.drafts[beam]
        standing = before
        if token != EOS_ID:
            state = self.constraint.read(state, token)
            standing = self.constraint.standing(state)
        if before.inside is None or standing.rest >= before.rest:
            chosen, score, lost = chosen + 1, score + gained, lost + best - gained
        return Draft(beam, (*tokens, token), chosen, score, lost, state, standing)

    def _is_settled(self, going: Sequence[Draft]) -> bool:
        """As many are finished as the plain beam is wide, and one of them has lost no more than
        anything that goes on."""
        if len(self._finished) < self.config.beam:
            return False
        least = min(each.lost for each in self._finished)
        return all(least <= each.lost for each in going)

    def found(self) -> list[Hypothesis]:
        """The n best, best first; without a complete one, the best of those that miss least."""
        least = min((each.standing.missing for each in self._wrong), default=0)
        ended = self._finished or [d for d in self._wrong if d.standing.missing == least]
        found = [
            Hypothesis(
                list(each.tokens[:-1]), each.score / length_penalty(each.chosen, self.config)
            )
            for each in ended
        ]
        return sorted(found, key=lambda each: each.score, reverse=True)[: self.config.n_best]


def is_late(draft: Draft, limit: int) -> bool:
    """There is no room left for what it misses."""
    return len(draft.tokens) + draft.standing.rest + 1 > limit


def by_likelihood(log_probs: Tensor) -> Iterator[tuple[int, float]]:
    """log_probs (V,) -> tokens with their log-probabilities, the likeliest first, some twice."""
    for size in (min(100, len(log_probs)), len(log_probs)):  # few ask for more than a hundred
        values, tokens = log_probs.topk(size)
        yield from zip(tokens.tolist(), values.tolist(), strict=True)


def dealt(drafts: Sequence[Draft], slots: int, limit: int) -> list[Draft]:
    """The drafts that go on, as many as there are slots.

    Slots are dealt in rounds: one to the drafts that miss no phrase, one to those that miss one,
    and so on. Drafts that miss equally many take turns: the best between phrases, the best inside
    of each phrase, then the second best of each. The best is the one whose chosen tokens are
    likeliest on average. Late drafts, see `is_late`, get the slots that are left.
    """
    banks: dict[tuple[bool, int], dict[int | None, list[Draft]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for draft in sorted(drafts, key=lambda each: each.score / each.chosen, reverse=True):
        standing = draft.standing
        banks[is_late(draft, limit), standing.missing][standing.inside].append(draft)
    turns = []
    for (late, missing), parts in banks.items():
        ranked = [
            ((place, inside is not None), each)
            for inside, part in parts.items()
            for place, each in enumerate(part)
        ]
        ranked.sort(key=lambda pair: pair[0])
        turns += [((late, turn, missing), each) for turn, (_, each) in enumerate(ranked)]
    turns.sort(key=lambda pair: pair[0])
    return [draft for _, draft in turns[:slots]]
