"""Scripts go by the Unicode names of letters; examples in their own scripts are the oracle."""

import pytest

from seq2seq.text.scripts import (
    may_be_same_languages,
    script_of,
    scripts_in,
    scripts_of_language,
)

SAMPLES = {
    "de": "Größe",
    "cs": "žluťoučký",
    "ru": "Семья",
    "el": "λόγος",
    "ar": "كتاب",
    "he": "ספר",
    "hi": "नमस्ते",
    "ja": "猫がテスト",
    "ko": "한국어",
    "zh": "今天",
    "th": "ภาษา",
    "am": "ሰላም",
    "ka": "ენა",
}


@pytest.mark.parametrize("code", SAMPLES)
def test_a_language_is_written_in_its_scripts_and_no_other(code: str) -> None:
    found = set(scripts_in(SAMPLES[code]))
    assert found
    assert found <= scripts_of_language(code)
    assert len(scripts_of_language(code) - found) <= 1  # Korean may use Han, too


@pytest.mark.parametrize("code", ["zh-TW", "zh_Hans", "ZH"])
def test_a_region_behind_the_code_plays_no_part(code: str) -> None:
    assert scripts_of_language(code) == {"CJK"}


@pytest.mark.parametrize(
    ("some", "others", "may"),
    [
        (("de", "en-GB"), ("de_AT", "EN"), True),
        (("deu", "eng"), ("de", "en"), True),
        (("de", "eng"), ("de", "fra"), False),
        (("de", "eng"), ("de", "fr"), True),  # without a table
        (("de", "en"), ("en", "de"), False),
    ],
)
def test_codes_of_two_and_of_three_letters_may_be_of_one_language(
    some: tuple[str, str], others: tuple[str, str], may: bool
) -> None:
    assert may_be_same_languages(some, others) == may


def test_an_unknown_language_has_no_scripts() -> None:
    assert scripts_of_language("") == scripts_of_language("tlh") == frozenset()


@pytest.mark.parametrize("sign", [*"1.,! µºª々ー€½", "\u0301", "\ud800", "\U0001d518"], ids=ascii)
def test_signs_and_marks_are_of_no_script(sign: str) -> None:
    assert script_of(sign) == ""


def test_full_and_half_width_letters_are_of_their_script() -> None:
    assert script_of("Ａ") == "LATIN"  # noqa: RUF001
    assert script_of("ﾃ") == "KATAKANA"


def test_letters_are_counted_each_time() -> None:
    assert scripts_in("aab да 1!") == {"LATIN": 3, "CYRILLIC": 2}
