"""Errors name the flags of a command, and nothing else is taken for one."""

from argparse import Namespace

import pytest
from command_flags import actions_of

from seq2seq.apps.flag_names import flag_of, told_as_flags
from seq2seq.errors import CorpusError, UserError


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("search.beam=0 is out of range", "--beam=0 is out of range"),
        ("search.sampling.top_p=2 is", "--top-p=2 is"),
        ("search.sampling and search.diversity.", "--sample and --diversity-groups."),
        ("search.diversity.strength=-1", "--diversity-strength=-1"),
        ("data.src_lang=en, src_lang", "--src-lang=en, --src-lang"),
        ("sentence 3 has 9, but max_length is 8", "line 3 has 9, but --max-length is 8"),
        ("a sentence 3 times", "a sentence 3 times"),
        ("search.alpha and batch_tokens", "search.alpha and batch_tokens"),  # it has no such flag
        ("search.en and a/search.beam do not exist", "search.en and a/search.beam do not exist"),
        ("src_lang.txt, x/src_lang and my.src_lang", "src_lang.txt, x/src_lang and my.src_lang"),
        ("data/src_lang/en and --src_lang", "data/src_lang/en and --src_lang"),
        ('src_lang=src_lang of "src_lang"', '--src-lang=src_lang of "src_lang"'),
    ],
)
def test_settings_are_told_as_flags_that_the_command_has(said: str, told: str) -> None:
    flags = ("beam", "top_p", "sample", "groups", "strength", "src_lang", "max_length")
    args = Namespace(**dict.fromkeys(flags))

    @told_as_flags
    def run(_: Namespace) -> None:
        raise CorpusError(said)

    with pytest.raises(UserError) as error:
        run(args)
    assert (type(error.value), str(error.value)) == (CorpusError, told)


@pytest.mark.parametrize("verb", ["translate", "score", "distill"])
def test_each_value_of_a_command_that_resumes_is_known_by_its_flag(verb: str) -> None:
    flags = [action for action in actions_of(verb) if action.option_strings]
    assert flags
    for action in flags:
        assert flag_of(action.dest) in action.option_strings
