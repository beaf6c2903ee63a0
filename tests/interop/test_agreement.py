"""The comparison of two engines, on engines that say what they are told to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from seq2seq.config import EOS_ID, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.interop.agreement import compare
from seq2seq.interop.sample import Example

EXAMPLES = [Example(7, [5], [6, 6]), Example(8, [9, 9, 9], [4]), Example(9, [8, 4], [])]


@dataclass
class Fixed:
    """Repeats the source, or says something else; every token has the same log-probability."""

    said: dict[int, list[int]] = field(default_factory=dict)
    """Greedy translations by the length of the source, where they are no repetition."""
    beam: dict[int, list[int]] = field(default_factory=dict)
    token: dict[int, float] = field(default_factory=dict)
    """Log-probabilities that are not -1."""
    max_length: int | None = None
    parallel: int = 1

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        said = self.said if config.beam == 1 else {**self.said, **self.beam}
        found = [said.get(len(each.src), list(each.src)) for each in batch]
        return [[Hypothesis(tokens, -float(len(tokens)))] for tokens in found]

    def log_probs(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[Tensor]:
        return [torch.tensor([self.token.get(i, -1.0) for i in [*ids, EOS_ID]]) for ids in tgt]


def test_equal_engines_differ_in_nothing() -> None:
    found = compare(Fixed(), Fixed(), EXAMPLES, SearchConfig())
    assert (found.forced, found.greedy, found.differing, found.score_difference) == (0, [], [], 0)
    assert found.equal
    assert [each.tokens for each in found.other.best] == [[5], [9, 9, 9], [8, 4]]


@pytest.mark.parametrize(("off", "equal"), [(1.5e-4, False), (0.5e-4, True), (math.nan, False)])
def test_a_log_probability_that_is_off_is_told(off: float, equal: bool) -> None:
    found = compare(Fixed(), Fixed(token={6: -1 - off}), EXAMPLES, SearchConfig())
    assert found.forced == pytest.approx(off, abs=1e-6, nan_ok=True)
    assert found.equal is equal


def test_of_what_we_never_say_nothing_is_asked() -> None:
    never = Fixed(token={6: -math.inf})
    assert compare(never, Fixed(), EXAMPLES, SearchConfig()).equal


def test_two_log_probabilities_of_nothing_are_equal_and_one_of_them_is_not() -> None:
    masked = Fixed(token={6: -10001.25})
    assert compare(masked, Fixed(token={6: -10001.5}), EXAMPLES, SearchConfig()).equal
    assert not compare(masked, Fixed(token={6: -10.0}), EXAMPLES, SearchConfig()).equal
    assert not compare(Fixed(), masked, EXAMPLES, SearchConfig()).equal


def test_another_greedy_translation_counts_unless_it_is_a_tie() -> None:
    ours = Fixed(token={9: -2.0, 7: -2.00005, EOS_ID: -0.5, 6: -0.5002})
    other, nearly = (replace(ours, said=said) for said in ({1: [5, 6], 3: [9, 7]}, {3: [9, 7]}))
    found = compare(ours, other, EXAMPLES, SearchConfig())
    assert (found.forced, found.greedy, found.ties, found.equal) == (0, [0, 1], [1], False)
    tie = compare(ours, nearly, EXAMPLES, SearchConfig())
    assert (tie.greedy, tie.ties, tie.equal) == ([1], [1], True)


def test_what_a_beam_finds_is_told_and_no_fault() -> None:
    found = compare(Fixed(), Fixed(beam={2: [8, 4, 4, 4]}), EXAMPLES, SearchConfig())
    assert (found.differing, found.score_difference, found.equal) == ([2], 2.0, True)
