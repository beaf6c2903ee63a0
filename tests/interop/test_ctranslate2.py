"""CTranslate2 as an engine; our own engine and network, asked directly, are the oracle."""

import gc
import math
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_option import TEXTS, opened, random_model

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Sampling, SearchConfig
from seq2seq.data.batch import pad
from seq2seq.decoding.request import Request
from seq2seq.decoding.sample import truncate
from seq2seq.decoding.search import length_penalty
from seq2seq.engine import ModelStepper, NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.interop.targets import export
from seq2seq.model_card import front_matter
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.sentence import Sentence
from seq2seq.translation import BLANK
from seq2seq.translator import Translator

pytestmark = pytest.mark.export

SETTINGS: list[dict[str, Any]] = [
    {},
    {"start_token": "pad", "activation": "swiglu"},
    {"tgt_vocab_size": 34},
]
every_model = pytest.mark.parametrize("settings", SETTINGS, ids=str)
PREFIXES = [[], [7], [9, 5, 6], [4] * 12]


def search_of(beam: int, **settings: Any) -> SearchConfig:
    short = SearchConfig(beam=beam, max_length_ratio=0.5, max_length_offset=4)
    return replace(short, **settings)


def brief_model(**settings: Any) -> SavedModel:
    """Some of its translations end before a limit ends them."""
    saved = random_model(d_model=48, heads=4, tie="none", output_bias=True, **settings)
    with torch.no_grad():
        saved.network.output.bias[EOS_ID] += 4.0
    return saved


def asked(saved: SavedModel) -> list[Request]:
    """Some with a prefix, of different lengths and limits."""
    ids = saved.src_subwords.encode_all(TEXTS[:24])
    return [Request(src, PREFIXES[n % 4]) for n, src in enumerate(ids)]


@every_model
def test_greedy_search_is_ours_with_prefixes_limits_and_scores(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    saved = brief_model(**settings)
    other, _ = opened(saved, "ctranslate2", tmp_path)
    for alpha in (0.0, 1.0):
        config = search_of(1, alpha=alpha)
        expected = NativeEngine(saved.network).search(asked(saved), config)
        found = other.search(asked(saved), config)
        for (ours,), (theirs,) in zip(expected, found, strict=True):
            assert theirs.tokens == ours.tokens
            assert theirs.score == pytest.approx(ours.score, abs=1e-4)
    limits = [config.max_length(len(each.src)) + len(each.prefix) for each in asked(saved)]
    at_limit = [len(h.tokens) + 1 == n for (h,), n in zip(found, limits, strict=True)]
    assert any(at_limit)
    assert not all(at_limit)


@every_model
def test_hypotheses_of_a_beam_are_possible_scored_as_ours_and_best_first(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    saved = brief_model(**settings)
    other, _ = opened(saved, "ctranslate2", tmp_path)
    native, config = NativeEngine(saved.network), search_of(4, n_best=3, alpha=0.7)
    found, batch = other.search(asked(saved), config), asked(saved)
    for request, hypotheses in zip(batch, found, strict=True):
        limit = config.max_length(len(request.src)) + len(request.prefix)
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert 1 <= len(hypotheses) <= 3
        assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses)
        for tokens, score in hypotheses:
            assert tokens[: len(request.prefix)] == request.prefix
            assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(tokens)
            assert len(tokens) < limit
            (row,) = native.log_probs([request.src], [tokens])
            expected = float(row.sum()) / length_penalty(len(row), config)
            assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("offset", [1, 2, 6])
@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
def test_of_a_beam_that_its_limit_ends_all_hypotheses_are_ours(
    offset: int, engine: str, tmp_path: Path
) -> None:
    saved = brief_model()
    with torch.no_grad():
        saved.network.output.bias[:4] -= 40.0  # nothing ends before its limit
    other, _ = opened(saved, engine, tmp_path)
    config = search_of(4, n_best=4, max_length_ratio=0.0, max_length_offset=offset)
    batch = [replace(each, prefix=[]) for each in asked(saved)]
    expected = NativeEngine(saved.network).search(batch, config)
    for ours, theirs in zip(expected, other.search(batch, config), strict=True):
        assert len(ours) == (1 if offset == 1 else 4)
        assert [each.tokens for each in theirs] == [each.tokens for each in ours]
        scores = [each.score for each in ours]
        assert [each.score for each in theirs] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
def test_a_beam_finds_the_same_among_sentences_of_other_limits(engine: str, tmp_path: Path) -> None:
    saved = brief_model()
    other, _ = opened(saved, engine, tmp_path)
    # Beside a prefix CTranslate2 gives no empty translation.
    batch, config = asked(saved), search_of(4, n_best=3, alpha=0.7, min_target_length=1)
    for request, among in zip(batch, other.search(batch, config), strict=True):
        (alone,) = other.search([request], config)
        assert [each.tokens for each in among] == [each.tokens for each in alone]
        scores = [each.score for each in alone]
        assert [each.score for each in among] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize(
    "wish",
    [{"min_target_length": 5}, {"no_repeat_ngram": 1}, {"min_target_length": 90}],
    ids=str,
)
@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
def test_rules_of_a_greedy_search_are_ours(
    engine: str, wish: dict[str, Any], tmp_path: Path
) -> None:
    saved = brief_model()
    other, _ = opened(saved, engine, tmp_path)
    batch, config = asked(saved), search_of(1)
    plain = NativeEngine(saved.network).search(batch, config)
    config = replace(config, **wish)
    expected = NativeEngine(saved.network).search(batch, config)
    assert [each.tokens for (each,) in expected] != [each.tokens for (each,) in plain]
    for (ours,), (theirs,) in zip(expected, other.search(batch, config), strict=True):
        assert theirs.tokens == ours.tokens
        assert theirs.score == pytest.approx(ours.score, abs=1e-4)


@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(top_k=3),
        Sampling(top_p=0.4),
        Sampling(temperature=2.0, top_k=20, top_p=0.7),
        Sampling(temperature=0.5, top_k=1000),
    ],
    ids=str,
)
def test_draws_have_our_probabilities(engine: str, sampling: Sampling, tmp_path: Path) -> None:
    saved = brief_model()
    other, _ = opened(saved, engine, tmp_path)
    network, src, draws = saved.network, [5, 9, 4], 4000
    config = SearchConfig(sampling=sampling, n_best=draws, max_target_length=2)
    (found,) = other.search([Request(src)], config)
    assert len(found) == draws
    counts = Counter(each.tokens[0] if each.tokens else EOS_ID for each in found)
    with torch.inference_mode():
        stepper = ModelStepper(network, *pad([[*src, EOS_ID]]))
        stepper.start(1)
        log_probs = stepper.step(torch.tensor([network.config.start_id]))  # (1, V)
    wanted = truncate((log_probs / sampling.temperature).softmax(dim=-1), sampling)[0]
    wanted = wanted / wanted.sum()
    assert set(counts) <= set(wanted.nonzero()[:, 0].tolist())
    for token, share in enumerate(wanted.tolist()):
        noise = math.sqrt(share * (1 - share) / draws)
        assert counts[token] / draws == pytest.approx(share, abs=5 * noise + 1e-4)


@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
def test_draws_among_one_token_are_those_of_our_engine(engine: str, tmp_path: Path) -> None:
    saved = brief_model()
    other, _ = opened(saved, engine, tmp_path)
    config = search_of(1, n_best=3, sampling=Sampling(top_k=1))
    expected = NativeEngine(saved.network).search(asked(saved), config)
    for ours, theirs in zip(expected, other.search(asked(saved), config), strict=True):
        assert [each.tokens for each in theirs] == [each.tokens for each in ours]
        scores = [each.score for each in ours]
        assert [each.score for each in theirs] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("engine", ["ctranslate2", "huggingface"])
def test_draws_follow_from_the_seed_are_possible_and_scored_as_ours(
    engine: str, tmp_path: Path
) -> None:
    saved = brief_model()
    with torch.no_grad():
        saved.network.output.bias[[PAD_ID, BOS_ID, UNK_ID]] += 9.0
    other, _ = opened(saved, engine, tmp_path)
    batch, native = asked(saved), NativeEngine(saved.network)
    config = search_of(1, n_best=40, alpha=0.7, sampling=Sampling(seed=3), min_target_length=2)
    found = other.search(batch, config)
    assert other.search(batch, config) == found
    assert other.search(batch, replace(config, sampling=Sampling(seed=4))) != found
    elsewhere = [replace(each, place=(1000, 0)) for each in batch]
    assert other.search(elsewhere, config) != found
    for request, hypotheses in zip(batch, found, strict=True):
        limit = config.max_length(len(request.src)) + len(request.prefix)
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len(hypotheses) == 40
        rows = native.log_probs([request.src] * 40, [each.tokens for each in hypotheses])
        for (tokens, score), row in zip(hypotheses, rows, strict=True):
            assert tokens[: len(request.prefix)] == request.prefix
            assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & set(tokens)
            assert 2 <= len(tokens) < limit
            expected = float(row.sum()) / length_penalty(len(row), config)
            assert score == pytest.approx(expected, abs=1e-4)
    same = [tuple(each.tokens) for each in found[0]]
    assert len(set(same)) < len(same), "draws are independent: the same may come twice"


def test_tokens_that_are_never_said_would_be_said_otherwise(tmp_path: Path) -> None:
    saved = random_model(output_bias=True)
    with torch.no_grad():
        saved.network.output.bias[[PAD_ID, BOS_ID, UNK_ID]] += 9.0
    other, _ = opened(saved, "ctranslate2", tmp_path)
    batch = [Request(each.src) for each in asked(saved)]
    expected = NativeEngine(saved.network).search(batch, search_of(1))
    found = other.search(batch, search_of(1))
    assert [h.tokens for (h,) in found] == [h.tokens for (h,) in expected]
    scores = [h.score for (h,) in expected]
    assert [h.score for (h,) in found] == pytest.approx(scores, abs=1e-4)
    assert max(scores) < -5


def test_log_probabilities_are_ours_and_nothing_for_what_is_never_said(tmp_path: Path) -> None:
    saved = random_model()
    other, _ = opened(saved, "ctranslate2", tmp_path)
    pairs = [[5, 9], [8], [7, 7, 7]], [[], [6, UNK_ID, 9], [4]]
    ours = NativeEngine(saved.network).log_probs(*pairs)
    for a, b in zip(ours, other.log_probs(*pairs), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def test_translations_are_scored_and_nothing_is_told_of_attention(tmp_path: Path) -> None:
    saved = random_model()
    other, _ = opened(saved, "ctranslate2", tmp_path)
    engines = NativeEngine(saved.network), other
    ours, theirs = (Translator(e, saved.src_subwords, saved.tgt_subwords) for e in engines)
    lines, said = TEXTS[:6], TEXTS[6:12]
    for a, b in zip(ours.score(lines, said), theirs.score(lines, said), strict=True):
        assert a.tokens == b.tokens
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)
    with pytest.raises(ConfigError, match="CTranslate2Engine does not tell where each layer"):
        theirs.align(lines, said)


def test_what_it_cannot_search_for_is_refused_all_at_once(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Newer(SearchConfig):
        magic: int = 0

    @dataclass(frozen=True)
    class Wish(Request):
        rhyme: str = ""

    other, _ = opened(random_model(), "ctranslate2", tmp_path)
    other.search([Request([5])], search_of(2))
    config = Newer(length_penalty="gnmt", magic=3)
    with pytest.raises(ConfigError) as refusal:
        other.search([Wish([5]), Wish([6], rhyme="heart"), Wish([7], rhyme="heart")], config)
    for reason in ("search.length_penalty=gnmt: ", "use length.", "search.magic=3:", "rhyme: "):
        assert str(refusal.value).count(reason) == 1


@pytest.mark.parametrize("kind", ["model", "run", "exported"])
def test_a_translator_takes_a_model_a_run_and_what_was_exported(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, place, scratch = random_model(), tmp_path / "place", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    if kind == "exported":
        export(saved, "ctranslate2", place)
    else:
        save_model(saved, place / "model" if kind == "run" else place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    lines: list[str | Sentence] = ["", *TEXTS[:20], Sentence("kare", prefix="tosu")]
    native = Translator(NativeEngine(saved.network), saved.src_subwords, saved.tgt_subwords)
    expected = native.with_config(search_of(1)).translate(lines)
    found = Translator.load(place, search_of(1), engine="ctranslate2", device="cpu")
    assert found.translate(lines) == expected
    assert found.with_config(search_of(4, n_best=2)).n_best(lines)[0] == [BLANK]
    drawn = found.with_config(search_of(1, sampling=Sampling(temperature=9.0))).translate(lines)
    assert len(drawn) == len(lines)
    assert drawn != expected
    del found
    gc.collect()
    assert not list(scratch.iterdir()), "what was exported for the engine is gone with it"
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["ctranslate2", "onnx"])
def test_the_example_of_the_model_card_prints_our_greedy_translation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = replace(brief_model(), src_lang="en", tgt_lang="de", provenance={"license": "mit"})
    export(saved, name, tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    header = front_matter(card)
    assert (header["library_name"], header["language"]) == (name, ["en", "de"])
    assert header["license"] == "mit"
    assert "Weights are stored in fp32." in card
    monkeypatch.chdir(tmp_path)
    example = card.split("```python\n")[1].split("```")[0].replace("beam_size=5", "beam_size=1")
    native = Translator(NativeEngine(saved.network), saved.src_subwords, saved.tgt_subwords)
    expected = native.with_config(SearchConfig(beam=1)).translate(TEXTS)
    ending = [n for n, text in enumerate(expected) if 1 < len(text.split()) < 9]
    assert ending
    for number in ending:
        exec(example.replace("A sentence.", TEXTS[number]), {})
        assert capsys.readouterr().out == f"{expected[number]}\n"


@pytest.mark.parametrize("quantize", ["int8", "int8_bfloat16", "float16"])
def test_a_quantised_export_is_smaller_nearly_alike_and_leaves_the_model_as_it_is(
    quantize: str, tmp_path: Path
) -> None:
    saved = random_model(d_model=48, ff_dim=96)
    before = {name: value.clone() for name, value in saved.network.state_dict().items()}
    for name in ("fp32", quantize):
        export(saved, "ctranslate2", tmp_path / name, None if name == "fp32" else name)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in (quantize, "fp32")]
    assert sizes[0] < 0.6 * sizes[1]
    assert all(value.equal(before[name]) for name, value in saved.network.state_dict().items())
    translator = Translator.load(tmp_path / quantize, engine="ctranslate2", device="cpu")
    batch = [[5, 9, 4], [8]], [[6, 9], [4, 4, 4]]
    ours = torch.cat(NativeEngine(saved.network).log_probs(*batch))
    theirs = torch.cat(translator.engine.log_probs(*batch))  # type: ignore[attr-defined]
    assert 1e-6 < float((ours - theirs).abs().mean()) < 0.5 * float(ours.std())


@pytest.mark.parametrize("joint", [True, False])
def test_its_own_translator_needs_nothing_else(joint: bool, tmp_path: Path) -> None:
    import ctranslate2

    saved = random_model(**{} if joint else {"tie": "none", "tgt_vocab_size": 34})
    export(saved, "ctranslate2", tmp_path)
    vocabularies = {"shared_vocabulary.json"}
    if not joint:
        vocabularies = {"source_vocabulary.json", "target_vocabulary.json"}
    ours = {"seq2seq.json", "subwords.src.model", "subwords.tgt.model", "README.md"}
    theirs = {"config.json", "model.bin", *vocabularies}
    assert {path.name for path in tmp_path.iterdir()} == ours | theirs
    for name in ours:
        (tmp_path / name).unlink()
    src = saved.src_subwords.encode(TEXTS[5])
    pieces = [saved.src_subwords.pieces(src)]
    told = ctranslate2.Translator(str(tmp_path)).translate_batch(
        pieces, beam_size=1, max_decoding_length=3, suppress_sequences=[["<pad>"], ["<s>"]]
    )
    wide = SearchConfig(beam=1, max_length_ratio=0, max_length_offset=9)
    ((best,),) = NativeEngine(saved.network).search([Request(src)], wide)
    assert told[0].hypotheses[0] == saved.tgt_subwords.pieces(best.tokens)[:3]


def test_a_sentence_beyond_the_table_of_positions_is_named(tmp_path: Path) -> None:
    export(random_model(), "ctranslate2", tmp_path)
    translator = Translator.load(
        tmp_path, search_of(1), engine="ctranslate2", device="cpu", too_long="error"
    )
    length = len(translator.src_subwords.encode("kareno"))
    fitting = "kareno " * (1023 // length)
    assert translator.translate([fitting])[0]
    with pytest.raises(SentenceError, match=r"sentence 1 has \d+ subwords.* end at 1024;"):
        translator.translate([fitting * 2])


@pytest.mark.parametrize(
    ("options", "said"),
    [({"device": "abacus"}, "device=abacus"), ({"precision": "fp16"}, "precision=fp16")],
)
def test_a_device_or_a_precision_that_it_lacks_is_named(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    export(random_model(), "ctranslate2", tmp_path)
    options = {"device": "cpu", **options}
    with pytest.raises(ConfigError, match=f"engine=ctranslate2 .*{said}.* cannot be used"):
        Translator.load(tmp_path, engine="ctranslate2", **options)
