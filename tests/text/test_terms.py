"""The machine that watches terms: counting them in the decoded text is the oracle."""

import random
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import UNK_ID, SubwordConfig
from seq2seq.text.occurrences import occurrences
from seq2seq.text.pieces import Piece
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.text.terms import Standing, Terms, how_often, not_held, shared

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 5)) for n in range(90)]
TERM_LISTS = [
    ["kare"],
    ["kare", "kareno"],
    ["tos kas", "kas mis"],
    ["tos kas mis", "kas"],
    ["tos", "tos", "tos kas"],
    ["<b>", "</b>", "<b>"],
    ["https://a.b/kas?x=1", "https://a.b"],
    ["今日", "½ kas", "ﬁ", "m²"],  # bytes, and what NFKC would change
    ["a@b.c", "kas."],
]


@cache
def subwords(*, byte_fallback: bool = True) -> Subwords:
    config = SubwordConfig(byte_fallback=byte_fallback)
    return Subwords(train_subwords(TEXTS, config, 300 if byte_fallback else 40))


def written(terms: Terms, tokens: Sequence[int]) -> Standing:
    state = terms.start
    for token in tokens:
        state = terms.read(state, token)
    return terms.standing(state)


def some_tokens(terms: Sequence[str], rng: random.Random) -> list[int]:
    """Terms in various spellings, words, letters and bytes, side by side."""
    model, tokens = subwords(), list[int]()
    for _ in range(rng.randint(0, 6)):
        kind = rng.random()
        if kind < 0.5:
            tokens += model.spell(rng.choice(terms), glued=rng.random() < 0.5)
        elif kind < 0.8:
            tokens += model.sample(rng.choice([*WORDS, *terms]), 0.1, rng)
        else:
            tokens += rng.choices(range(4, len(model)), k=2)
    return tokens


@pytest.mark.parametrize("texts", TERM_LISTS, ids=" ".join)
def test_counts_are_those_of_the_decoded_text_however_it_is_cut(texts: list[str]) -> None:
    asked, rng = how_often(texts), random.Random(0)
    seen = set()
    for _ in range(150):
        tokens = some_tokens(texts, rng)
        standing = written(Terms(texts, subwords()), tokens)
        text = subwords().decode(tokens)
        counts = {term: occurrences(term, text) for term in asked}
        missing = sum(max(times - counts[term], 0) for term, times in asked.items())
        assert standing.missing == missing, text
        assert standing.complete == (counts == asked), text
        assert standing.complete == (not not_held(texts, text))
        going_on = subwords().decode([*tokens, *subwords().spell("a", glued=True)])
        if "\ufffd" not in going_on:  # another character may follow half of one
            over = any(occurrences(term, going_on) > times for term, times in asked.items())
            assert standing.over == over, text
        seen |= {(standing.complete, standing.over)}
    assert seen == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("texts", TERM_LISTS, ids=" ".join)
@pytest.mark.parametrize("before", ["", "kare", "kare.", "(", "tos„", "ト", "tos kas mis tos"])
def test_whoever_takes_the_first_helpful_token_each_time_holds_all_terms(
    texts: list[str], before: str
) -> None:
    terms, tokens = Terms(texts, subwords()), subwords().encode(before)
    for _ in range(200):
        state = terms.start
        for token in tokens:
            state = terms.read(state, token)
        helpful = terms.helpful(state)
        assert bool(helpful) == (terms.standing(state).missing > 0)
        if not helpful:
            break
        tokens.append(helpful[0])
    assert terms.standing(state).missing == terms.standing(state).rest == 0
    text = subwords().decode(tokens)
    assert all(occurrences(term, text) >= times for term, times in how_often(texts).items())


class Dots:
    """A `Speller` with a token of three."""

    spellings = (b"", b"", b"", b"", b".", b"...")

    def spell(self, text: str, *, glued: bool = False) -> list[int]:
        return [4] * len(text)


def test_a_token_may_hold_a_term_more_than_once() -> None:
    assert written(Terms(["."] * 3, Dots()), [5]).complete
    assert written(Terms(["."], Dots()), [5]).over


def test_a_word_is_glued_to_a_bracket_but_not_to_a_comma_nor_to_a_word() -> None:
    terms = Terms(["karela"], subwords())
    spaced, glued = subwords().spell("karela")[0], subwords().spell("karela", glued=True)[0]

    def helpful(before: str) -> set[int]:
        state = terms.start
        for token in subwords().encode(before):
            state = terms.read(state, token)
        return set(terms.helpful(state))

    assert helpful("tos (") == {spaced, glued}
    assert helpful("tos,") == helpful("tos") == {spaced}


@pytest.mark.parametrize("text", ["kas <b>", "今日"])
@pytest.mark.parametrize("glued", [False, True])
def test_inside_of_a_term_is_known_and_left_again(text: str, glued: bool) -> None:
    terms, ids = Terms([text], subwords()), subwords().spell(text, glued=glued)
    assert [written(terms, ids[:size]).inside for size in range(len(ids) + 1)] == [
        None,
        *[0] * (len(ids) - 1),
        None,
    ]
    assert written(terms, [*ids[:2], *subwords().encode("tos")]).inside is None


@settings(deadline=None, max_examples=40)
@given(st.text(min_size=1, max_size=8), st.booleans())
def test_every_text_is_spelled_as_it_stands(text: str, glued: bool) -> None:
    (cleaned,) = how_often([text]) or [""]
    if cleaned and "\u2581" not in cleaned:
        assert subwords().decode(subwords().spell(cleaned, glued=glued)) == cleaned
        spelled = b"".join(subwords().spellings[i] for i in subwords().spell(cleaned, glued=glued))
        assert spelled.decode().removeprefix("" if glued else " ") == cleaned


def test_a_term_inside_another_is_asked_for_as_often_as_it_will_stand_there() -> None:
    assert how_often(["sea", "sea horse", "sea horse", " ", "a sea"]) == {
        "sea": 4,
        "sea horse": 2,
        "a sea": 1,
    }


def test_what_the_model_cannot_write_is_left_out_and_told_later() -> None:
    model = subwords(byte_fallback=False)
    assert UNK_ID in model.spell("今日")
    terms = Terms(["今日", "kas\t"], model)
    assert terms.standing(terms.start).missing == 1
    assert not_held(["今日", "kas"], "kas") == ["今日"]


def test_the_terms_of_a_text_in_pieces_go_where_they_stand_and_the_others_first() -> None:
    pieces = [Piece(0, "See a.b and a.b,"), Piece(17, "not c or a.b or c.")]
    terms = ["a.b", "a.b\t", "c", "Haus", "a.b", "Haus"]
    shares = [sorted(share) for share in shared(terms, [], pieces)]
    assert shares == [["Haus", "Haus", "a.b", "a.b"], ["a.b", "c"]]
    assert shared([], [], pieces) == [[], []]


def test_a_term_with_an_origin_goes_to_the_piece_in_which_that_lies() -> None:
    text = "See a.b and a.b, a car; not c or a.b."
    pieces = [Piece(0, text[:16]), Piece(17, text[17:23]), Piece(24, text[24:])]
    terms = ["c", "Auto", "a.b", "a.b", "Haus"]
    origins = [None, text.index("car"), text.rindex("a.b"), text.index("a.b"), None]
    assert shared(terms, origins, pieces) == [["a.b", "Haus"], ["Auto"], ["a.b", "c"]]
    assert shared(terms, origins[:2], pieces) == [["a.b", "a.b", "Haus"], ["Auto"], ["c"]]
    ends = [text.index("a car"), len(text) - 1, 0]
    assert shared(["x", "y", "z"], ends, pieces) == [["z"], ["x"], ["y"]]
    assert shared(["x"], [0], pieces[1:]) == [["x"], []]
