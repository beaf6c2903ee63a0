"""sacreBLEU itself is the oracle: what is published must be its numbers and its signatures."""

import pytest
import sacrebleu
from sacrebleu.metrics import bleu as sacrebleu_bleu

from seq2seq.errors import ConfigError, CorpusError
from seq2seq.evaluation.metrics import METRICS, Score, bleu, check_tokenizer, doubt, evaluate

HYPOTHESES = ["the small cat sat on the mat.", "it rains", "", "Nobody saw them leave at night."]
FIRST = ["the little cat sat on the mat.", "It is raining.", "Go on!", "Nobody saw them leave."]
SECOND = ["a small cat sat on a mat.", "it rains", "Continue!", "At night, nobody saw them leave."]


def test_every_metric_equals_sacrebleu_with_several_references_and_an_empty_hypothesis() -> None:
    references = [FIRST, SECOND]
    oracles = [
        sacrebleu.corpus_bleu(HYPOTHESES, references),
        sacrebleu.corpus_chrf(HYPOTHESES, references),
        sacrebleu.corpus_ter(HYPOTHESES, references),
    ]
    scores = evaluate(HYPOTHESES, references, "en", tuple(METRICS))
    assert [(s.name, s.value) for s in scores] == [(o.name, o.score) for o in oracles]
    assert all("nrefs:2|" in score.signature for score in scores)


def test_a_score_prints_its_name_two_decimals_and_the_signature() -> None:
    assert str(Score("BLEU", 37.518, "nrefs:1|tok:13a")) == "BLEU 37.52  nrefs:1|tok:13a"


def test_the_bleu_signature_names_references_case_tokenizer_smoothing_and_version() -> None:
    expected = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert bleu(HYPOTHESES, [FIRST]).signature == expected


@pytest.mark.parametrize(
    ("references", "lang"),
    [
        (["it rains", "no, it", ""], "en"),
        (["it rains", "no, it rains"], "en"),
        (["你好吗", "你好"], "zh"),
        (["你好吗", "你好吗。"], "zh"),
    ],
)
def test_bleu_is_doubted_where_perfect_translations_get_nothing(
    references: list[str], lang: str
) -> None:
    nothing = sacrebleu.corpus_bleu(
        references, [references], tokenize="zh" if lang == "zh" else "13a"
    )
    assert ("no reference has the 4 tokens" in doubt(references, lang)) == (nothing.score == 0)


def test_bleu_without_a_common_4_gram_is_smoothed_not_zero() -> None:
    hypotheses, references = ["one two three four six"], [["one two three five six"]]
    score = bleu(hypotheses, references)
    assert score.value == sacrebleu.corpus_bleu(hypotheses, references).score > 0


@pytest.mark.parametrize("lang", ["zh", "zh-CN", "zh_Hant", "ZH", "zho", "zho_Hans", "chi", "cmn"])
def test_chinese_is_scored_by_characters_however_the_language_is_written(lang: str) -> None:
    hypotheses, references = ["我们今天去学校"], [["我们明天去学校"]]
    score = bleu(hypotheses, references, lang)
    assert score.value == sacrebleu.corpus_bleu(hypotheses, references, tokenize="zh").score
    assert score.value > bleu(hypotheses, references).value
    assert "tok:zh" in score.signature


@pytest.mark.parametrize("lang", ["", "de", "fr-CA", "tlh"])
def test_other_languages_use_13a(lang: str) -> None:
    check_tokenizer(lang)
    assert "tok:13a" in bleu(HYPOTHESES, [FIRST], lang).signature


@pytest.mark.parametrize(
    ("lang", "extra"), [("ja", "ja"), ("jpn", "ja"), ("ko_KR", "ko"), ("kor_Hang", "ko")]
)
def test_a_tokenizer_that_is_not_installed_names_the_extra_to_install(
    lang: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise RuntimeError("as sacreBLEU does without MeCab")

    monkeypatch.setattr(sacrebleu_bleu, "_get_tokenizer", lambda name: missing)
    expected = rf"target language {lang}: .* pip install \"seq2seq-lightning\[{extra}\]\""
    for call in (check_tokenizer, lambda code: bleu(HYPOTHESES, [FIRST], code)):
        with pytest.raises(ConfigError, match=expected):
            call(lang)


def test_the_metrics_are_scored_in_the_order_asked_for() -> None:
    scores = evaluate(HYPOTHESES, [FIRST], metrics=("ter", "bleu"))
    assert [score.name for score in scores] == ["TER", "BLEU"]
    assert scores[1] == bleu(HYPOTHESES, [FIRST])
    assert [score.name for score in evaluate(HYPOTHESES, [FIRST])] == ["BLEU", "chrF2"]


def test_an_unknown_metric_lists_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"metrics=rouge .* bleu, chrf, ter"):
        evaluate(HYPOTHESES, [FIRST], metrics=("rouge",))


@pytest.mark.parametrize("metric", METRICS)
def test_a_reference_set_of_another_length_names_both_numbers_and_the_set(metric: str) -> None:
    with pytest.raises(CorpusError, match=r"4 hypotheses but 3 lines in reference set 2"):
        evaluate(HYPOTHESES, [FIRST, SECOND[:3]], metrics=[metric])


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_to_score_is_an_error(metric: str) -> None:
    with pytest.raises(CorpusError, match=r"0 hypotheses and 0 reference lines"):
        evaluate([], [[]], metrics=[metric])
    with pytest.raises(CorpusError, match=r"4 hypotheses but 0 sets of references"):
        evaluate(HYPOTHESES, [], metrics=[metric])


def test_a_perfect_translation_has_the_best_score() -> None:
    scores = evaluate(FIRST, [SECOND, FIRST], metrics=tuple(METRICS))
    assert [score.value for score in scores] == pytest.approx([100, 100, 0])


def test_lower_cased_scores_are_sacrebleus_and_their_signatures_say_so() -> None:
    scores = evaluate(HYPOTHESES, [FIRST], metrics=tuple(METRICS), lowercase=True)
    assert [score.value for score in scores] == [
        sacrebleu.corpus_bleu(HYPOTHESES, [FIRST], lowercase=True).score,
        sacrebleu.CHRF(lowercase=True).corpus_score(HYPOTHESES, [FIRST]).score,
        sacrebleu.corpus_ter(HYPOTHESES, [FIRST]).score,  # never looks at case
    ]
    assert all("|case:lc|" in score.signature for score in scores)
    assert scores[0].value > bleu(HYPOTHESES, [FIRST]).value
