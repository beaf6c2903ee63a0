"""Subword models are trained once for a corpus and its settings, and found again."""

import hashlib
import os
import random
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from seq2seq.config import SubwordConfig
from seq2seq.data import vocabulary
from seq2seq.data.corpus import Pair
from seq2seq.data.store import PairStore, write_store
from seq2seq.data.vocabulary import refuse_other_subwords
from seq2seq.errors import ConfigError
from seq2seq.text.subwords import Subwords, train_subwords

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
SENTENCES = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 5)) for n in range(90)]
PAIRS = [Pair(sentence, sentence[::-1]) for sentence in SENTENCES]
JOINT = SubwordConfig(src_vocab_size=290, tgt_vocab_size=290)
SEPARATE = SubwordConfig(joint=False, src_vocab_size=280, tgt_vocab_size=285)


def subwords_of(
    pairs: list[Pair], config: SubwordConfig, folder: Path
) -> tuple[Subwords, Subwords]:
    """Of a corpus whose store is named after its content, as `store_of` names it."""
    store = folder / "corpora" / hashlib.sha256(repr(pairs).encode()).hexdigest()
    if not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        write_store(pairs, store)
    return vocabulary.subwords_of([PairStore(store)], config, folder)


def models_in(folder: Path) -> list[Path]:
    return list((folder / "subwords").glob("*.model"))


def no_training(texts: Iterable[str], config: SubwordConfig, vocab_size: int) -> NoReturn:
    raise AssertionError(f"trained {vocab_size} subwords a second time")


@pytest.mark.parametrize("config", [JOINT, SEPARATE], ids=["joint", "separate"])
def test_subwords_are_trained_once_and_found_again(
    config: SubwordConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = subwords_of(PAIRS, config, tmp_path)
    monkeypatch.setattr(vocabulary, "train_subwords", no_training)
    found = subwords_of(list(PAIRS), replace(config), tmp_path)
    assert [each.serialized for each in found] == [each.serialized for each in trained]


def test_joint_subwords_are_one_object_trained_on_both_sides(tmp_path: Path) -> None:
    src, tgt = subwords_of(PAIRS, JOINT, tmp_path)
    assert src is tgt
    both = [pair.src for pair in PAIRS] + [pair.tgt for pair in PAIRS]
    assert src.serialized == train_subwords(both, JOINT, 290)


def test_corpora_take_turns_so_that_no_text_comes_again_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str]()

    def train(texts: Iterable[str], config: SubwordConfig, size: int) -> bytes:
        seen.extend(texts)
        return train_subwords(seen, config, size)

    monkeypatch.setattr(vocabulary, "train_subwords", train)
    back = [Pair(pair.tgt, pair.src) for pair in PAIRS[:60]]
    stores = list[PairStore]()
    for name, pairs in (("forth", PAIRS), ("back", back)):
        write_store(pairs, tmp_path / name)
        stores.append(PairStore(tmp_path / name))
    vocabulary.subwords_of(stores, JOINT, tmp_path)
    assert seen[:4] == [PAIRS[0].src, PAIRS[0].tgt, PAIRS[0].tgt, PAIRS[0].src]
    assert seen[-2:] == [PAIRS[89].src, PAIRS[89].tgt]
    assert sorted(seen) == sorted(side for pair in [*PAIRS, *back] for side in pair)


def test_separate_subwords_are_two_of_their_own_sizes_each_trained_on_its_side(
    tmp_path: Path,
) -> None:
    src, tgt = subwords_of(PAIRS, SEPARATE, tmp_path)
    assert (len(src), len(tgt)) == (280, 285)
    assert src.serialized == train_subwords([pair.src for pair in PAIRS], SEPARATE, 280)
    assert tgt.serialized == train_subwords([pair.tgt for pair in PAIRS], SEPARATE, 285)


def test_other_settings_and_another_corpus_are_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        (PAIRS, JOINT),
        (PAIRS, replace(JOINT, kind="bpe")),
        (PAIRS, replace(JOINT, normalization="identity")),
        (PAIRS, replace(JOINT, src_vocab_size=280, tgt_vocab_size=280)),
        (PAIRS, replace(JOINT, byte_fallback=False, src_vocab_size=30, tgt_vocab_size=30)),
        (PAIRS[:-1], JOINT),
        ([*PAIRS[:-1], Pair("kare", "tosu")], JOINT),
        (PAIRS[::-1], JOINT),
        # Another SentencePiece may train another model from the same text.
        (PAIRS, JOINT),
    ]
    seen: list[Path] = []
    for number, (pairs, config) in enumerate(asked):
        if number == len(asked) - 1:
            monkeypatch.setattr(vocabulary, "VERSION", "sentencepiece 9.9.9")
        subwords_of(pairs, config, tmp_path)
        now = models_in(tmp_path)
        assert len(now) == len(seen) + 1, f"model {number} is not a new one"
        seen = now


def test_a_line_moved_to_the_other_side_of_the_corpus_is_another_corpus(tmp_path: Path) -> None:
    for cut in range(3):
        subwords_of([Pair("kare tosu"[:cut], "kare tosu"[cut:]), *PAIRS], JOINT, tmp_path)
    assert len(models_in(tmp_path)) == 3


def test_a_training_that_fails_leaves_no_file(tmp_path: Path) -> None:
    config = replace(JOINT, src_vocab_size=20, tgt_vocab_size=20)
    with pytest.raises(ConfigError, match="20"):
        subwords_of(PAIRS, config, tmp_path)
    assert not models_in(tmp_path)


def test_a_run_killed_before_the_model_is_complete_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            subwords_of(PAIRS, JOINT, tmp_path)
    assert not models_in(tmp_path)
    whole, _ = subwords_of(PAIRS, JOINT, tmp_path)
    assert len(whole) == 290


def test_others_may_read_the_cached_model_as_they_may_read_any_new_file(tmp_path: Path) -> None:
    subwords_of(PAIRS, JOINT, tmp_path / "cache")
    (tmp_path / "plain").write_bytes(b"")
    (model,) = models_in(tmp_path / "cache")
    assert model.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_blank_lines_in_a_corpus_do_no_harm(tmp_path: Path) -> None:
    odd = [Pair("kare", ""), Pair("", "tosu\u2028"), Pair(" ", "\x00")]
    first, second = (subwords_of([*PAIRS, *odd], JOINT, tmp_path)[0] for _ in range(2))
    assert first.serialized == second.serialized


def test_a_large_corpus_is_learned_from_evenly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def train(texts: Iterable[str], config: SubwordConfig, size: int) -> bytes:
        seen.extend(texts)
        return train_subwords(SENTENCES, config, size)

    monkeypatch.setattr(vocabulary, "train_subwords", train)
    monkeypatch.setattr(vocabulary, "SAMPLE", 30)
    subwords_of(PAIRS, SEPARATE, tmp_path)
    assert seen[:30] == SENTENCES[::3]
    assert seen[30:] == [sentence[::-1] for sentence in SENTENCES[::3]]


OTHERS = {
    "kind": ("bpe", JOINT),
    "joint": (False, JOINT),
    "src_vocab_size": (270, SEPARATE),
    "tgt_vocab_size": (270, SEPARATE),
    "byte_fallback": (False, JOINT),
    "normalization": ("identity", JOINT),
}


@pytest.mark.parametrize("name", [field.name for field in fields(SubwordConfig)])
def test_a_setting_that_was_changed_and_does_not_fit_other_subwords_is_an_error(
    name: str, tmp_path: Path
) -> None:
    asked, config = OTHERS[name]
    src, tgt = subwords_of(PAIRS, config, tmp_path)
    there = getattr(config, name)
    changed = replace(SubwordConfig(joint=config.joint), **{name: asked})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"data.subwords.{name}={asked} differs from {there} in"):
        refuse_other_subwords(src, tgt, changed, "run")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_settings_that_subwords_were_trained_with_fit_them_and_so_do_the_defaults(
    kind: Literal["unigram", "bpe"], tmp_path: Path
) -> None:
    size = 290 if kind == "unigram" else 282
    for joint in (True, False):
        for normalization in ("nfkc", "identity"):
            config = SubwordConfig(
                kind=kind,
                joint=joint,
                src_vocab_size=size,
                tgt_vocab_size=size,
                normalization=normalization,
            )
            both = subwords_of(PAIRS, config, tmp_path)
            for fitting in (config, SubwordConfig(kind=kind), SubwordConfig()):
                refuse_other_subwords(*both, fitting, "run")


def test_unigram_subwords_may_be_fewer_than_asked_for_but_bpe_not(tmp_path: Path) -> None:
    more = SubwordConfig(src_vocab_size=400, tgt_vocab_size=400)
    refuse_other_subwords(*subwords_of(PAIRS, JOINT, tmp_path), more, "run")
    bpe = subwords_of(PAIRS, replace(JOINT, kind="bpe"), tmp_path)
    with pytest.raises(ConfigError, match="src_vocab_size=400 differs from 290"):
        refuse_other_subwords(*bpe, more, "run")
