"""sacreBLEU's score of one sentence against one other is the oracle for each pair."""

import random
from collections.abc import Callable

import pytest
import sacrebleu

from seq2seq.errors import ConfigError
from seq2seq.evaluation.pairwise import PAIRWISE, Pairwise

SENTENCE = "the small cat sat on a mat. don't U.S. 3.5 well-known ( x ) !! 今天 天气 e\u0301"
WORDS = SENTENCE.split()
DRAWN = random.Random(3)
TEXTS = [
    "",
    " ",
    "a",
    ".",
    "the the the the the the",
    "the  the\u00a0the ",
    *(" ".join(DRAWN.choices(WORDS, k=DRAWN.randint(1, 12))) for _ in range(25)),
]
OTHERS = ["the cat sat on the mat.", "", "a", "on a", "今天天气很好。", *TEXTS[8:14]]

ORACLES: dict[str, Callable[[str, str], float]] = {
    "chrf": lambda said, right: sacrebleu.sentence_chrf(said, [right]).score,
    "bleu": lambda said, right: sacrebleu.sentence_bleu(said, [right]).score,
}


@pytest.mark.parametrize("name", PAIRWISE)
def test_each_pair_has_the_score_that_sacrebleu_gives_the_sentence(name: str) -> None:
    found = PAIRWISE[name]("de")(TEXTS, OTHERS)
    assert found.shape == (len(TEXTS), len(OTHERS))
    for said, row in zip(TEXTS, found.tolist(), strict=True):
        expected = [ORACLES[name](said, right) for right in OTHERS]
        assert row == pytest.approx(expected, abs=1e-9, rel=0)
    assert found.max() > 40


@pytest.mark.parametrize("name", PAIRWISE)
def test_other_pairs_have_no_say_in_a_score(name: str) -> None:
    together = PAIRWISE[name]("")(TEXTS, TEXTS)
    for row in (0, 2, 9):
        for column in (1, 9, 20):
            alone = PAIRWISE[name]("")([TEXTS[row]], [TEXTS[column]])
            assert alone.tolist() == [[pytest.approx(together[row, column])]]


def test_the_target_language_chooses_the_tokenizer_of_bleu() -> None:
    said, right = "今天天气很好。", "今天天气不好。"
    (found,) = PAIRWISE["bleu"]("zh-CN")([said], [right]).tolist()
    oracle = sacrebleu.sentence_bleu(said, [right], tokenize="zh").score
    assert found == [pytest.approx(oracle)]
    assert found != [pytest.approx(ORACLES["bleu"](said, right))]


def test_a_tokenizer_that_is_not_installed_is_told_before_anything_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> Pairwise:
        raise RuntimeError("no MeCab")

    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", fail)
    with pytest.raises(ConfigError, match=r"target language ja: .*\[ja\]"):
        PAIRWISE["bleu"]("ja")
