"""What counts as endless, by example."""

import pytest

from seq2seq.text.repetition import repeats


@pytest.mark.parametrize(
    ("text", "endless"),
    [
        ("the end of the of the of the of the of the of the", True),
        ("ba ba ba ba ba ba.", True),
        ("哈哈哈哈哈哈哈哈哈哈哈哈哈", True),
        ("he said of the of the of the of the of the", True),
        ("he said of the of the of the of the of the.", True),
        ("he said, of the of the of the of the", False),
        ("aaaaaaaaaaaa", True),
        ("aaaaaaaaaaa", False),
        ("........", False),
        ("no no no no", False),
        ("so it was, so it was, so it was, so it was, so it was, said he", False),
        ("a", False),
        ("", False),
    ],
)
def test_repetition_is_endless_when_the_text_ends_in_it_five_times(
    text: str, endless: bool
) -> None:
    assert repeats(text) == endless
