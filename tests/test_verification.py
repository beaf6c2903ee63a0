"""A second look at translations, with an engine whose faults are known."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from test_translator import TEXTS, Echo, random_translator, subwords

from seq2seq.config import SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.translator import Translation, Translator
from seq2seq.verification import Sample, verdict_on


@dataclass
class Company(Echo):
    """Says something else when it is asked for several sentences at once."""

    gain: float = 0.0

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        alone = len(batch) == 1
        return [
            [Hypothesis(list(each.src[:: 1 if alone else -1]), -1.0 - self.gain * alone)]
            for each in batch
        ]


def sampled(translator: Translator, count: int) -> Sample:
    sample = Sample(count)
    for number, (text, found) in enumerate(
        zip(TEXTS, translator.n_best(TEXTS), strict=True), start=1
    ):
        sample.see(number, text, found[0])
    return sample


def test_a_sound_engine_says_the_same_alone() -> None:
    translator = random_translator()
    compared = list(sampled(translator, 12).compare(translator))
    assert [each.verdict for each in compared] == ["same"] * 12
    assert [each.number for each in compared] == sorted({each.number for each in compared})
    for each in compared:
        assert each.together.text == translator.translate([TEXTS[each.number - 1]])[0]


@pytest.mark.parametrize(("gain", "verdict"), [(0.0, "tie"), (5e-5, "tie"), (2e-4, "different")])
def test_batch_mates_that_have_a_say_are_found(gain: float, verdict: str) -> None:
    translator = Translator(Company(gain=gain), subwords(), subwords())
    several = {n for n, text in enumerate(TEXTS, 1) if len(set(subwords().encode(text))) > 1}
    for each in sampled(translator, 30).compare(translator):
        if each.number in several and each.together.text != each.alone.text:
            assert each.verdict == verdict
    assert verdict in {each.verdict for each in sampled(translator, 30).compare(translator)}


def test_the_same_text_with_another_score_is_different() -> None:
    assert verdict_on(Translation("a", -1.0), Translation("a", -1.0002)) == "different"
    assert verdict_on(Translation("a", -1.0), Translation("a", -1.00002)) == "same"
    assert verdict_on(Translation("", -math.inf), Translation("", -math.inf)) == "same"


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_every_line_has_the_same_chance_to_be_sampled(count: int) -> None:
    lines, rounds, seen = 6, 3000, Counter[int]()
    for seed in range(rounds):
        sample = Sample(count, seed)
        for number in range(lines):
            sample.see(number, "", Translation("", 0.0))
        assert len(sample.kept) == min(count, lines)
        seen.update(number for number, *_ in sample.kept)
    expected = rounds * min(count, lines) / lines
    for number in range(lines):
        assert seen[number] == pytest.approx(expected, abs=4 * math.sqrt(rounds / 4))
