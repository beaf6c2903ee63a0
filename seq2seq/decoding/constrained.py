"""Beam search for translations that must hold phrases, each exactly as often as asked.

Grid beam search (Hokamp and Liu 2017) gives a beam of its own to the beginnings that hold n of the
phrases, since those that hold fewer are always likelier. Its beams are dealt out dynamically here,
as by Post and Vilar (2018): what one of them does not need the others get.
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
from seq2seq.decoding.search import Hypothesis, Rule, Stepper, length_penalty

MOST_BEAMS = 4
"""However many phrases there are, the search is at most so many times as wide as a plain one."""


class ConstrainedSearch:
    """A `Search`, see search.py, under one constraint for each sentence.

    Each draft goes on with its likeliest tokens, and with all that help it to a missing phrase; it
    may end when it is complete. `limits` should leave room for the phrases. Where nothing complete
    is found within them, it is the best of what misses least.
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
        stepper.start(width, int(limits.max()))
        alive = torch.arange(len(limits), device=limits.device)  # (B,), numbers of open sentences
        tokens = torch.full((len(alive) * width,), start_id, device=limits.device)  # (B * W,)
        prefixes = tokens.new_empty(len(alive), width, 0)  # (B, W, t)
        while True:
            log_probs = stepper.step(tokens).unflatten(0, (-1, width))  # (B, W, V)
            for rule in rules:
                log_probs = rule(log_probs, prefixes, alive)
            numbers = alive.tolist()
            for number, each in zip(numbers, log_probs, strict=True):
                sentences[number].go_on(each)

            going = [row for row, number in enumerate(numbers) if sentences[number].drafts]
            if not going:
                return [each.found() for each in sentences]
            rows = torch.tensor(going, device=limits.device)
            drafts = [sentences[numbers[row]].filled(width) for row in going]
            beams = torch.tensor([[draft.beam for draft in each] for each in drafts])
            prefixes = torch.tensor([[draft.tokens for draft in each] for each in drafts]).to(rows)
            stepper.select(rows, beams.to(rows))
            alive, tokens = alive[rows], prefixes[:, :, -1].flatten()


class Draft(NamedTuple):
    """A beginning of a translation."""

    beam: int
    """Which one of the step before it goes on with."""
    tokens: tuple[int, ...]
    score: float
    """Its log-probability."""
    lost: float
    """Log-probability given up against the likeliest token wherever it was free to choose. Unlike
    scores, this compares drafts at different places of a phrase."""
    state: Any
    standing: Standing


class SentenceSearch:
    """The drafts of one sentence, and what has been finished."""

    def __init__(self, constraint: Constraint, limit: int, config: SearchConfig) -> None:
        self.constraint, self.limit, self.config = constraint, limit, config
        begun = constraint.standing(constraint.start)
        self.drafts = [Draft(0, (), 0.0, 0.0, constraint.start, begun)]
        self.width = config.beam * min(1 + begun.missing, MOST_BEAMS)
        self._finished: list[Draft] = []
        self._wrong: list[Draft] = []
        """What came to its end, but holds something too seldom or too often."""

    def filled(self, width: int) -> list[Draft]:
        """The drafts, and the first one again for each beam that has none: nobody reads those."""
        return [*self.drafts, *self.drafts[:1] * (width - len(self.drafts))]

    def go_on(self, log_probs: Tensor) -> None:
        """One step: log_probs (W, V) of what follows the drafts."""
        log_probs = log_probs[: len(self.drafts)]
        if len(self.drafts[0].tokens) + 1 < self.limit:
            tops = log_probs.topk(min(self.config.beam + 1, log_probs.shape[1]))
            rows = zip(log_probs, tops.values.tolist(), tops.indices.tolist(), strict=True)
            grown = [each for beam, row in enumerate(rows) for each in self._grow(beam, *row)]
        else:
            ends = enumerate(log_probs[:, EOS_ID].tolist())
            grown = [self._next(beam, EOS_ID, end, 0.0) for beam, end in ends if end > -math.inf]
        ended = [each for each in grown if each.tokens[-1] == EOS_ID]
        self._finished += [each for each in ended if each.standing.complete]
        self._wrong += [each for each in ended if not each.standing.complete]
        going = [each for each in grown if each.tokens[-1] != EOS_ID]
        going = [each for each in going if not each.standing.over] or going
        self.drafts = [] if self._is_settled(going) else dealt(going, self.width, self.limit)

    def _grow(
        self, beam: int, log_probs: Tensor, values: Sequence[float], tokens: Sequence[int]
    ) -> Iterator[Draft]:
        """What one draft may become: log_probs (V,), and the largest of them with their tokens."""
        draft, seen, fitting = self.drafts[beam], set[int](), 0
        for token, gained in chain(zip(tokens, values, strict=True), by_likelihood(log_probs)):
            if fitting == self.config.beam or not gained > -math.inf:
                break
            if token in seen or (token == EOS_ID and not may_end(draft.standing)):
                continue
            seen.add(token)
            yield (grown := self._next(beam, token, gained, values[0]))
            fitting += token != EOS_ID and grown.standing.over == draft.standing.over
        helpful = [token for token in self.constraint.helpful(draft.state) if token not in seen]
        for token, gained in zip(helpful, log_probs[helpful].tolist(), strict=True):
            if gained > -math.inf:
                yield self._next(beam, token, gained, values[0])

    def _next(self, beam: int, token: int, gained: float, best: float) -> Draft:
        draft = self.drafts[beam]
        tokens, score, lost = (*draft.tokens, token), draft.score + gained, draft.lost
        if token == EOS_ID:
            return Draft(beam, tokens, score, lost + best - gained, draft.state, draft.standing)
        state = self.constraint.read(draft.state, token)
        standing = self.constraint.standing(state)
        if draft.standing.inside is None or standing.rest >= draft.standing.rest:
            lost += best - gained
        return Draft(beam, tokens, score, lost, state, standing)

    def _is_settled(self, going: Sequence[Draft]) -> bool:
        """As many are finished as the beam is wide, and whatever goes on has lost more already."""
        if len(self._finished) < self.config.beam:
            return not going
        in_time = (each.lost for each in going if not is_late(each, self.limit))
        return sorted(each.lost for each in self._finished)[self.config.beam - 1] <= min(
            in_time, default=math.inf
        )

    def found(self) -> list[Hypothesis]:
        """The n best, best first; without a complete one, the best of those that miss least."""
        least = min((each.standing.missing for each in self._wrong), default=0)
        ended = self._finished or [d for d in self._wrong if d.standing.missing == least]
        found = [
            Hypothesis(list(tokens[:-1]), score / length_penalty(len(tokens), self.config))
            for _, tokens, score, *_ in ended
        ]
        return sorted(found, key=lambda each: each.score, reverse=True)[: self.config.n_best]


def may_end(standing: Standing) -> bool:
    """Complete, or beyond help with nothing missing."""
    return standing.complete or (standing.over and not standing.missing)


def is_late(draft: Draft, limit: int) -> bool:
    """There is no room for what it misses."""
    return len(draft.tokens) + draft.standing.rest + 1 > limit


def by_likelihood(log_probs: Tensor) -> Iterator[tuple[int, float]]:
    """All tokens: (V,) -> token and its log-probability, likeliest first. Slow, so asked last."""
    values, tokens = log_probs.sort(descending=True)
    yield from zip(tokens.tolist(), values.tolist(), strict=True)


def dealt(drafts: Sequence[Draft], slots: int, limit: int) -> list[Draft]:
    """Those that go on: `slots` of them.

    The slots are dealt in turn to those that miss none of the phrases, one of them, and so on; and
    of each of these, in turn, to those between phrases and those inside of each one. Of those
    between phrases the likeliest come first, of those inside one those that have lost least. What
    is late comes last of all.
    """
    banks = defaultdict[tuple[bool, int], dict[int | None, list[Draft]]](lambda: defaultdict(list))
    for draft in drafts:
        standing = draft.standing
        banks[is_late(draft, limit), standing.missing][standing.inside].append(draft)
    ranked = []
    for (late, missing), parts in banks.items():
        places = []
        for inside, part in parts.items():
            part.sort(key=lambda each: -each.score if each.standing.inside is None else each.lost)
            places += [(place, inside is not None, each) for place, each in enumerate(part)]
        places.sort(key=lambda each: each[:2])
        ranked += [(late, rank, missing, each) for rank, (*_, each) in enumerate(places)]
    ranked.sort(key=lambda each: each[:3])
    return [draft for *_, draft in ranked[:slots]]
