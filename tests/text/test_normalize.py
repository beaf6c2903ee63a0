"""Cleaning takes away what breaks a line or a subword model, and nothing that says something."""

import unicodedata

import pytest

from seq2seq.text.normalize import clean, fold, shortened

CONTROLS = [chr(code) for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"]


@pytest.mark.parametrize("control", [*CONTROLS, "\ufeff"], ids=lambda c: f"U+{ord(c):04X}")
def test_a_control_or_a_byte_order_mark_becomes_a_space(control: str) -> None:
    assert clean(f"a{control}b") == "a b"
    assert clean(f"{control}a{control}") == "a"


@pytest.mark.parametrize("surrogate", [0xD800, 0xDBFF, 0xDC00, 0xDFFF], ids=hex)
def test_a_lone_surrogate_becomes_the_replacement_character(surrogate: int) -> None:
    assert clean(f"a{chr(surrogate)}b") == "a\ufffdb"


@pytest.mark.parametrize(
    "text",
    [
        "a\u2028b",
        "a\u2029b",
        "a\u00a0b",
        "a\u200bb",
        "a\u200fb",
        "e\u0301",
        "👩\u200d👧",
        "今天",
        "אב",
    ],
    ids=ascii,
)
def test_what_is_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_white_space_at_both_ends_goes_and_inside_stays() -> None:
    assert clean(" \t\u3000a  b\u2028 \r\n") == "a  b"
    assert clean(" \t\r\n\x00\ufeff\x85") == ""


def test_cleaning_twice_is_cleaning_once() -> None:
    everything = "".join(map(chr, range(0x3000))) + "\ud800 "
    assert clean(clean(everything)) == clean(everything)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Hello, world!", "hello world", True),
        ("Café", "cafe\u0301", True),
        ("İstanbul", "istanbul", True),
        ("I ❤️ you, 1️⃣", "i you 1", True),
        ("\u0645\u064e\u062f", "\u0645\u062f", True),  # Arabic, a vowel that is mostly not written
        ("जाता", "जाती", False),
        ("मेरा", "मोरी", False),
        ("পড়া", "পড়ে", False),
        ("ทำ", "ทา", False),
        ("ตี", "ตู", False),
        ("ดุ", "ดู", False),  # with combining classes, as all of the next
        ("ຄຸ", "ຄູ", False),
        ("\u0f40\u0f72", "\u0f40\u0f74", False),  # Tibetan
        ("20 ℃", "20 °c", True),
        ("ῶ", "ω", False),
        ("Brand™", "BrandTM", True),
    ],
    ids=ascii,
)
def test_folding_keeps_letters_vowel_signs_and_digits_alone(
    one: str, other: str, same: bool
) -> None:
    assert (fold(one) == fold(other)) == same


def test_a_shortened_text_is_one_line_of_at_most_so_many_characters() -> None:
    assert shortened("as it is", 8) == "as it is"
    assert shortened("a bit longer", 8) == "a bit l…"
    assert shortened(" a\tb\u2028c\u2029d\n") == "a b c d"
    assert len(shortened("x" * 999)) == 80
