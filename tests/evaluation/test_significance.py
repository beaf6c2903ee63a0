"""Intervals and p-values are sacreBLEU's; where it has none, resampling is written out."""

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from seq2seq.errors import ConfigError, CorpusError
from seq2seq.evaluation import significance
from seq2seq.evaluation.metrics import METRICS, evaluate
from seq2seq.evaluation.significance import compare, compare_seeds

RESAMPLES = 60


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """Some of the words replaced."""
    rng = random.Random(seed)
    return [
        " ".join("no" if rng.random() < share else word for word in line.split()) for line in lines
    ]


RNG = random.Random(1)
REFERENCE = [" ".join(RNG.choices("abcdefgh", k=RNG.randint(4, 12))) for _ in range(40)]
SYSTEMS = {"base": noisy(REFERENCE, 0.4, 1), "good": noisy(REFERENCE, 0.1, 2)}


def test_values_and_intervals_are_those_of_corpus_score_with_bootstrap() -> None:
    for score in compare(SYSTEMS, [REFERENCE], metrics=tuple(METRICS), resamples=RESAMPLES):
        metric = {"BLEU": sacrebleu.BLEU, "chrF2": sacrebleu.CHRF, "TER": sacrebleu.TER}[score.name]
        oracle = metric()
        found = oracle.corpus_score(SYSTEMS[score.system], [REFERENCE], n_bootstrap=RESAMPLES)
        expected = pytest.approx((found.score, found._mean, found._ci))
        assert (score.value, score.mean, score.interval) == expected
        assert score.signature == oracle.get_signature().format()
        assert "|seed:12345|" in score.signature


@pytest.mark.parametrize(
    ("paired", "test", "samples", "confidence"),
    [("bootstrap", "bs", RESAMPLES, -1), ("randomization", "ar", 10 * RESAMPLES, RESAMPLES)],
)
def test_p_values_are_those_of_sacrebleus_paired_test(
    paired: str, test: str, samples: int, confidence: int
) -> None:
    scores = compare(SYSTEMS, [REFERENCE], paired=paired, resamples=RESAMPLES)
    test_of_sacrebleu: Any = PairedTest
    signatures, results = test_of_sacrebleu(
        list(SYSTEMS.items()),
        {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()},
        [REFERENCE],
        test_type=test,
        n_samples=samples,
        n_ar_confidence=confidence,
    )()
    oracle = [
        (name, result.p_value, signatures[name].format())
        for name in ("BLEU", "chrF2")
        for result in results[name]
    ]
    assert [(score.name, score.p_value, score.signature) for score in scores] == oracle
    assert f"|{test}:{samples}|" in scores[0].signature


@pytest.mark.parametrize("paired", significance.PAIRED)
@pytest.mark.parametrize("worse", [1, 2, 3])
def test_few_lines_that_differ_are_no_proof(worse: int, paired: str) -> None:
    """All 2**k swaps of k lines that are worse are equally likely, and two of them reach the
    difference."""
    base = REFERENCE[:worse] + SYSTEMS["base"][worse:]
    systems = {"base": base, "worse": ["x"] * worse + base[worse:]}
    _, found = compare(systems, [REFERENCE], metrics=["chrf"], paired=paired, resamples=RESAMPLES)
    assert found.p_value == 2 / 2**worse
    # In lower case the other lines are no different ones.
    systems["worse"] = [line.upper() for line in systems["worse"]]
    _, found = compare(
        systems,
        [REFERENCE],
        metrics=["chrf"],
        lowercase=True,
        paired=paired,
        resamples=RESAMPLES,
    )
    assert found.p_value == 2 / 2**worse


@pytest.mark.parametrize("paired", significance.PAIRED)
@pytest.mark.parametrize(
    ("metric", "other"),
    [("ter", str.upper), ("bleu", lambda line: line.replace("?", "!")), ("bleu", "  {} ".format)],
)
def test_lines_that_count_the_same_are_no_proof(
    metric: str, other: Callable[[str], str], paired: str
) -> None:
    """Swapping them changes no score: TER knows no case, and BLEU no two wrong words apart."""
    base = [f"{line} ?" for line in REFERENCE]
    worse = ["x", "y", *map(other, base[2:])]
    systems = {"base": base, "worse": worse}
    _, found = compare(systems, [REFERENCE], metrics=[metric], paired=paired, resamples=RESAMPLES)
    assert found.p_value is not None
    assert found.p_value >= 2 / 2**2


@pytest.mark.parametrize("paired", significance.PAIRED)
def test_equal_scores_of_other_translations_show_nothing(paired: str) -> None:
    lines = ["one two three four"] * len(REFERENCE)
    systems = {name: [*lines[:n], "x", *lines[n + 1 :]] for n, name in enumerate(("a", "b"))}
    _, found = compare(systems, [lines], metrics=["bleu"], paired=paired, resamples=RESAMPLES)
    assert found.p_value == 1


@pytest.mark.parametrize("seed", ["0", "-1", "abc", "1.5", ""])
def test_a_seed_that_is_none_is_refused(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """sacreBLEU takes 0 for no seed at all, and says seed:0."""
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    said = f"SACREBLEU_SEED={seed} in the environment is not a seed"
    with pytest.raises(ConfigError, match=said):
        compare(SYSTEMS, [REFERENCE], resamples=RESAMPLES)
    seeds = {name: [each] for name, each in SYSTEMS.items()}
    with pytest.raises(ConfigError, match=said):
        compare_seeds(seeds, [REFERENCE], resamples=RESAMPLES)


@pytest.mark.parametrize("seed", ["none", "None", "1", "77"])
def test_the_seed_of_the_environment_stands_in_the_signature(
    seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    for score in compare(SYSTEMS, [REFERENCE], metrics=["chrf"], resamples=3):
        assert f"|seed:{seed.lower()}|" in score.signature


@pytest.mark.parametrize("seeds", [3, 2])
def test_few_sentences_are_no_proof_for_any_number_of_seeds(seeds: int) -> None:
    base = [REFERENCE[:2] + SYSTEMS["base"][2:]] * 3
    worse = [["x", "x", *each[2:]] for each in base]
    systems = {"base": base, "worse": worse[:seeds]}
    _, found = compare_seeds(systems, [REFERENCE], metrics=["chrf"], resamples=RESAMPLES)
    assert found.p_value == 2 / 2**2


@pytest.mark.parametrize("paired", significance.PAIRED)
def test_a_clear_difference_is_found_and_an_equal_system_is_not(paired: str) -> None:
    systems = {**SYSTEMS, "same": SYSTEMS["base"]}
    base, good, same = compare(
        systems, [REFERENCE], metrics=["bleu"], paired=paired, resamples=RESAMPLES
    )
    assert base.p_value is None
    assert good.p_value is not None
    assert good.p_value < 0.05
    assert same.p_value == 1


def test_without_resamples_there_are_scores_alone() -> None:
    scores = compare(SYSTEMS, [REFERENCE], lowercase=True, resamples=0)
    for score in scores:
        assert (score.mean, score.interval, score.p_value) == (None, None, None)
    plain = evaluate(SYSTEMS["good"], [REFERENCE], lowercase=True)
    assert [(s.name, s.value, s.signature) for s in scores if s.system == "good"] == [
        (s.name, s.value, s.signature) for s in plain
    ]


def test_a_single_system_has_an_interval_whatever_the_test() -> None:
    only = {"only": SYSTEMS["base"]}
    one, other = (
        compare(only, [REFERENCE], paired=paired, resamples=RESAMPLES)
        for paired in significance.PAIRED
    )
    assert one == other
    assert one[0].interval


def test_too_much_memory_is_refused_with_the_number_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match=r"=1000000 of 40 lines need 4 GB .* at most 750000, or"):
        compare(SYSTEMS, [REFERENCE], resamples=1_000_000)
    monkeypatch.setattr(significance, "MOST_LINES", 4000)
    with pytest.raises(ConfigError, match=r"resamples=101 of 40 lines .* at most 100, or 0"):
        compare(SYSTEMS, [REFERENCE], resamples=101)
    seeds = {name: [lines] for name, lines in SYSTEMS.items()}
    with pytest.raises(ConfigError, match=r"resamples=101 of 40 lines .* at most 100\.$"):
        compare_seeds(seeds, [REFERENCE], resamples=101)
    assert compare(SYSTEMS, [REFERENCE], metrics=["chrf"], resamples=100)
    assert compare(SYSTEMS, [REFERENCE], resamples=0)


def test_settings_that_cannot_work_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"paired=luck .*bootstrap, randomization"):
        compare(SYSTEMS, [REFERENCE], paired="luck")
    with pytest.raises(ConfigError, match=r"resamples=-1 "):
        compare(SYSTEMS, [REFERENCE], resamples=-1)
    with pytest.raises(CorpusError, match=r"39 hypotheses but 40 lines"):
        compare({**SYSTEMS, "short": REFERENCE[:39]}, [REFERENCE])
    with pytest.raises(CorpusError, match=r"39 hypotheses but 40 lines"):
        compare_seeds({"one": [REFERENCE], "short": [REFERENCE[:39]]}, [REFERENCE])


# -- several seeds

BASE = [noisy(REFERENCE, 0.3, seed) for seed in (1, 2, 3)]
OTHER = [noisy(REFERENCE, 0.2, seed) for seed in (4, 5)]


def test_the_score_of_seeds_is_that_of_all_their_translations_together() -> None:
    scores = compare_seeds({"base": BASE, "other": OTHER}, [REFERENCE], resamples=RESAMPLES)
    for found, seeds in ((scores[::2], BASE), (scores[1::2], OTHER)):
        together = evaluate([*chain.from_iterable(seeds)], [REFERENCE * len(seeds)])
        assert [score.name for score in found] == [score.name for score in together]
        values = [score.value for score in together]
        assert [score.value for score in found] == pytest.approx(values)


def test_a_sentence_is_drawn_with_all_its_translations() -> None:
    _, other = compare_seeds(
        {"base": BASE, "other": OTHER}, [REFERENCE], metrics=["bleu"], resamples=RESAMPLES
    )
    draws = np.random.default_rng(12345).choice(40, size=(RESAMPLES, 40), replace=True)
    scores = [
        sacrebleu.corpus_bleu(
            [each[n] for each in OTHER for n in draw], [[REFERENCE[n] for _ in OTHER for n in draw]]
        ).score
        for draw in draws
    ]
    assert other.mean == pytest.approx(np.mean(scores), abs=1e-3)


def test_copies_of_one_translation_are_no_surer_than_it() -> None:
    """Drawn sentence by sentence, eight copies would have an interval sqrt(8) times narrower."""
    once = compare_seeds({"x": BASE[:1]}, [REFERENCE], resamples=RESAMPLES)
    copied = compare_seeds({"x": BASE[:1] * 8}, [REFERENCE], resamples=RESAMPLES)
    assert [s.interval for s in copied] == [pytest.approx(s.interval) for s in once]
    plain = compare({"x": BASE[0]}, [REFERENCE], resamples=RESAMPLES)
    assert [s.interval for s in once] == [pytest.approx(s.interval) for s in plain]
