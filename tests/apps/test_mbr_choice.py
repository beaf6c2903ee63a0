"""What --mbr chooses by: weights, with a utility that tells only whether texts are the same."""

import argparse
import math
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from seq2seq.apps import mbr
from seq2seq.apps.mbr import chooser, weights
from seq2seq.config import Sampling, SearchConfig
from seq2seq.decoding.search import length_penalty
from seq2seq.translation import BLANK, Translation

FOUND = [Translation("a", -1.0, [7]), Translation("b", -3.0, [8]), Translation("b", -3.0, [9])]
"""The likeliest one, and one that was found twice."""


def same(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[float]]:
    return [[float(one == other) for other in references] for one in hypotheses]


@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize(
    ("free", "rerank", "settings", "first"),
    [
        (True, None, {}, "a"),
        (False, None, {}, "b"),
        (True, "backward", {}, "b"),
        (True, None, {"sampling": Sampling()}, "b"),
        (True, None, {"coverage_penalty": 0.2}, "b"),
        (True, None, {"repetition_penalty": 1.5}, "b"),
    ],
    ids=str,
)
def test_candidates_weigh_what_is_probable_where_scores_are_probabilities_and_else_the_same(
    free: bool,
    rerank: str | None,
    settings: dict[str, Any],
    first: str,
    n_best: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mbr, "utility_for", lambda name, model: same)
    args = argparse.Namespace(mbr="chrf", model="run", rerank=rerank, n_best=n_best)
    best, *others = chooser(args, SearchConfig(**settings))(FOUND, free)
    assert best.text == first
    assert len(others) == n_best - 1
    if first == "b":
        assert best.tokens == FOUND[1].tokens
        assert best.score == pytest.approx(2 / 3)


def test_without_it_everything_found_is_kept_as_it_is() -> None:
    assert chooser(argparse.Namespace(mbr=None), SearchConfig())(FOUND, True) == FOUND


@pytest.mark.parametrize("penalty", ["length", "gnmt"])
def test_weights_are_in_proportion_to_probabilities(penalty: Literal["length", "gnmt"]) -> None:
    config = SearchConfig(length_penalty=penalty, alpha=0.7)
    log_probs, tokens = [-3.0, -800.0, -801.0], [[7], [7, 8], [7, 8, 9, 10]]
    candidates = [
        Translation("", each / length_penalty(len(said) + 1, config), said)
        for each, said in zip(log_probs, tokens, strict=True)
    ]
    assert weights(candidates, config) == pytest.approx([1.0, 0.0, 0.0])
    assert weights(candidates[1:], config) == pytest.approx([1.0, math.exp(-1.0)])


@pytest.mark.parametrize(
    "found",
    [[*FOUND, Translation("a b", -2.0, pieces=2)], [BLANK], [Translation("", -math.inf, [])]],
)
def test_what_has_no_probability_has_no_weights(found: list[Translation]) -> None:
    assert weights(found, SearchConfig()) is None
