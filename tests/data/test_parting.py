"""The guess finds the place where lines were taken out or put in."""

import random
from itertools import permutations

import pytest
from toy_corpora import CORPORA, latin

from seq2seq.data.parting import Parting, find_parting, find_shifted, related

SHARED = [*map(str, range(100, 130)), *map("".join, permutations("abcd", 3))]
ALONE = {
    "lengths": [("e" * length, "f" * length) for length in range(5, 40)],
    "numbers and names": [(f"e {shared}", f"f {shared.upper()}") for shared in SHARED],
    "final signs": list(zip("?!:;.", "？！：；。", strict=True)),  # noqa: RUF001
}
"""Lines and their translations, which have only this in common."""


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize(
    ("place", "taken", "put"),
    [(0, 1, 0), (3, 0, 2), (699, 1, 0), (1200, 7, 0), (500, 0, 5), (700, 60, 0), (900, 0, 900)],
)
def test_the_place_and_the_shift_are_found(corpus: str, place: int, taken: int, put: int) -> None:
    pairs = CORPORA[corpus](2600, 0)
    src, tgt = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    more = [pair[1] for pair in CORPORA[corpus](put, 9)]
    tgt = tgt[:place] + more + tgt[place + taken :]
    found = find_parting(src, tgt, put - taken)
    assert found is not None
    assert found.shift == put - taken
    assert abs(found.line - (place + 1)) <= 3


@pytest.mark.parametrize("lines", ALONE.values(), ids=ALONE.keys())
def test_one_thing_that_translations_have_in_common_is_enough(lines: list[tuple[str, str]]) -> None:
    src, tgt = map(list, zip(*random.Random(0).choices(lines, k=1000), strict=True))
    del tgt[600]
    assert find_parting(src, tgt, -1) == Parting(601, -1)


def test_a_line_that_is_missing_close_to_the_end_is_found() -> None:
    src, tgt = map(list, zip(*latin(1000), strict=True))
    del src[960]
    found = find_parting(src, tgt, 1)
    assert found is not None
    assert found.shift == 1
    assert abs(found.line - 961) <= 3


def test_behind_more_lines_than_are_tried_the_guess_is_where_the_sides_still_fit() -> None:
    src, tgt = map(list, zip(*latin(4000), strict=True))
    tgt[900:900] = [pair[1] for pair in latin(1100, 9)]
    found = find_parting(src, tgt, 1100)
    assert found is not None
    assert found.shift == 0
    assert 700 <= found.line <= 900


def test_a_file_that_was_cut_off_fits_to_its_end() -> None:
    src, tgt = map(list, zip(*latin(2000), strict=True))
    assert find_parting(src, tgt[:1234], 1234 - 2000) == Parting(1234, 0)


def test_sides_that_have_nothing_in_common_give_no_guess() -> None:
    src = [pair[0] for pair in latin(900, 1)]
    tgt = [pair[1] for pair in latin(800, 2)]
    assert find_parting(src, tgt, -100) is None


def test_files_of_a_few_lines_give_no_guess() -> None:
    assert find_parting([], ["a"], 1) is None
    assert find_parting(["a", "b"], ["a"], -1) is None


def test_seven_lines_that_fit_shifted_give_no_guess_and_eight_do() -> None:
    src, tgt = ["e!", "e?"] * 5, ["f?", "f!"] * 5
    assert find_parting(src[:7], tgt[:8], 1) is None
    assert find_parting(src[:8], tgt[:9], 1) == Parting(1, 1)


@pytest.mark.parametrize("corpus", CORPORA)
def test_healthy_pairs_are_related_and_not_shifted_in_any_order(corpus: str) -> None:
    pairs = CORPORA[corpus](2000, 0)
    for order in (None, lambda pair: len(pair[0]), lambda pair: len(pair[1]), lambda pair: pair):
        ordered = pairs if order is None else sorted(pairs, key=order)
        assert find_shifted(ordered) == [None] * 4
        assert related(ordered)


def test_every_500_pairs_the_shift_is_told_that_fits_there() -> None:
    src, tgt = map(list, zip(*latin(3000), strict=True))
    del src[700], tgt[1900]
    found = find_shifted(zip(src, tgt, strict=True))
    assert [each and each.shift for each in found] == [None, None, 1, 1, None, None]
    assert found[2] is not None
    assert abs(found[2].line - 701) <= 3


def test_long_lines_that_go_with_short_ones_are_related_and_not_shifted() -> None:
    draw = random.Random(0)
    lengths = [draw.randint(5, 40) for _ in range(1000)]
    pairs = [("e" * length, "f" * (45 - length)) for length in lengths]
    assert find_shifted(pairs) == [None, None]
    assert related(pairs)


def test_pairs_that_come_twice_are_related_also_with_other_references() -> None:
    pairs = latin(1000)
    again = [(src, f"{tgt} ver") for src, tgt in pairs]
    assert related(pairs + pairs)
    assert related(pairs + again)
    assert related([(tgt, src) for src, tgt in pairs + again])


def test_shuffled_sides_are_not_related() -> None:
    for seed in range(5):
        src, tgt = map(list, zip(*latin(1000, seed), strict=True))
        random.Random(seed).shuffle(tgt)
        assert not related(list(zip(src, tgt, strict=True)))
    assert not related([("e", "f")] * 1000)
