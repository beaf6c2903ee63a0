"""What is counted about outputs beside their scores, against counts made by hand."""

from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.evaluation.comparison import (
    by_length,
    by_rare_words,
    compare_in_depth,
    look,
    measured,
)
from seq2seq.evaluation.differences import differences, marked, sentence_chrf
from seq2seq.evaluation.significance import compare
from seq2seq.evaluation.words import scored_words, tokens, word_scores


def test_groups_of_lengths_are_about_equal_and_keep_equal_lengths_together() -> None:
    lengths = [3, 9, 3, 4, 3, 3, 8, 5, 6, 7]
    assert by_length(lengths, 2) == {"3–4": [0, 2, 3, 4, 5], "5–9": [1, 6, 7, 8, 9]}
    assert by_length([4, 4, 4]) == {"4": [0, 1, 2]}
    assert [*by_length(range(10)).values()] == [[n, n + 1] for n in range(0, 10, 2)]
    assert by_length([1, 7, 7, 7, 7]) == {"1": [0], "7": [1, 2, 3, 4]}


@given(st.lists(st.integers(0, 30), min_size=1))
def test_every_sentence_is_in_one_group_of_lengths(lengths: list[int]) -> None:
    groups = by_length(lengths)
    assert sorted(n for group in groups.values() for n in group) == list(range(len(lengths)))
    assert 1 <= len(groups) <= 5
    bounds = [f(lengths[n] for n in group) for group in groups.values() for f in (min, max)]
    assert bounds == sorted(bounds)


def test_lengths_are_words_or_characters_where_words_are_not_spaced() -> None:
    assert measured(["a bc d", "e f"]) == ([3, 2], "words")
    assert measured(["我们今天去学校。", " 好 "]) == ([8, 1], "characters")
    assert measured(["ฉัน ไป โรงเรียน"]) == ([13], "characters")  # spaces part clauses there
    assert measured(["我们 今天 去 学校 。"]) == ([5], "words")  # they were cut into words
    assert measured(["no", "word", "Taxi 電話"]) == ([1, 1, 2], "words")


def test_groups_of_rare_words_count_them_in_each_line() -> None:
    seen = Counter(a=9, b=2, c=1)
    lines = [["a"], ["a", "b"], ["c", "c"], ["d", "b", "c"], []]
    assert by_rare_words(lines, seen, 3) == {"0": [0, 4], "1": [1], "2+": [2, 3]}
    assert by_rare_words(lines, seen, 1) == {"0": [0, 1, 2, 4], "1": [3]}


def test_the_f1_of_words_counts_each_as_often_as_both_have_it() -> None:
    seen = Counter(the=5, cat=5, axolotl=1)
    reference = [["the", "cat", "the", "axolotl"], ["a", "cat"]]
    system = [["the", "the", "the", "cat"], ["axolotl", "dog"]]
    found = word_scores([system, reference], reference, seen)
    # 2 to 9 times: 3 of 4 that were said are among the 4 wanted; once: said in another line
    assert [(each.words, each.total) for each in found] == [("0", 1), ("1", 1), ("2–9", 4)]
    assert [each.f1 for each in found] == [
        pytest.approx([0, 100]),  # "a": 0 right, "dog" was said
        pytest.approx([0, 100]),
        pytest.approx([100 * 2 * 3 / (4 + 4), 100]),
    ]


def test_words_are_those_of_bleu() -> None:
    assert scored_words()("It's the cat, twice.") == ["It's", "the", "cat", ",", "twice", "."]
    assert scored_words("zh")("我去 school") == ["我", "去", "school"]
    assert scored_words(lowercase=True)("The Cat") == ["the", "cat"]


def test_the_look_at_output_names_the_lines() -> None:
    sources = ["Ein Haus", "Berlin", "Ein Boot", "Guten Tag .", "x", ""]
    references = [
        ["A house", "Berlin", "A boat", "Hello .", "one two three", ""],
        ["One house", "Berlin", "Boat", "Good day .", "one", ""],
    ]
    system = ["ein  HAUS", "Berlin", " ", "Good day", "a b c d e f g h", ""]
    found = look("x", system, references, sources)
    assert (found.copies, found.empty, found.long) == ([1], [3], [5])
    score = sacrebleu.corpus_bleu(system, references)
    assert found.length_ratio == score.sys_len / score.ref_len
    assert look("x", system, references).copies is None
    seven = [*system[:4], "a b c d e f g", ""]
    assert look("x", seven, references).long == []  # fewer than 5 words more than three
    assert look("x", ["a b c d e " * 2], [["a b c d e"]]).long == []  # twice, not more
    assert look("x", [""], [["a"]], [" "]).copies == []  # of nothing
    assert look("x", ["我去"], [["我去我去"]], target_lang="zh").length_ratio == 0.5


# -- differences


@given(
    st.text(alphabet="ab .,我日ा\u3000"), st.text(alphabet="ab .,我日ा"), st.text(alphabet="ab .我")
)
def test_marked_pieces_are_the_translation_and_unmarked_ones_are_in_both(
    first: str, second: str, reference: str
) -> None:
    one, other = marked(first, second, reference)
    for pieces, text in ((one, first), (other, second)):
        assert "".join(piece for piece, _ in pieces).split() == text.split()
        marks = [mark for _, mark in pieces]
        assert all(a != b for a, b in pairwise(marks))
    same, again = (
        [token.text for piece, mark in pieces for token in tokens(piece) if mark == "same"]
        for pieces in (one, other)
    )
    assert "".join(same) == "".join(again)


def test_a_word_is_right_as_often_as_the_reference_still_wants_it() -> None:
    one, other = marked("the small cat sat", "the cat the the sat down", "the cat sat down the")
    assert one == [("the ", "same"), ("small", "wrong"), (" cat sat", "same")]
    assert other == [
        ("the cat ", "same"),
        ("the", "right"),
        (" ", "same"),
        ("the", "wrong"),
        (" sat ", "same"),
        ("down", "right"),
    ]


def test_a_word_that_moved_is_right_in_both_places() -> None:
    one, other = marked("now we go", "we go now", "so we go now")
    assert one == [("now", "right"), (" we go", "same")]
    assert other == [("we go ", "same"), ("now", "right")]


def test_case_is_no_difference_where_scores_are_lower_cased() -> None:
    texts = "ein İ schläft", "Ein İ schläft DORT", "EIN İ SCHLÄFT dort"
    assert marked(*texts, lowercase=True) == (
        [("ein İ schläft", "same")],
        [("Ein İ schläft ", "same"), ("DORT", "right")],
    )
    (_, (start, *_)) = marked(*texts)
    assert start == ("Ein", "wrong")


def test_unspaced_scripts_differ_by_characters_and_words_keep_their_marks() -> None:
    assert marked("我今天去", "我明天去", "我明天去") == (
        [("我", "same"), ("今", "wrong"), ("天去", "same")],
        [("我", "same"), ("明", "right"), ("天去", "same")],
    )
    assert [token.text for token in tokens("བོད་ﾃﾚﾋﾞ")] == ["བ", "ོ", "ད", "་", *"ﾃﾚﾋﾞ"]
    assert [token.text for token in tokens("हिन्दी, it's 3.5")] == [
        "हिन्दी", ",", "it", "'", "s", "3", ".", "5",
    ]  # fmt: skip


def test_differences_are_the_largest_of_sentence_chrf_both_ways() -> None:
    reference = ["the small cat", "a big dog", "one bird", "two fish"]
    base = ["the small cat", "a big", "one bird", ""]
    system = ["the cat", "a big dog", "one bird", "two fis"]
    found = differences("new", base, system, [reference], ["s1", "s2", "s3", "s4"])
    assert (found.better, found.worse, found.same) == (2, 1, 1)
    assert [each.line for each in found.gains] == [4, 2]
    (loss,) = found.losses
    assert (loss.line, loss.source, loss.reference) == (1, "s1", "the small cat")
    assert loss.baseline.marked == [("the ", "same"), ("small", "right"), (" cat", "same")]
    expected = sacrebleu.sentence_chrf("the cat", ["the small cat"]).score
    assert loss.system.chrf == expected
    few = differences("new", base, system, [reference], most=1)
    assert [each.line for each in few.gains] == [4]
    assert few.gains[0].source is None


def test_sentence_chrf_takes_the_nearest_reference() -> None:
    assert sentence_chrf(["a cat"], [["a dog"], ["a cat"]]) == [pytest.approx(100)]
    assert sentence_chrf(["A CAT"], [["a cat"]], lowercase=True) == [pytest.approx(100)]


# -- all together

REFERENCE = ["the cat sat on the mat", "it rains", "we saw a boat", "go on now", "it is late"] * 4
SYSTEMS = {
    "base": ["the cat on the mat", "it rains", "we saw", "go now", "is late"] * 4,
    "new": ["the cat sat on a mat", "it rains", "we saw a boat", "", "it is late"] * 4,
}


def test_a_comparison_in_depth_has_the_scores_of_a_comparison_with_the_same_settings() -> None:
    references = [["Der Hund schläft tief.", "我们今天去学校。"] * 4]
    systems = {
        "a": ["der hund schläft fest.", "我们今天去学校。"] * 4,
        "b": ["Der Hund schläft tief.", "我们明天去公园。"] * 4,
    }
    how: dict[str, Any] = {"lowercase": True, "paired": "randomization", "resamples": 20}
    deep = compare_in_depth(systems, references, target_lang="zh", metrics=["bleu", "ter"], **how)
    assert deep.scores == compare(systems, references, "zh", ["bleu", "ter"], **how)
    assert (deep.test, deep.sure) == ("approximate randomization, 200 trials", 0.05)
    (found,) = deep.differences
    assert (found.worse, [each.line for each in found.losses]) == (4, [2, 4, 6, 8])
    assert found.gains[0].baseline.marked[0] == ("der hund schläft ", "same")
    lower = [[line.lower() for line in lines] for lines in (*systems.values(), references[0])]
    low = compare_in_depth(dict(zip("ab", lower, strict=False)), lower[2:], target_lang="zh")
    assert deep.found == low.found
    assert not any(
        "|ar:" in group.scores[0].signature for each in deep.groupings for group in each.groups
    )
    assert all(
        "tok:zh" in group.scores[0].signature for each in deep.groupings for group in each.groups
    )


def test_words_are_counted_in_the_references_and_lengths_in_the_sources_if_there_are_some() -> None:
    references = [["Hund Hund Katze", "Hund Maus Maus"]]
    systems = {"a": references[0]}
    alone = compare_in_depth(systems, references, resamples=0)
    assert (alone.seen_in, alone.groupings[0].title) == (
        "the references",
        "Length of the reference, in words",
    )
    assert alone.groupings[1].title.startswith("Words seen only once in the references")
    assert [group.label for group in alone.groupings[1].groups] == ["0", "1"]  # Katze, once
    train = ["Hund"] * 10 + ["Katze"] * 9
    trained = compare_in_depth(systems, references, ["a b c d", "a b"], train, resamples=0)
    assert (trained.seen_in, trained.groupings[0].title) == (
        "training",
        "Length of the source, in words",
    )
    assert [group.label for group in trained.groupings[0].groups] == ["2", "4"]
    assert [group.label for group in trained.groupings[1].groups] == ["1", "2+"]


def test_a_comparison_scores_every_group_and_all_of_it_is_plain_data() -> None:
    found = compare_in_depth(
        SYSTEMS,
        [REFERENCE],
        train=["the cat", "it rains"] * 10,
        metrics=["chrf", "bleu"],
        resamples=20,
    )
    assert (found.test, found.sure) == ("paired bootstrap, 20 resamples", 0.025)
    lengths, rare = found.groupings
    assert lengths.title == "Length of the reference, in words"
    assert "fewer than 10 times in training" in rare.title
    for grouping in found.groupings:
        assert sum(group.sentences for group in grouping.groups) == 20
        for group in grouping.groups:
            scored = [(score.system, score.name) for score in group.scores]
            assert scored == [("base", "chrF2"), ("new", "chrF2")]
    shortest = lengths.groups[0]
    assert (shortest.label, shortest.sentences) == ("2", 4)
    assert [score.value for score in shortest.scores] == [100, 100]
    assert [each.system for each in found.differences] == ["new"]
    assert found.outputs[1].empty == [4, 9, 14, 19]
    assert found.seen_in == "training"
    assert asdict(found)["scores"][1]["p_value"] == found.scores[1].p_value
