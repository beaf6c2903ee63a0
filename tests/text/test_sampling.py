"""Sampled segmentations against SentencePiece's best one, and against all that there are."""

import pickle
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import SubwordConfig
from seq2seq.text.piece_order import restricted, text_pieces
from seq2seq.text.sampling import bpe_sampler, unigram_sampler
from seq2seq.text.subwords import Subwords, train_subwords

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
SENTENCES = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 7)) for n in range(300)]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[True, False], ids=["bytes", "unknown"])
def subwords(kind: str, request: pytest.FixtureRequest) -> Subwords:
    size = 60 + 256 * request.param
    config = SubwordConfig(kind=kind, byte_fallback=request.param)  # type: ignore[arg-type]
    return Subwords(train_subwords(SENTENCES, config, size))


def test_without_randomness_the_best_segmentation_comes(subwords: Subwords, kind: str) -> None:
    certain = 1000.0 if kind == "unigram" else 0.0
    for sentence in [*SENTENCES, "tosu 字 karex字s", ""]:
        sampled = subwords.sample(sentence, certain, random.Random(0))
        best = subwords.encode(sentence)
        if 1 in best:  # SentencePiece makes neighbouring unknown characters one
            sampled = [
                now
                for last, now in zip([0, *sampled], sampled, strict=False)
                if now != 1 or last != 1
            ]
        assert sampled == best


@pytest.mark.parametrize("seed", range(5))
def test_pieces_that_a_model_may_not_use_are_taken_apart_as_sentencepiece_does(seed: int) -> None:
    whole = trained("bpe").serialized
    pieces = [piece for piece in text_pieces(whole) if len(piece) > 1]
    subwords = Subwords(restricted(whole, random.Random(seed).sample(pieces, len(pieces) // 2)))
    for sentence in SENTENCES:
        assert subwords.sample(sentence, 0.0, random.Random(0)) == subwords.encode(sentence)


def test_a_symbol_that_its_maker_defined_stays_whole(tmp_path: Path, kind: str) -> None:
    symbols, path = ["<2mi>", "<2", "ka."], tmp_path / "own.model"
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter([*SENTENCES, "<2mi> > < 2 ."]),
        model_prefix=str(path.with_suffix("")),
        model_type=kind,
        vocab_size=45,
        character_coverage=1.0,
        user_defined_symbols=symbols,
        minloglevel=2,
    )
    subwords, sampled = Subwords.adopt(path), set()
    text, strength = "<2mi> tosula <2kares karela ka.<2mi", 0.02 if kind == "unigram" else 0.3
    for seed in range(40):
        ids = subwords.sample(text, strength, random.Random(seed))
        pieces = subwords.pieces(ids)
        assert [piece for piece in pieces if piece in symbols] == ["<2mi>", "<2", "ka.", "<2"]
        assert subwords.decode(ids) == text
        sampled.add(tuple(ids))
    assert len(sampled) > 1


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])), seed=st.integers(0, 99))
def test_a_sample_spells_the_same_text(text: str, seed: int) -> None:
    for kind in ("unigram", "bpe"):
        subwords = trained(kind)
        ids = subwords.sample(text, 0.3, random.Random(seed))
        assert subwords.decode(ids) == subwords.normalized(text)


MODELS: dict[str, Subwords] = {}


def trained(kind: str) -> Subwords:
    if kind not in MODELS:
        config = SubwordConfig(kind=kind)  # type: ignore[arg-type]
        MODELS[kind] = Subwords(train_subwords(SENTENCES, config, 316))
    return MODELS[kind]


@pytest.mark.parametrize("strength", [0.2, 0.5, 1.0])
def test_unigram_segmentations_come_as_often_as_their_smoothed_probability(strength: float) -> None:
    scores = {"a": -1.0, "b": -2.0, "c": -2.5, "ab": -1.5, "bc": -3.0, "abc": -4.0}
    whole = ["abc"], ["ab", "c"], ["a", "bc"], ["a", "b", "c"]
    weights = [2.718281828459045 ** (strength * sum(scores[p] for p in each)) for each in whole]
    segment, generator = unigram_sampler(scores), random.Random(3)
    drawn = Counter(tuple(segment("abc", strength, generator)) for _ in range(20_000))
    assert set(drawn) == set(map(tuple, whole))
    for each, weight in zip(whole, weights, strict=True):
        assert drawn[tuple(each)] / 20_000 == pytest.approx(weight / sum(weights), abs=0.015)


def test_a_character_of_no_piece_is_as_unlikely_as_in_sentencepiece() -> None:
    segment, generator = unigram_sampler({"a": -1.0, "ab": -9.0}), random.Random(3)
    drawn = [tuple(segment("ab", 0.2, generator)) for _ in range(20_000)]
    weight = 2.718281828459045 ** (0.2 * (-1.0 - 19.0 + 9.0))
    assert drawn.count(("a", "b")) / 20_000 == pytest.approx(weight / (weight + 1), abs=0.015)


def test_spaces_that_a_model_keeps_are_not_lost() -> None:
    text = "\u2581\u2581a\u2581\u2581ab\u2581"
    for sampler in (unigram_sampler, bpe_sampler):
        assert "".join(sampler({"a": -1.0, "\u2581a": -2.0})(text, 0.5, random.Random(0))) == text


def test_bpe_makes_the_best_merge_first_and_of_equal_ones_the_left_one() -> None:
    segment = bpe_sampler({"ab": -1.0, "bc": 0.0, "dd": -2.0})
    assert segment("abcddd", 0.0, random.Random(0)) == ["a", "bc", "dd", "d"]


def test_bpe_dropout_makes_each_merge_as_often_as_it_is_kept() -> None:
    segment, generator = bpe_sampler({"a": -9.0, "b": -9.0, "ab": 0.0}), random.Random(3)
    drawn = Counter(tuple(segment("ab", 0.3, generator)) for _ in range(20_000))
    assert drawn["a", "b"] / 20_000 == pytest.approx(0.3, abs=0.015)
    assert segment("ab", 1.0, generator) == ["a", "b"]


def test_a_copy_for_a_worker_process_draws_the_same(subwords: Subwords) -> None:
    first = subwords.sample("tosu kareno", 0.3, random.Random(1))
    copy = pickle.loads(pickle.dumps(subwords))
    assert copy.sample("tosu kareno", 0.3, random.Random(1)) == first


def test_another_process_draws_the_same(tmp_path: Path, subwords: Subwords) -> None:
    (tmp_path / "model").write_bytes(subwords.serialized)
    code = f"""
import random
from pathlib import Path
from seq2seq.text.subwords import Subwords
subwords = Subwords.load(Path({str(tmp_path / "model")!r}))
print(subwords.sample("tosu kareno", 0.3, random.Random("1/2")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{subwords.sample('tosu kareno', 0.3, random.Random('1/2'))}\n"
