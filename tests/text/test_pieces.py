"""Splitting lines that are too long, and joining what was made of the pieces."""

import random
from collections.abc import Callable

import pytest

from seq2seq.text.pieces import join, split


def shorter_than(limit: int) -> Callable[[str], bool]:
    return lambda text: len(text) < limit


@pytest.mark.parametrize("seed", range(30))
def test_pieces_fit_and_nothing_but_white_space_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    signs = rng.choice(["ab .", "a. ! ", "日本。 a", "abcdef", "a \t\u3000é\u0301?"])
    text, limit = "".join(rng.choices(signs, k=rng.randint(0, 300))), rng.randint(2, 40)
    found = split(text, shorter_than(limit))
    assert all(text.startswith(piece, start) for start, piece in found)
    pieces = [piece.text for piece in found]
    assert all(map(shorter_than(limit), pieces))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece == piece.strip() for piece in pieces)


def test_a_long_run_of_full_stops_is_looked_at_once() -> None:
    """Looked at from each of its places, these would take minutes."""
    dots = "." * 100_000
    assert [text for _, text in split(f"{dots}x{dots}", shorter_than(150_000))] == [
        dots,
        f"x{dots}",
    ]


PARK = "我们去公园。"


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("Fits. As it is. ", 16, ["Fits. As it is."]),
        ("One. Two three four. Five six", 21, ["One. Two three four.", "Five six"]),
        ("He said: “So be it.” (Was it so?) Yes", 22, ["He said: “So be it.”", "(Was it so?) Yes"]),
        ("no end of a sentence in all of this", 30, ["no end of a sentence", "in all of this"]),
        ("version 3.14.15 of example.org/a.html", 30, ["version 3.14.15 of", "example.org/a.html"]),
        ("End. " + "x" * 29, 20, ["End.", "x" * 14, "x" * 15]),
        (PARK * 2 + "他", 10, [PARK, f"{PARK}他"]),
    ],
)  # fmt: skip
def test_cuts_are_near_the_middle_at_sentence_ends_then_spaces_then_anywhere(
    text: str, limit: int, pieces: list[str]
) -> None:
    assert [piece.text for piece in split(text, shorter_than(limit))] == pieces


def test_a_character_that_does_not_fit_alone_is_given_back() -> None:
    assert split("ab", lambda text: text == "") == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" >>fra<< One two. Four five.", [(9, ">>fra<< One two."), (18, ">>fra<< Four five.")]),
        ("<2fr> One two four. Five six.", [(6, "<2fr> One two four."), (20, "<2fr> Five six.")]),
        (">>fra<<One two. Four five six.", [(0, ">>fra<<One two."), (16, "Four five six.")]),
        ("One <2fr> two four. Five six.", [(0, "One <2fr> two four."), (20, "Five six.")]),
        (">>fra<< One two.", [(8, ">>fra<< One two.")]),
        (">>fra<< ", [(0, ">>fra<<")]),
    ],
)  # fmt: skip
def test_a_language_tag_at_the_beginning_is_put_before_every_piece_and_counted(
    text: str, pieces: list[tuple[int, str]]
) -> None:
    assert split(text, shorter_than(23)) == pieces


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["Ein Haus.", "Ein Boot."], "Ein Haus. Ein Boot."),
        (["彼は家に帰った。", "犬がいた。"], "彼は家に帰った。犬がいた。"),
        (["买了iPhone", "的人"], "买了iPhone的人"),
        (["집에 갔다.", "개가 있다"], "집에 갔다. 개가 있다"),
        (["So 😀", "gut"], "So 😀 gut"),
        (["", "eins", "", "zwei", ""], "eins zwei"),
        ([], ""),
    ],
)
def test_pieces_are_joined_as_their_script_is_written(pieces: list[str], whole: str) -> None:
    assert join(pieces) == whole
