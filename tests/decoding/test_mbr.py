"""Minimum Bayes risk against expected utilities added up by hand, with a utility of no meaning."""

import math
import random
from collections.abc import Sequence

import pytest

from seq2seq.decoding.mbr import Choice, rank


def likeness(one: str, other: str) -> float:
    """Not symmetric, so that sides that are mixed up are seen; and good to say for the short."""
    return 10.0 * len(set(one) & set(other)) + len(one) - 2 * len(other)


def utility(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[float]]:
    return [[likeness(one, other) for other in references] for one in hypotheses]


def test_the_candidate_that_is_most_like_all_is_first() -> None:
    ranked = rank(["x y", "a b c", "a b d", "a b"], utility)
    assert ranked[0].place in (1, 2)
    assert ranked[-1].place == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_utilities_are_expected_over_all_candidates_copies_too(weighted: bool) -> None:
    draw = random.Random(7)
    for _ in range(20):
        texts = ["".join(draw.choices("abcdef", k=draw.randint(1, 5))) for _ in range(9)]
        texts += draw.choices(texts, k=4)
        weights = [draw.random() if weighted else 1.0 for _ in texts]
        expected = [
            sum(w * likeness(one, other) for other, w in zip(texts, weights, strict=True))
            / sum(weights)
            for one in texts
        ]
        ranked = rank(texts, utility, weights if weighted else None)
        assert [texts[each.place] for each in ranked[:1]] == [
            texts[max(range(len(texts)), key=expected.__getitem__)]
        ]
        for place, found in ranked:
            assert found == pytest.approx(expected[place])
        assert [each.utility for each in ranked] == sorted((u for _, u in ranked), reverse=True)
        assert {each.place for each in ranked} == {texts.index(text) for text in texts}


def test_the_same_text_is_compared_once() -> None:
    asked: list[tuple[int, int]] = []

    def counting(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[float]]:
        asked.append((len(hypotheses), len(references)))
        return utility(hypotheses, references)

    rank(["a", "b", "a", "a", "b", "c"], counting)
    assert asked == [(3, 3)]


def test_of_equal_candidates_the_first_one_wins() -> None:
    ranked = rank(["ab", "cd", "ef"], lambda said, right: [[1.0] * len(right) for _ in said])
    assert [each.place for each in ranked] == [0, 1, 2]


def test_a_candidate_alone_is_chosen_whatever_it_is() -> None:
    assert rank([""], utility) == [Choice(0, 0.0)]
    assert rank(["a", "a"], utility, [0.0, 1e-300])[0].utility == pytest.approx(9.0)


def test_weights_can_outvote_the_many() -> None:
    texts = ["aa", "aab", "xyz"]
    assert rank(texts, utility)[0].place != 2
    assert rank(texts, utility, [1e-9, 1e-9, 1.0])[0].place == 2
    assert math.isclose(rank(texts, utility, [0.0, 0.0, 5.0])[0].utility, likeness("xyz", "xyz"))
