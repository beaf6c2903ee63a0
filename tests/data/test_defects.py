"""Each rule sees its own defect and nothing else; healthy pairs have none."""

import pytest
from toy_corpora import CORPORA, han, latin

from seq2seq.data.corpus import Pair
from seq2seq.data.defects import RULES, defects
from seq2seq.data.formats import NoPair
from seq2seq.data.normal import Limits, Normal, learn_normal

NORMAL = learn_normal([Pair(*pair) for pair in latin(400)], ("en", "de"))
LINES = latin(400)
SRC, TGT = LINES[7]


def of(src: str, tgt: str | None, normal: Normal = NORMAL) -> list[str]:
    return defects(NoPair(src, "") if tgt is None else Pair(src, tgt), normal)


@pytest.mark.parametrize("corpus", CORPORA)
def test_healthy_pairs_have_no_defect_even_those_that_taught_nothing(corpus: str) -> None:
    make = CORPORA[corpus]
    normal = learn_normal([Pair(*pair) for pair in make(400, 0)])
    for src, tgt in make(400, 0) + make(400, 1):
        assert of(src, tgt, normal) == []


@pytest.mark.parametrize(
    ("name", "src", "tgt"),
    [
        ("undecodable", f"{SRC}\udcff", TGT),
        ("undecodable", "", f"{TGT}\udc80"),
        ("malformed", SRC, None),
        ("undecodable", f"{SRC}\udcff", None),
        ("empty", SRC, ""),
        ("empty", " \t\u3000", TGT),
        ("controls", SRC.replace(" ", "\u2028", 1), TGT),
        ("controls", SRC, TGT.replace(" ", "\x85", 1)),
        ("controls", SRC, TGT.replace(" ", "\r", 1)),
        ("controls", SRC.replace(" ", "\ufeff", 1), TGT),
        ("mojibake", SRC, f"{TGT} grÃ¼n"),
        ("mojibake", f"{SRC} itâ€™s", TGT),
        ("mojibake", SRC, f"{TGT} GÃ–TTER"),
        ("mojibake", SRC, f"{TGT} gr\ufffdn"),
        ("script", SRC, "Все счастливые семьи похожи друг на друга, каждая."),  # noqa: RUF001
        ("script", f"{SRC[:20]} 吾輩は猫である。名前はまだ無い。", TGT),
        ("identical", SRC, SRC),
        ("swapped", TGT, SRC),
        ("untranslated", SRC, LINES[8][0]),
        ("untranslated", LINES[9][1], TGT),
        ("long", f"{SRC} " * 30, f"{TGT} " * 30),
        ("ratio", SRC, TGT[:1]),
        ("ratio", f"{SRC} " * 5, TGT),
        ("markup", f"<b>{SRC}</b>", TGT),
        ("markup", SRC, f"{TGT} &amp; &#39;"),
    ],
)
def test_a_rule_sees_its_defect_and_no_other_rule_does(
    name: str, src: str, tgt: str | None
) -> None:
    assert of(src, tgt) == [name]


def test_every_rule_has_a_defect_above() -> None:
    mark = test_a_rule_sees_its_defect_and_no_other_rule_does.pytestmark[0]  # type: ignore[attr-defined]
    assert {name for name, *_ in mark.args[1]} == RULES.keys()


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("Adele, 3 + 4 = 7.", "Adele, 3 + 4 = 7!"),
        ("12 345", "12 345"),
        (f"{SRC} 5 µm", f"{TGT} der „Spaß“ kostet 10 €."),
        (f"{SRC} π and да", f"«{TGT} É», Ångström ½ ª"),
        ("a < b and c > d & e", "a < b und c > d & e"),
        ("Yes.", "Ja, so ist das."),
        (f"{SRC}\r", f"{TGT}\r"),
        (f"\ufeff{SRC}", f"\ufeff{TGT}\r"),
        (SRC, f"{TGT} AMANHÃ… “IRMÃ” ĐÃ–"),
    ],
    ids=ascii,
)
def test_what_may_well_be_meant_is_no_defect(src: str, tgt: str) -> None:
    assert of(src, tgt) == []


def test_names_in_latin_letters_belong_to_every_script_but_a_whole_side_of_them_does_not() -> None:
    normal = learn_normal([Pair(*pair) for pair in han(400)], ("", "zh-TW"))
    assert of("Adele wishow", "Adele一丁丂七", normal) == []
    assert "script" in of("Adele wishow", "Adele hat eine", normal)


def test_without_a_language_the_letters_of_the_corpus_say_which_scripts_belong() -> None:
    normal = learn_normal([Pair(*pair) for pair in han(400)])
    assert normal.src.scripts == {"LATIN"}
    assert normal.tgt.scripts >= {"CJK"}
    assert (normal.src.unit, normal.tgt.unit) == ("words", "characters")


def test_han_that_was_split_into_words_is_counted_in_words() -> None:
    pairs = [Pair(src, " ".join(tgt)) for src, tgt in han(400)]
    assert learn_normal(pairs, ("", "ja")).tgt.unit == "words"


def test_the_ratio_is_held_against_the_corpus_itself() -> None:
    for pair in (Pair("a" * 100, "b" * 300), Pair("a" * 300, "b" * 100)):
        normal = learn_normal([pair] * 5, limits=Limits(max_ratio=2.5))
        assert "ratio" not in defects(pair, normal)
        assert "ratio" in defects(Pair("a" * 100, "b" * 100), normal)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_swapped_pairs_are_told_apart_though_the_sample_has_many_of_them(share: float) -> None:
    pairs = [Pair(*pair) for pair in latin(400)]
    swapped = set(range(0, len(pairs), round(1 / share)))
    mixed = [Pair(p.tgt, p.src) if n in swapped else p for n, p in enumerate(pairs)]
    normal = learn_normal(mixed)
    assert {n for n, pair in enumerate(mixed) if "swapped" in defects(pair, normal)} == swapped


def test_languages_are_learned_from_the_whole_sample_not_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("seq2seq.data.normal.LANGUAGE_PAIRS", 100)
    mixed = [Pair(*(pair[::-1] if n < 60 else pair)) for n, pair in enumerate(latin(400))]
    normal = learn_normal(mixed)
    assert {n for n, pair in enumerate(mixed) if "swapped" in defects(pair, normal)} == {*range(60)}


def test_one_language_on_both_sides_is_never_called_swapped_or_untranslated() -> None:
    pairs = [Pair(src, " ".join(reversed(src.split()))) for src, _ in latin(400)]
    normal = learn_normal(pairs)
    assert not {name for pair in pairs for name in defects(pair, normal)}


def test_an_empty_sample_finds_nothing_wrong_with_text() -> None:
    assert of(SRC, TGT, learn_normal([])) == []
