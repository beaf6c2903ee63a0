"""The other direction has a say; the oracle asks both models about every translation by itself."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from test_translator import LINES, TEXTS, random_network, searching, subwords
from torch import Tensor

from seq2seq.config import UNK_ID, SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.noisy_channel import NoisyChannelEngine
from seq2seq.translator import Translation, Translator

BEAM = 4
OTHER = subwords(byte_fallback=True)
FORWARD = random_network()
BACKWARD = random_network(3, src_vocab_size=len(OTHER), tgt_vocab_size=len(OTHER))


def channel_engine(weight: float, backward: Transformer = BACKWARD) -> NoisyChannelEngine:
    sides = (subwords(), subwords()), (OTHER, OTHER)
    return NoisyChannelEngine(
        NativeEngine(FORWARD), sides[0], NativeEngine(backward), sides[1], weight
    )


def translator(weight: float, config: SearchConfig) -> Translator:
    return Translator(channel_engine(weight), subwords(), subwords(), config)


def plain(config: SearchConfig) -> Translator:
    return Translator(NativeEngine(FORWARD), subwords(), subwords(), config)


def told_by_other(sentence: str, translations: Sequence[Translation]) -> list[float]:
    """log P(x | y) / |x| of each."""
    backward = Translator(NativeEngine(BACKWARD), OTHER, OTHER)
    texts = [each.text for each in translations]
    scores = backward.score(texts, [sentence] * len(texts))
    return [each.total / len(each.tokens) for each in scores]


@pytest.mark.parametrize("weight", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("n_best", [1, 3])
def test_the_n_best_of_the_beam_are_those_of_the_sum_of_both_directions(
    weight: float, n_best: int
) -> None:
    every = plain(searching(BEAM, n_best=BEAM)).n_best(TEXTS[:20])
    found = translator(weight, searching(BEAM, n_best=n_best)).n_best(TEXTS[:20])
    moved = 0
    for sentence, before, after in zip(TEXTS[:20], every, found, strict=True):
        told = told_by_other(sentence, before)
        scores = [one.score + weight * own for one, own in zip(before, told, strict=True)]
        order = sorted(range(len(before)), key=lambda place: -scores[place])[:n_best]
        assert [each.tokens for each in after] == [before[place].tokens for place in order]
        expected = [scores[place] for place in order]
        assert [each.score for each in after] == pytest.approx(expected, abs=1e-4)
        moved += order[0] != 0
    assert (moved > 0) == (weight > 0)


def test_what_it_is_asked_of_translations_the_engine_that_translates_answers() -> None:
    engine, alone = channel_engine(0.4), NativeEngine(FORWARD)
    src, tgt = [[5, 6, 7], [8]], [[9], [10, 11]]
    for question in ("log_probs", "cross_attention"):
        answers = [getattr(each, question)(src, tgt) for each in (engine, alone)]
        torch.testing.assert_close(*answers)
    assert (engine.max_length, engine.parallel) == (alone.max_length, alone.parallel)


def test_characters_that_the_other_one_cannot_write_have_no_say() -> None:
    engine = NoisyChannelEngine(
        NativeEngine(BACKWARD), (OTHER, OTHER), NativeEngine(FORWARD), (subwords(), subwords())
    )
    written, unknown = "karela tosu", "今"
    src = OTHER.encode_all([written, f"{written} {unknown}", unknown])
    found = engine.channel(src, OTHER.encode_all(["mino"] * 3))
    for text, each in zip([written, f"{written} {unknown}", unknown], found, strict=True):
        (scores,) = Translator(NativeEngine(FORWARD), subwords(), subwords()).score(
            ["mino"], [text]
        )
        finite = [one for one in scores.log_probs if one > -1e9]
        assert each == pytest.approx(sum(finite) / len(scores.log_probs), abs=1e-4)


def test_characters_that_the_one_that_translates_cannot_write_have_no_say() -> None:
    engine = channel_engine(1.0)
    known, unknown = subwords().encode("karela tosu"), subwords().encode("karela 今 tosu")
    assert UNK_ID in unknown
    assert UNK_ID not in known
    said = [subwords().encode("mino")]
    assert engine.channel([unknown], said) == engine.channel([known], said)


def test_a_language_tag_of_the_source_has_no_say() -> None:
    engine = NoisyChannelEngine(
        NativeEngine(BACKWARD), (OTHER, OTHER), NativeEngine(FORWARD), (subwords(), subwords())
    )
    texts = ["karela tosu", ">>yy<< karela tosu", "<2yy> karela tosu"]
    plain, *tagged = engine.channel(OTHER.encode_all(texts), OTHER.encode_all(["mino"] * 3))
    assert tagged == pytest.approx([plain, plain])


def test_what_the_other_one_has_no_number_for_comes_last() -> None:
    class Diverged(NativeEngine):
        def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
            first, *rest = super().log_probs(src, tgt)
            return [first * math.nan, *rest]

    engine = channel_engine(1.0)
    engine.backward = Diverged(BACKWARD)
    src, tgt = subwords().encode_all(TEXTS[:2]), subwords().encode_all(TEXTS[2:4])
    no_number, number = engine.channel(src, tgt)
    assert no_number == -math.inf
    assert number > -1e9


def test_positions_beyond_the_ends_of_the_other_one_have_no_say() -> None:
    settings = {"src_vocab_size": len(OTHER), "tgt_vocab_size": len(OTHER), "max_positions": 5}
    engine = channel_engine(1.0, random_network(3, positions="learned", **settings))
    long, short = subwords().encode(" ".join(TEXTS[:9])), subwords().encode("ka")
    cut = OTHER.encode(subwords().decode(long))[:4]
    beginning = engine.backward.log_probs([cut], [cut])[0].mean()
    assert engine.channel([long], [long]) == pytest.approx([float(beginning)], abs=1e-5)
    assert len(engine.search([Request(long), Request(short)], searching(2))) == 2


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    save_model(SavedModel(FORWARD, subwords(), subwords(), "xx", "yy"), tmp_path / "forward")
    save_model(SavedModel(BACKWARD, OTHER, OTHER, "yy", "xx"), tmp_path / "backward")
    return tmp_path


@pytest.mark.parametrize("workers", [1, 2])
def test_it_is_loaded_from_two_folders(folders: Path, workers: int) -> None:
    config = searching(BEAM)
    loaded = Translator.load(
        folders / "forward",
        config,
        device="cpu",
        rerank=folders / "backward",
        rerank_weight=2.0,
        workers=workers,
    )
    found, expected = loaded.n_best(LINES), translator(2.0, config).n_best(LINES)
    assert [[each.text for each in line] for line in found] == [
        [each.text for each in line] for line in expected
    ]
    assert found != plain(config).n_best(LINES)


def test_errors_of_loading(folders: Path) -> None:
    with pytest.raises(ModelFolderError, match="nowhere"):
        Translator.load(folders / "forward", device="cpu", rerank=folders / "nowhere")
    with pytest.raises(ConfigError, match="rerank_weight=-1 is out of range"):
        Translator.load(
            folders / "forward", device="cpu", rerank=folders / "backward", rerank_weight=-1
        )


@pytest.mark.filterwarnings("error")
def test_models_of_other_languages_than_they_are_asked_for_are_told(folders: Path) -> None:
    forward, backward, unnamed = (folders / name for name in ("forward", "backward", "unnamed"))
    save_model(SavedModel(FORWARD, subwords(), subwords()), unnamed)
    same, dialect = folders / "same", folders / "dialect"
    save_model(SavedModel(FORWARD, subwords(), subwords(), "yy", "xx"), same)
    save_model(SavedModel(FORWARD, subwords(), subwords(), "XX", "yy-YY"), dialect)
    for ensemble, rerank, told in (
        ([forward, unnamed, dialect], backward, None),
        ([], unnamed, None),
        ([forward], forward, r"rerank=\S+/forward was trained from xx to yy; .* from yy to xx"),
        ([forward, same], None, r"ensemble=\S+/same was trained from yy to xx; .* xx to yy"),
    ):
        load = partial(Translator.load, forward, device="cpu", ensemble=ensemble, rerank=rerank)
        with pytest.warns(UserWarning, match=told) if told else nullcontext():
            load()
