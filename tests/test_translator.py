"""The whole trip with tiny random networks; the network itself, asked directly, is the oracle."""

import math
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from seq2seq import pipeline
from seq2seq.config import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    ModelConfig,
    Sampling,
    SearchConfig,
    SubwordConfig,
)
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine, ModelStepper, NativeEngine, searches_beside_caller
from seq2seq.errors import ConfigError, ModelFolderError, SentenceError
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.nn import packed
from seq2seq.nn.transformer import Transformer
from seq2seq.sentence import Sentence
from seq2seq.text.pieces import split
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.translator import PRECISIONS, Translation, Translator

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 5)) for n in range(90)]
PATIENCE = 60
"""Seconds that a thread may take to come."""
BLANKS = ["", "   ", "\t", "\u3000", "\r", "\x00\ufeff"]
LINES = [*TEXTS[:10], "", *TEXTS[11:14], "   ", "karela 今 tosu", "\t", TEXTS[3]]


@cache
def subwords(*, byte_fallback: bool = False) -> Subwords:
    config = SubwordConfig(byte_fallback=byte_fallback)
    return Subwords(train_subwords(TEXTS, config, 300 if byte_fallback else 40))


@cache
def random_network(seed: int = 0, **settings: Any) -> Transformer:
    """Random enough that sentences end at different lengths and say different things."""
    size = len(subwords())
    small: dict[str, Any] = {"d_model": 16, "heads": 2, "ff_dim": 24, "encoder_layers": 1}
    small["decoder_layers"] = 2
    vocabulary = {"src_vocab_size": size, "tgt_vocab_size": size}
    config = ModelConfig(**{**small, **vocabulary, "tie": "none", **settings})
    network = Transformer(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return network


def requests(sentences: Sequence[Sequence[int]]) -> list[Request]:
    return [Request(ids) for ids in sentences]


def searching(beam: int, **settings: Any) -> SearchConfig:
    """Short translations, so that the tests are fast."""
    return replace(SearchConfig(beam=beam, max_length_ratio=1.0, max_length_offset=3), **settings)


def random_translator(config: SearchConfig | None = None, **options: Any) -> Translator:
    engine = NativeEngine(random_network())
    return Translator(engine, subwords(), subwords(), config or searching(3), **options)


@dataclass
class Echo:
    """An engine of somebody else: says the source backwards, and keeps what it was asked."""

    max_length: int | None = None
    parallel: int = 1
    asked: list[list[list[int]]] = field(default_factory=list)

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        self.asked.append([list(each.src) for each in batch])
        return [
            [Hypothesis(list(each.src[::-1]), -float(n)) for n in range(config.n_best)]
            for each in batch
        ]


def same_tokens(found: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> bool:
    return [each.tokens for each in found] == [each.tokens for each in other]


def log_probs_of(network: Transformer, src: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """log P (T, V) of what follows the start token and each of the tokens, all at once."""
    source = torch.tensor([[*src, EOS_ID]])
    tgt_in = torch.tensor([[network.config.start_id, *tokens]])
    with torch.no_grad():
        hidden = network(source, torch.tensor([len(src) + 1]), tgt_in)
        return network.project(hidden)[0].log_softmax(dim=-1)


def test_every_line_gives_one_line_in_order() -> None:
    translator = random_translator()
    together = translator.translate(LINES)
    assert len(together) == len(LINES)
    assert together == [translator.translate([line])[0] for line in LINES]
    assert len(set(together)) > 8
    assert translator.translate(LINES[::-1]) == together[::-1]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(("batch_tokens", "parallel"), [(1, 1), (512, 1), (64, 2), (16_384, 2)])
def test_batches_and_order_have_no_say_in_a_translation_or_its_score(
    beam: int, batch_tokens: int, parallel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = searching(beam, n_best=beam)
    expected = random_translator(config).n_best(LINES)
    monkeypatch.setattr(NativeEngine, "parallel", parallel)
    order = random.Random(batch_tokens).sample(range(len(LINES)), len(LINES))
    shuffled = [LINES[index] for index in order]
    found = random_translator(config, batch_tokens=batch_tokens).n_best(shuffled)
    for index, other in zip(order, found, strict=True):
        one = expected[index]
        assert [each.text for each in one] == [each.text for each in other]
        assert [e.score for e in one] == pytest.approx([e.score for e in other], abs=1e-4)


def test_on_a_cpu_the_caller_searches_and_on_a_gpu_a_thread_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[threading.Thread] = []
    search = NativeEngine.search

    def spied(self: NativeEngine, *asked: Any) -> list[list[Hypothesis]]:
        searched.append(threading.current_thread())
        return search(self, *asked)

    monkeypatch.setattr(NativeEngine, "search", spied)
    random_translator().translate(LINES[:2])
    assert searched == [threading.current_thread()]
    assert searches_beside_caller(torch.device("cuda")) == 1


def test_several_threads_may_share_a_translator() -> None:
    """Each searches in its own: they wait there for each other."""
    together, network = threading.Barrier(4), random_network()

    class Meeting(NativeEngine):
        def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
            together.wait(PATIENCE)
            return super().search(batch, config)

    translator = Translator(Meeting(network), subwords(), subwords(), searching(3))
    lines = TEXTS[:16]
    expected = [random_translator().translate([line]) for line in lines]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda line: translator.translate([line]), lines)) == expected


def test_blank_lines_stay_blank_and_never_reach_the_engine() -> None:
    engine = Echo()
    translator = Translator(engine, subwords(), subwords(), searching(2, n_best=2))
    assert translator.n_best(BLANKS) == [[Translation("", 0.0)]] * len(BLANKS)
    assert engine.asked == []
    assert random_translator().translate(["", "kare", " "])[::2] == ["", ""]
    assert random_translator().translate([]) == []


@pytest.mark.parametrize("sampling", [None, Sampling()], ids=["search", "samples"])
@pytest.mark.parametrize("n_best", [1, 2, 4])
def test_n_best_gives_so_many_best_first_and_translate_gives_the_first(
    n_best: int, sampling: Sampling | None
) -> None:
    translator = random_translator(searching(4, n_best=n_best, sampling=sampling))
    found = translator.n_best(TEXTS[:10])
    assert [len(each) for each in found] == [n_best] * 10
    for each in found:
        scores = [translation.score for translation in each]
        assert scores == sorted(scores, reverse=True)
    assert translator.translate(TEXTS[:10]) == [each[0].text for each in found]


def test_greedy_search_gives_what_a_beam_of_one_gives() -> None:
    config, network = searching(1), random_network()
    ids = [subwords().encode(text) for text in TEXTS[:20]]
    greedy = NativeEngine(network).search(requests(ids), config)
    for sentence, (found,) in zip(ids, greedy, strict=True):
        src = torch.tensor([[*sentence, EOS_ID]])
        limits = torch.tensor([config.max_length(len(sentence))])
        with torch.inference_mode():
            stepper = ModelStepper(network, src, torch.tensor([src.shape[1]]))
            ((beam,),) = beam_search(stepper, limits, network.config.start_id, config)
        assert found.tokens == beam.tokens
        assert found.score == pytest.approx(beam.score, abs=1e-4)


@pytest.mark.parametrize("penalty", ["length", "gnmt"])
@pytest.mark.parametrize("settings", [{}, {"start_token": "pad", "norm": "post"}], ids=str)
def test_a_score_is_the_log_probability_of_the_translation_over_the_length_penalty(
    penalty: Literal["length", "gnmt"], settings: dict[str, Any]
) -> None:
    config = searching(4, n_best=4, length_penalty=penalty, alpha=0.7)
    network = random_network(1, **settings)
    ids = [subwords().encode(text) for text in TEXTS[:12]]
    for src, found in zip(ids, NativeEngine(network).search(requests(ids), config), strict=True):
        for tokens, score in found:
            wanted = torch.tensor([*tokens, EOS_ID])
            each = log_probs_of(network, src, tokens).gather(1, wanted[:, None])
            length = len(wanted)
            divisor = length**0.7 if penalty == "length" else ((5 + length) / 6) ** 0.7
            assert score == pytest.approx(float(each.sum()) / divisor, rel=3e-5, abs=1e-4)


def test_steps_with_a_cache_give_the_log_probabilities_of_the_whole_at_once() -> None:
    network, width = random_network(2), 3
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(4, len(subwords()), (4, 6), generator=generator)
    src_lens = torch.tensor([6, 2, 4, 1])
    with torch.no_grad():
        stepper = ModelStepper(network, src, src_lens)
        stepper.start(width)
        sentences = [0, 1, 2, 3]
        told = [[network.config.start_id] for _ in range(4 * width)]
        for step in range(7):
            found = stepper.step(torch.tensor([row[-1] for row in told]))
            of_row = [sentence for sentence in sentences for _ in range(width)]
            hidden = network(src[of_row], src_lens[of_row], torch.tensor(told))
            whole = network.project(hidden[:, -1]).log_softmax(dim=-1)
            allowed = [i for i in range(len(subwords())) if i not in (PAD_ID, UNK_ID, BOS_ID)]
            torch.testing.assert_close(found[:, allowed], whole[:, allowed], atol=1e-4, rtol=0)
            # Mix the beams of every sentence, and let one sentence go every other step.
            kept = torch.arange(len(sentences))[: len(sentences) - (step % 2)]
            beams = torch.randint(width, (len(kept), width), generator=generator)
            stepper.select(kept.tolist(), beams)
            rows = (kept[:, None] * width + beams).flatten().tolist()
            following = torch.randint(3, len(subwords()), (len(rows),), generator=generator)
            told = [[*told[r], t] for r, t in zip(rows, following.tolist(), strict=True)]
            sentences = sentences[: len(kept)]
    assert sentences == [0]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_never_holds_padding_start_or_unknown_tokens(beam: int) -> None:
    network = random_network(3, output_bias=True)
    with torch.no_grad():
        network.output.bias[[PAD_ID, BOS_ID, UNK_ID]] = 30.0  # what the network would love to say
    ids = [subwords().encode(text) for text in [*TEXTS[:20], "今 今"]]
    assert UNK_ID in ids[-1]
    found = NativeEngine(network).search(requests(ids), searching(beam, n_best=beam))
    said = {token for hypotheses in found for each in hypotheses for token in each.tokens}
    assert said
    assert not said & {PAD_ID, UNK_ID, BOS_ID, EOS_ID}


@pytest.mark.parametrize("beam", [1, 3])
def test_a_network_that_has_diverged_says_nothing_with_no_score(beam: int) -> None:
    network = random_network(5)
    with torch.no_grad():
        network.output.weight.fill_(math.nan)
    config = searching(beam, n_best=beam)
    translator = Translator(NativeEngine(network), subwords(), subwords(), config)
    assert translator.translate(["kare", "", "tosu mino"]) == ["", "", ""]
    found = translator.n_best(["kare", "tosu mino"])
    assert all(each and not math.isfinite(each[0].score) for each in found)


def test_no_translation_is_longer_than_the_settings_allow() -> None:
    config = SearchConfig(beam=3, n_best=3, max_length_ratio=0.5, max_length_offset=2)
    ids = [subwords().encode(text) for text in TEXTS[:20]]
    longest = 0
    for src, found in zip(
        ids, NativeEngine(random_network()).search(requests(ids), config), strict=True
    ):
        assert found
        for each in found:
            assert len(each.tokens) + 1 <= len(src) // 2 + 2
            longest = max(longest, len(each.tokens))
    assert longest >= 5


@pytest.mark.parametrize(
    ("engines", "ours", "limit"),
    [
        (8, None, "positions end at 8"),
        (8, 9, "positions end at 8"),
        (8, 8, "positions end at 8"),
        (99, 8, "max_length is 8"),
        (8, 7, "max_length is 7"),
    ],
)
def test_a_sentence_that_is_too_long_is_told_after_the_translations_before_it(
    engines: int, ours: int | None, limit: str
) -> None:
    too_long = "karela " * 9
    length = len(subwords().encode(too_long)) + 1
    engine = Echo(max_length=engines)
    limits: dict[str, Any] = {"max_length": ours, "too_long": "error"}
    translator = Translator(engine, subwords(), subwords(), SearchConfig(beam=1), **limits)
    stream = translator.stream(["kare", "", too_long, "tosu"])
    assert [len(next(stream)), len(next(stream))] == [1, 1]
    with pytest.raises(SentenceError, match=rf"sentence 3 has {length} subwords.* {limit};"):
        next(stream)
    assert engine.asked == [[subwords().encode("kare")]]


def test_learned_positions_are_used_to_the_last_one_and_bound_the_translation() -> None:
    network = random_network(4, positions="learned", max_positions=9)
    engine = NativeEngine(network)
    assert engine.max_length == 9
    translator = Translator(
        engine, subwords(), subwords(), SearchConfig(beam=2, n_best=2), too_long="error"
    )
    fitting = next(text for text in TEXTS if len(subwords().encode(text)) == 8)
    assert len(translator.n_best([fitting])[0]) == 2
    ids = [subwords().encode(text) for text in ("kare", fitting)]
    found = engine.search(requests(ids), translator.config)
    assert max(len(each.tokens) for hypotheses in found for each in hypotheses) <= 8
    beyond = next(text for text in TEXTS if len(subwords().encode(text)) == 9)
    with pytest.raises(SentenceError, match=r"sentence 1 has 10 subwords.* end at 9;"):
        translator.translate([beyond])


def test_sinusoidal_positions_reach_a_sentence_of_700_subwords() -> None:
    sentence = " ".join(["karela"] * 700)
    ids = subwords().encode(sentence)
    assert len(ids) >= 700
    config = SearchConfig(beam=2, max_length_ratio=0.0, max_length_offset=4)
    translator = random_translator(config)
    (found,) = translator.n_best([sentence])
    ((best,),) = translator.engine.search([Request(ids)], config)
    whole = log_probs_of(random_network(), ids, best.tokens)
    wanted = torch.tensor([*best.tokens, EOS_ID])
    assert best.score == pytest.approx(float(whole.gather(1, wanted[:, None]).mean()), abs=1e-3)
    assert found == [Translation(subwords().decode(best.tokens), best.score, best.tokens)]


def test_any_object_with_a_search_is_an_engine() -> None:
    engine: Engine = Echo()
    translator = Translator(engine, subwords(), subwords(), SearchConfig(beam=2, n_best=2))
    texts = ["kare tosu", "", "mino"]
    backwards = [subwords().decode(subwords().encode(text)[::-1]) for text in texts]
    assert translator.translate(texts) == backwards
    assert [each.score for each in translator.n_best(texts)[0]] == [0.0, -1.0]


@pytest.mark.parametrize("batch_tokens", [1, 20, 64, 4096])
def test_batches_of_similar_sentences_stay_within_the_budget_or_are_one_sentence(
    batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "WINDOW_BATCHES", 10**6)
    engine = Echo()
    translator = Translator(engine, subwords(), subwords(), batch_tokens=batch_tokens)
    translator.translate(LINES)
    for batch in engine.asked:
        assert len(batch) == 1 or len(batch) * max(len(ids) + 1 for ids in batch) <= batch_tokens
    asked = [ids for batch in engine.asked for ids in batch]
    encoded = [ids for ids in map(subwords().encode, LINES) if ids]
    assert sorted(asked) == sorted(encoded)
    assert [len(ids) for ids in asked] == sorted(map(len, encoded), reverse=True)


def test_a_translation_is_one_line_whatever_the_engine_says() -> None:
    fallback = subwords(byte_fallback=True)

    class Everything(Echo):
        def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
            return [[Hypothesis([i for i in range(4, len(fallback)) for _ in "ab"], 0.0)]]

    (text,) = Translator(Everything(), fallback, fallback).translate(["kare"])
    assert len(text) > 100
    assert not {"\n", "\r", "\t", "\x00"} & set(text)


def test_a_sentence_that_is_too_long_is_translated_piece_by_piece() -> None:
    sentences = ["kare tosu mino.", "tola karela.", "mire kasu toreno."]
    long = " ".join(sentences)
    length = len(subwords().encode(sentences[2])) + 1
    config = searching(3, n_best=2)
    fitting = split(long, lambda text: len(subwords().encode(text)) + 1 <= length)
    alone = random_translator(config).n_best([piece.text for piece in fitting])
    found = random_translator(config, max_length=length).n_best(["mino", long])
    assert [translation.pieces for translation in found[0]] == [1, 1]
    for rank, whole in enumerate(found[1]):
        parts = [each[rank] for each in alone]
        assert whole.text == " ".join(part.text for part in parts)
        assert whole.pieces == len(parts) > 1
    assert random_translator(config).n_best([long])[0][0].pieces == 1


@pytest.mark.parametrize("penalty", ["length", "gnmt"])
def test_the_score_of_pieces_is_that_of_saying_them_at_once(
    penalty: Literal["length", "gnmt"],
) -> None:
    config = searching(3, length_penalty=penalty, alpha=0.7)
    engine = NativeEngine(random_network())
    pieces = ["kare tosu mino.", "mire kasu toreno mino."]
    ids = [subwords().encode(text) for text in pieces]
    total, length = 0.0, 0
    for src, ((tokens, _), *_) in zip(ids, engine.search(requests(ids), config), strict=True):
        wanted = torch.tensor([*tokens, EOS_ID])
        log_probs = log_probs_of(engine.network, src, tokens)
        total += float(log_probs.gather(1, wanted[:, None]).sum())
        length += len(wanted)
    divisor = length**0.7 if penalty == "length" else ((5 + length) / 6) ** 0.7
    longest = max(map(len, ids)) + 1
    translator = Translator(engine, subwords(), subwords(), config, max_length=longest)
    ((found,),) = translator.n_best([" ".join(pieces)])
    assert found.pieces == 2
    assert found.score == pytest.approx(total / divisor, abs=1e-4)


def test_a_prefix_begins_the_first_piece_alone() -> None:
    sentences: list[str | Sentence] = [Sentence("kare tosu. mino kala.", prefix="tola")]
    translator = random_translator(max_length=9)
    ((best,),) = translator.n_best(sentences)
    first, second = translator.translate([Sentence("kare tosu.", prefix="tola"), "mino kala."])
    assert best.pieces == 2
    assert best.text == f"{first} {second}"


def test_a_piece_without_subwords_is_not_asked_for_and_takes_no_prefix_along() -> None:
    word, engine = "karela" * 9, Echo()
    blank, long = f"\u2581 {word}", len(subwords().encode(word))
    assert subwords().encode("\u2581") == []
    translator = Translator(engine, subwords(), subwords(), max_length=long // 2 + 3)
    prefixes = list[Sequence[int]]()
    for text in (word, blank):
        line = translator._line(Sentence(text, prefix="tola", terms=["mino"]), 1)
        assert len(line.pieces) > 1
        assert all(piece.src for piece in line.pieces)
        assert line.pieces[0].constraint is not None
        prefixes.append(line.pieces[0].prefix)
    assert prefixes == [subwords().encode("tola")] * 2


def test_a_prefix_may_leave_no_room_but_for_the_end() -> None:
    engine = NativeEngine(random_network(4, positions="learned", max_positions=9))
    translator = Translator(engine, subwords(), subwords(), searching(2))
    fitting, beyond = (
        next(text for text in TEXTS if len(subwords().encode(text)) == length) for length in (8, 9)
    )
    assert translator.translate([Sentence("kare", prefix=fitting)]) == [fitting]
    with pytest.raises(SentenceError, match=r"^prefix 2 has 10 subwords.* end at 9;"):
        translator.translate(["kare", Sentence("kare", prefix=beyond)])


def test_another_search_leaves_the_translator_as_it_was() -> None:
    translator = random_translator(SearchConfig(beam=2))
    other = translator.with_config(SearchConfig(beam=4, n_best=4))
    assert len(other.n_best(["kare"])[0]) == 4
    assert translator.config == SearchConfig(beam=2)
    assert len(translator.n_best(["kare"])[0]) == 1
    assert (other.engine, other.batch_tokens) == (translator.engine, translator.batch_tokens)


@pytest.mark.parametrize("place", ["run", "run/model"])
def test_a_translator_is_loaded_from_a_run_or_a_model_folder(tmp_path: Path, place: str) -> None:
    save_model(SavedModel(random_network(), subwords(), subwords()), tmp_path / "run" / "model")
    config = searching(3)
    loaded = Translator.load(tmp_path / place, config, device="cpu", batch_tokens=77)
    assert loaded.translate(LINES) == random_translator(config).translate(LINES)
    assert (loaded.config, loaded.batch_tokens) == (config, 77)
    greedy = loaded.with_config(replace(config, beam=1)).translate(LINES)
    assert greedy == random_translator(searching(1)).translate(LINES)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("sentences", lambda translator: translator.translate("kare")),
        ("sentences", lambda translator: translator.n_best("kare")),
        ("sentences", lambda translator: next(translator.stream("kare"))),
        ("sentences", lambda translator: translator.score("kare", [*"kare"])),
        ("translations", lambda translator: translator.score([*"kare"], "kare")),
        ("sentences", lambda translator: translator.align("kare", [*"kare"])),
        ("translations", lambda translator: translator.align([*"kare"], "kare")),
        ("sentences", lambda translator: translator.attention("kare")),
        ("terms", lambda translator: translator.translate([Sentence("mino", terms="kare")])),
        ("translations", lambda translator: translator.attention([*"kare"], "kare")),
    ],
)
def test_a_string_is_not_taken_for_a_list_of_its_letters(
    name: str, ask: Callable[[Translator], object]
) -> None:
    with pytest.raises(SentenceError, match=f"{name}='kare' is one str; give a list of {name}."):
        ask(random_translator())


@pytest.mark.parametrize("wrong", [None, b"kare", 7, ["kare"]])
def test_what_is_no_sentence_is_named_by_its_number_and_type(wrong: Any) -> None:
    with pytest.raises(SentenceError, match=f"^sentence 2 is of type {type(wrong).__name__}; give"):
        random_translator().translate(["kare", wrong])


@pytest.mark.parametrize(
    ("name", "value"), [("batch_tokens", 0), ("max_length", 0), ("max_length", 1)]
)
def test_a_bound_that_leaves_no_room_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name}={value} is out of range"):
        random_translator(**{name: value})


@pytest.mark.parametrize("device", ["cuda:99", "abacus", "", "cpu:x"])
def test_a_device_that_is_not_there_is_named(tmp_path: Path, device: str) -> None:
    save_model(SavedModel(random_network(), subwords(), subwords()), tmp_path)
    with pytest.raises(ConfigError, match=f"device={device} cannot be used"):
        Translator.load(tmp_path, device=device)


def test_a_place_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=f"{tmp_path}/none does not exist"):
        Translator.load(tmp_path / "none")


def maps_of_one(network: Transformer, src: Sequence[int], tgt: Sequence[int]) -> Tensor:
    """(L, H, T, S), of the sentence alone."""
    source, said = torch.tensor([[*src, EOS_ID]]), torch.tensor([[network.config.start_id, *tgt]])
    lens, found = torch.tensor([len(src) + 1]), list[Tensor]()
    with torch.no_grad():
        network.decode(said, network.start(network.encode(source, lens), lens), found)
    return torch.cat(found)


@pytest.mark.parametrize(
    ("config", "most"),
    [
        (SearchConfig(beam=16), 4096),
        (SearchConfig(beam=64), 256),
        (SearchConfig(beam=64, sampling=Sampling()), 4096),
        (SearchConfig(n_best=64, sampling=Sampling()), 256),
        (SearchConfig(beam=5000), 1),
    ],
    ids=["beam 16", "beam 64", "one sample", "64 samples", "beam 5000"],
)
def test_a_wide_search_gets_few_sentences_at_a_time(config: SearchConfig, most: int) -> None:
    engine = Echo()
    Translator(engine, subwords(), subwords(), config).translate(LINES * 20)
    sizes = [len(batch) * max(len(ids) + 1 for ids in batch) for batch in engine.asked]
    longest = max(len(ids) + 1 for batch in engine.asked for ids in batch)
    assert max(sizes) <= max(most, longest)
    assert (max(sizes) > 256) == (most == 4096)


@pytest.mark.parametrize("settings", [{}, {"start_token": "pad", "norm": "post"}], ids=str)
@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_attention_is_that_of_each_sentence_alone_saying_its_best_translation(
    settings: dict[str, Any], batch_tokens: int
) -> None:
    engine = NativeEngine(random_network(6, **settings))
    translator = Translator(engine, subwords(), subwords(), searching(3), batch_tokens)
    found = translator.attention(LINES)
    assert [each.translation for each in found] == translator.translate(LINES)
    for line, each in zip(LINES, found, strict=True):
        ids = subwords().encode(line)
        ((best, *_),) = (
            engine.search([Request(ids)], searching(3)) if ids else [[Hypothesis([], 0.0)]]
        )
        assert each.src == [*subwords().pieces(ids), "</s>"]
        assert each.tgt == [*subwords().pieces(best.tokens), "</s>"]
        expected = maps_of_one(engine.network, ids, best.tokens)
        torch.testing.assert_close(each.weights, expected, atol=1e-5, rtol=1e-4)
        assert each.weights.shape == (2, 2, len(each.tgt), len(each.src))


def test_attention_goes_along_with_given_translations() -> None:
    translator = random_translator()
    said = [*TEXTS[20:29], ""]
    found = translator.attention(LINES[:10], said)
    assert [each.translation for each in found] == [subwords().normalized(text) for text in said]
    for line, text, each in zip(LINES[:10], said, found, strict=True):
        src, tgt = subwords().encode(line), subwords().encode(text)
        assert each.tgt == [*subwords().pieces(tgt), "</s>"]
        expected = maps_of_one(random_network(), src, tgt)
        torch.testing.assert_close(each.weights, expected, atol=1e-5, rtol=1e-4)
    assert translator.attention([]) == []


def test_attention_that_cannot_be_had_is_an_error_that_says_why() -> None:
    learned = random_network(4, positions="learned", max_positions=9)
    translator = Translator(NativeEngine(learned), subwords(), subwords(), SearchConfig(beam=1))
    with pytest.raises(SentenceError, match=r"^translation 2 has 1\d subwords.* end at 9;"):
        translator.attention(["kare", "kare"], ["kare", "karela " * 9])


@pytest.mark.parametrize("beam", [1, 3])
def test_a_translation_begins_with_its_prefix_and_is_scored_as_a_whole(beam: int) -> None:
    network, ids = random_network(), [subwords().encode(text) for text in TEXTS[:4]]
    prefixes = [[], [7], [9, 5, 6], [4] * 12]
    batch = [Request(src, prefix) for src, prefix in zip(ids, prefixes, strict=True)]
    found = NativeEngine(network).search(batch, searching(beam, alpha=0.0))
    for request, (best, *_) in zip(batch, found, strict=True):
        assert best.tokens[: len(request.prefix)] == request.prefix
        whole = log_probs_of(network, request.src, best.tokens)
        wanted = torch.tensor([*best.tokens, EOS_ID])
        expected = whole.gather(1, wanted[:, None]).sum().item()
        assert best.score == pytest.approx(expected, abs=1e-4)
    (free,) = NativeEngine(network).search([Request(ids[0])], searching(beam, alpha=0.0))
    assert same_tokens(found[0], free)


def test_a_prefix_of_text_is_kept_and_cannot_make_the_translation_too_short() -> None:
    sentences: list[str | Sentence] = ["kare"]
    sentences += [Sentence("kare"), Sentence("kare", prefix="tosu mino " * 9)]
    plain, alike, forced = random_translator().translate(sentences)
    assert plain == alike
    assert forced.startswith("tosu mino " * 8 + "tosu mino")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_scores_nearly_alike(precision: str, tmp_path: Path) -> None:
    saved = SavedModel(random_network(), subwords(), subwords())
    save_model(saved, tmp_path)
    config = searching(1, alpha=1.0)
    exact = Translator.load(tmp_path, config, device="cpu")
    half = Translator.load(tmp_path, config, device="cpu", precision=precision)
    assert isinstance(half.engine, NativeEngine)
    assert half.engine.network.src_embedding.weight.dtype == PRECISIONS[precision]
    pairs = zip(exact.n_best(TEXTS), half.n_best(TEXTS), strict=True)
    alike = [(a.score, b.score) for (a,), (b,) in pairs if a.text == b.text]
    assert len(alike) > len(TEXTS) / 2
    assert all(b == pytest.approx(a, rel=0.05, abs=0.15) for a, b in alike)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_what_is_loaded_has_packed_matrices_and_says_what_the_plain_ones_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "WORTH_PACKING", 0)
    networks = random_network(), random_network(1)
    for name, network in zip("ab", networks, strict=True):
        save_model(SavedModel(network, subwords(), subwords()), tmp_path / name)
    config = searching(3, n_best=2)
    plain = Translator(NativeEngine(*networks), subwords(), subwords(), config)
    loaded = Translator.load(tmp_path / "a", config, device="cpu", ensemble=[tmp_path / "b"])
    assert isinstance(loaded.engine, NativeEngine)
    for network in loaded.engine.networks:
        assert not any(isinstance(module, nn.Linear) for module in network.modules())
    said, expected = loaded.n_best(LINES), plain.n_best(LINES)
    assert [[each.text for each in found] for found in said] == [
        [each.text for each in found] for found in expected
    ]
    lines, texts = TEXTS[:9], plain.translate(TEXTS[:9])
    for ours, theirs in zip(loaded.score(lines, texts), plain.score(lines, texts), strict=True):
        assert ours.total == pytest.approx(theirs.total, abs=1e-3)
    for here, there in zip(loaded.attention(lines), plain.attention(lines), strict=True):
        # Scores of attention are in the hundreds: another order of sums moves weights by 4e-5.
        torch.testing.assert_close(here.weights, there.weights, atol=1e-3, rtol=0)
    with pytest.raises(ModelFolderError, match="take that of load_model"):
        save_model(SavedModel(loaded.engine.network, subwords(), subwords()), tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_an_unknown_precision_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="precision=int8 is unknown; choose one of fp32, bf16"):
        Translator.load(tmp_path, precision="int8")
