"""Which translations are left out, and which of several is the closest."""

from collections import Counter
from collections.abc import Sequence

import pytest
import sacrebleu
from test_translator import Echo, random_translator, subwords

from seq2seq.data.corpus import Pair
from seq2seq.distillation import BROKEN, COPY, CUT, EMPTY, ENDLESS, Distillation
from seq2seq.evaluation.pairwise import chrf
from seq2seq.translation import Translation

STAMMER = "kare " * 9


def utility(hypotheses: Sequence[str], references: Sequence[str]) -> list[list[float]]:
    matrix: list[list[float]] = chrf(hypotheses, references).tolist()
    return matrix


def said(*texts: str) -> list[Translation]:
    """Without tokens, as of lines that were split: nobody knows whether they were cut."""
    return [Translation(text, -0.5) for text in texts]


@pytest.mark.parametrize(
    ("src", "tgt", "text", "fault"),
    [
        ("kare tosu", "", "mino", ""),
        ("kare tosu", "mino", "", EMPTY),
        ("kare tosu", "mino", " \ufeff\t", EMPTY),
        ("kare tosu", "mino", STAMMER, ENDLESS),
        (STAMMER, "mino", STAMMER.replace("kare", "mino"), ""),
        ("Kare tosu", "mino", "kare  tosu", COPY),
        ("Kare tosu", "", "kare tosu", COPY),
        ("Kare tosu", "kare TOSU", "kare tosu", ""),
        ("\ufeffKare tosu", "mino", "kare tosu", COPY),
        ("\x93Kare tosu\x94", "\x93kare TOSU\x94", "kare tosu", ""),
        ("12,5 : 3", "mino", "12,5 : 3", ""),
        ("12,5 kg", "mino", "12,5 kg", COPY),
        ("kare tosu", "mino", "mi\ufffdno", BROKEN),
        ("kare \ufffdtosu", "mino", "mi\ufffdno", ""),
    ],
)
def test_what_nobody_should_learn_is_left_out_and_counted(
    src: str, tgt: str, text: str, fault: str
) -> None:
    distillation = Distillation(random_translator())
    chosen = distillation.choose(Pair(src, tgt), said(text))
    assert [each.text for each in chosen] == ([] if fault else [text])
    assert distillation.left_out == (Counter([fault]) if fault else Counter())
    assert distillation.kept == len(chosen)


@pytest.mark.parametrize("positions", [None, 9])
def test_a_translation_that_the_search_had_to_end_is_left_out(positions: int | None) -> None:
    """The search of these translators allows as many subwords as the source has, and 3."""
    translator = random_translator()
    src = "kare tosu mino karela"
    longest = len(subwords().encode(src)) + 3
    if positions is not None:
        assert positions < longest
        longest = positions
        translator.engine = Echo(max_length=positions)
    for length in range(1, longest + 1):
        found = Translation("mino no", -1.0, tokens=[7] * (length - 1))  # and an end token
        distillation = Distillation(translator)
        chosen = distillation.choose(Pair(src, ""), [found])
        assert bool(chosen) == (length < longest)
        assert distillation.left_out[CUT] == (length == longest)


def test_each_text_comes_once_in_the_order_of_the_search() -> None:
    chosen = Distillation(random_translator()).choose(
        Pair("kare", ""), said("mino no", "tosu", "mino no ", "", "sumi", "tosu")
    )
    assert [each.text for each in chosen] == ["mino no", "tosu", "sumi"]


def test_a_blank_source_has_nothing_to_learn_and_is_not_counted() -> None:
    distillation = Distillation(random_translator())
    assert distillation.choose(Pair(" ", "mino"), said("")) == []
    assert (distillation.kept, distillation.left_out) == (0, Counter())


def test_the_closest_is_what_sacrebleu_likes_best_of_what_is_sound() -> None:
    texts = ["mino kasu", "tosu mino no", "tosu mino", "mino karela tosu", "kare tosu mino no"]
    reference = "kare tosu mino no"
    pair = Pair("kare tosu mino no", reference)
    best = max(texts[:-1], key=lambda text: sacrebleu.sentence_chrf(text, [reference]).score)
    assert best != texts[0]
    distillation = Distillation(random_translator(), utility)
    (chosen,) = distillation.choose(pair, said(*texts[:-1]))
    assert chosen.text == best
    (chosen,) = distillation.choose(pair, said(*texts))
    assert chosen.text == reference, "a copy that the reference is, too"
    (chosen,) = distillation.choose(pair, said(STAMMER, "sumi", "mulo"))
    assert chosen.text == "sumi", "the first of equal ones"
    assert len(distillation.choose(Pair("kare", " "), said(*texts))) == len(texts)
    assert distillation.choose(pair, said("", STAMMER)) == []
    assert distillation.kept == 3 + len(texts)
