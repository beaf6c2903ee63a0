"""Controls of a search with tiny random networks: ensembles, samples, coverage, lengths."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from test_translator import (
    LINES,
    TEXTS,
    log_probs_of,
    random_network,
    requests,
    same_tokens,
    searching,
    subwords,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.config import EOS_ID, AttentionForm, Diversity, Sampling, SearchConfig, SubwordConfig
from seq2seq.decoding.coverage import coverage
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis, length_penalty
from seq2seq.engine import ModelStepper, NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import SavedModel, load_together, save_model
from seq2seq.nn.attention import MultiHeadAttention
from seq2seq.sentence import Sentence
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.translator import Translator

IDS = [subwords().encode(text) for text in TEXTS[:12]]
SAMPLING = Sampling(temperature=6.0, top_p=0.95, seed=4)


def translator(config: SearchConfig, batch_tokens: int = 4096) -> Translator:
    engine = NativeEngine(random_network())
    return Translator(engine, subwords(), subwords(), config, batch_tokens)


def near(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> bool:
    assert same_tokens(found, expected)
    scores = [each.score for each in expected]
    assert [each.score for each in found] == pytest.approx(scores, abs=1e-4)
    return True


def log_probability(tokens: Sequence[int], log_probs: torch.Tensor) -> float:
    wanted = torch.tensor([*tokens, EOS_ID])
    return float(log_probs.gather(1, wanted[:, None]).sum())


class Waits(TorchDispatchMode):
    """Counts what the host would have to wait for if the tensors were on a GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        plain = Tensor.tolist

        def tolist(tensor: Tensor) -> Any:
            self.count += 1
            return plain(tensor)

        monkeypatch.setattr(Tensor, "tolist", tolist)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        asked = {"item", "is_nonzero", "_local_scalar_dense", "nonzero", "masked_select", "equal"}
        mask = any(
            isinstance(each, Tensor) and each.dtype == torch.bool
            for each in (args[1] if func.overloadpacket.__name__ in ("index", "index_put_") else ())
        )
        self.count += mask or func.overloadpacket.__name__ in asked
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("form", ["folded", "fast"])
@pytest.mark.parametrize(
    "config",
    [
        searching(1),
        searching(4, n_best=4),
        searching(4, n_best=4, length_penalty="gnmt", repetition_penalty=1.2, no_repeat_ngram=2),
        searching(4, n_best=3, sampling=SAMPLING),
    ],
)
def test_a_step_of_a_search_waits_for_the_device_once(
    config: SearchConfig, form: AttentionForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, waits = random_network(), Waits(monkeypatch)
    for module in network.modules():
        if isinstance(module, MultiHeadAttention):
            module.form = form
    before: list[int] = []
    step = ModelStepper.step

    def watched(self: ModelStepper, tokens: Tensor) -> Tensor:
        before.append(waits.count)
        return step(self, tokens)

    monkeypatch.setattr(ModelStepper, "step", watched)
    with waits:
        NativeEngine(network).search(requests(IDS), config)
    assert len(before) > 5
    assert {after - count for count, after in pairwise(before)} == {1}


@pytest.mark.parametrize("beam", [1, 4])
def test_an_ensemble_of_a_model_with_itself_is_the_model(beam: int) -> None:
    config, network = searching(beam, n_best=beam), random_network()
    alone = NativeEngine(network).search(requests(IDS), config)
    twice = NativeEngine(network, network, network).search(requests(IDS), config)
    assert all(map(near, twice, alone))


def test_a_score_of_an_ensemble_is_that_of_the_mean_of_probabilities() -> None:
    networks = random_network(0), random_network(1, d_model=12, decoder_layers=1)
    config = searching(4, n_best=4, alpha=0.0)
    found = NativeEngine(*networks).search(requests(IDS), config)
    alone = NativeEngine(networks[0]).search(requests(IDS), config)
    assert not all(map(same_tokens, found, alone))
    for src, hypotheses in zip(IDS, found, strict=True):
        for tokens, score in hypotheses:
            each = torch.stack([log_probs_of(network, src, tokens) for network in networks])
            mean = each.exp().mean(dim=0).log()
            assert score == pytest.approx(log_probability(tokens, mean), abs=1e-3)


def test_token_scores_of_an_ensemble_are_those_of_the_mean_of_probabilities() -> None:
    networks = random_network(0), random_network(1, d_model=12, decoder_layers=1)
    said = [subwords().encode(text) for text in TEXTS[20:32]]
    for src, tgt, found in zip(
        IDS, said, NativeEngine(*networks).log_probs(IDS, said), strict=True
    ):
        each = torch.stack([log_probs_of(network, src, tgt) for network in networks])
        wanted = torch.tensor([*tgt, EOS_ID])[:, None]
        expected = each.exp().mean(dim=0).log().gather(1, wanted)[:, 0]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_the_shortest_positions_of_an_ensemble_bound_it() -> None:
    short = random_network(4, positions="learned", max_positions=9)
    longer = random_network(4, positions="learned", max_positions=12)
    assert NativeEngine(random_network(), longer, short).max_length == 9
    assert NativeEngine(random_network(), random_network(1)).max_length is None


def test_an_ensemble_is_loaded_and_must_share_subwords_and_start(tmp_path: Path) -> None:
    other = Subwords(
        train_subwords(TEXTS[::-1], SubwordConfig(byte_fallback=False, kind="bpe"), 40)
    )
    save_model(SavedModel(random_network(), subwords(), subwords()), tmp_path / "a")
    save_model(SavedModel(random_network(1), subwords(), subwords()), tmp_path / "b/model")
    save_model(SavedModel(random_network(1), subwords(), other), tmp_path / "c")
    pad = random_network(1, start_token="pad")
    save_model(SavedModel(pad, subwords(), subwords()), tmp_path / "d")
    config = searching(3)
    both = Translator.load(tmp_path / "a", config, device="cpu", ensemble=[tmp_path / "b"])
    engine = NativeEngine(random_network(), random_network(1))
    assert both.translate(LINES) == Translator(engine, subwords(), subwords(), config).translate(
        LINES
    )
    for one in (tmp_path / "b", str(tmp_path / "b")):
        with pytest.raises(ConfigError, match=f"^ensemble={tmp_path}/b is one model; give a list"):
            Translator.load(tmp_path / "a", config, device="cpu", ensemble=one)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"ensemble={tmp_path}/c has other subwords than \S+/a;"):
        load_together([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    with pytest.raises(ConfigError, match=rf"{tmp_path}/d has model.start_token=pad, .*/a has bos"):
        load_together([tmp_path / "a", tmp_path / "d"])


@pytest.mark.parametrize("batch_tokens", [1, 50])
def test_a_sample_follows_from_the_place_of_its_sentence_in_the_input(batch_tokens: int) -> None:
    config = searching(1, n_best=3, sampling=SAMPLING)
    expected = translator(config).n_best(LINES)
    found = translator(config, batch_tokens=batch_tokens).n_best(LINES)
    for one, other in zip(found, expected, strict=True):
        assert [each.text for each in one] == [each.text for each in other]
    numbered = [Sentence(line, number=place) for place, line in enumerate(LINES)]
    backwards = translator(config).n_best(numbered[::-1])[::-1]
    assert [[t.text for t in each] for each in backwards] == [
        [t.text for t in each] for each in expected
    ]
    same_line = translator(config).n_best([LINES[0]] * 9)
    assert len({each[0].text for each in same_line}) > 3


def test_equal_pieces_of_a_long_line_are_drawn_on_their_own() -> None:
    engine = NativeEngine(random_network())
    config = searching(1, sampling=Sampling(temperature=6.0))
    once = subwords().encode("karela.")
    whole = Translator(engine, subwords(), subwords(), config, max_length=len(once) + 1)
    ((found,),) = whole.n_best([Sentence("karela. " * 12, number=3)])
    assert found.pieces == 12
    pieces = [Request(once, place=(3, piece)) for piece in range(12)]
    expected = [subwords().decode(each.tokens) for (each,) in engine.search(pieces, config)]
    assert found.text.split() == " ".join(expected).split()
    assert len(set(expected)) > 3


def test_samples_have_the_scores_of_the_model() -> None:
    config, network = searching(1, n_best=4, sampling=SAMPLING), random_network()
    for src, samples in zip(IDS, NativeEngine(network).search(requests(IDS), config), strict=True):
        assert len(samples) == 4
        for tokens, score in samples:
            total = log_probability(tokens, log_probs_of(network, src, tokens))
            assert score == pytest.approx(total / (len(tokens) + 1), abs=1e-4)


def test_groups_without_strength_search_as_one_narrow_beam() -> None:
    engine = NativeEngine(random_network())
    config = searching(6, n_best=6, diversity=Diversity(groups=3, strength=0.0))
    found = engine.search(requests(IDS), config)
    assert all(map(near, found, engine.search(requests(IDS), searching(2, n_best=2))))
    strong = replace(config, diversity=Diversity(groups=3, strength=3.0))
    first_words = [
        [len({tuple(each.tokens[:1]) for each in hypotheses}) for hypotheses in told]
        for told in (
            engine.search(requests(IDS), strong),
            engine.search(requests(IDS), searching(6, n_best=6)),
        )
    ]
    assert sum(first_words[0]) > sum(first_words[1])


@pytest.mark.parametrize("n_best", [1, 4])
def test_coverage_reorders_everything_that_the_search_has_finished(n_best: int) -> None:
    engine, beta = NativeEngine(random_network(2)), 0.3
    config = searching(4, n_best=n_best, length_penalty="gnmt", coverage_penalty=beta)
    plain = engine.search(requests(IDS), replace(config, n_best=4, coverage_penalty=0.0))
    found = engine.search(requests(IDS), config)
    for src, all_found, kept in zip(IDS, plain, found, strict=True):
        scored = []
        for tokens, score in all_found:
            (weights,) = engine.cross_attention([src], [tokens])
            scored.append(Hypothesis(tokens, score + beta * coverage(weights)))
        scored.sort(key=lambda each: each.score, reverse=True)
        assert near(kept, scored[:n_best])
    firsts = [each[:1] for each in plain], [each[:1] for each in found]
    assert not all(map(same_tokens, *firsts))


@pytest.mark.parametrize(
    "settings", [{"sampling": SAMPLING}, {"beam": 4, "diversity": Diversity(groups=2)}], ids=str
)
def test_terms_are_for_plain_beam_search(settings: dict[str, object]) -> None:
    config = replace(searching(4), **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"search\.{list(settings)[-1]} knows no terms"):
        translator(config).translate(["kare", Sentence("tosu", terms=["mino"])])
    assert (
        "mino"
        in translator(searching(4, coverage_penalty=0.1)).translate(
            [Sentence("tosu", terms=["mino"])]
        )[0]
    )


def test_lengths_are_what_the_settings_allow_and_prefixes_always_fit() -> None:
    config = searching(3, n_best=3, min_target_length=3, max_target_length=5, max_length_ratio=9.0)
    prefix = [4] * 8
    batch = [*requests(IDS), Request(IDS[0], prefix), Request(IDS[0], prefix[:2])]
    *found, fitting, begun = NativeEngine(random_network()).search(batch, config)
    lengths = {len(each.tokens) for hypotheses in found for each in hypotheses}
    assert lengths
    assert lengths <= {3, 4, 5}
    assert [each.tokens for each in fitting] == [prefix]
    assert all(2 <= len(each.tokens) <= 5 and each.tokens[:2] == [4, 4] for each in begun)


def test_a_penalty_for_repetition_is_in_the_score() -> None:
    config, network = searching(3, alpha=1.0, repetition_penalty=2.0), random_network()
    repeated = 0
    for src, (best, *_) in zip(
        IDS, NativeEngine(network).search(requests(IDS), config), strict=True
    ):
        log_probs = log_probs_of(network, src, best.tokens)
        total = 0.0
        for at, token in enumerate([*best.tokens, EOS_ID]):
            again = token in best.tokens[:at]
            repeated += again
            total += float(log_probs[at, token]) * (2.0 if again else 1.0)
        expected = total / length_penalty(len(best.tokens) + 1, config)
        assert best.score == pytest.approx(expected, abs=1e-4)
    assert repeated


def test_a_prefix_that_cannot_be_written_is_told_with_its_line() -> None:
    with pytest.raises(SentenceError, match=r"^prefix 2 '今 kare' has a character"):
        translator(searching(1)).translate(["kare", Sentence("tosu", prefix="今 kare")])


@pytest.mark.parametrize("settings", [{"sampling": SAMPLING}, {"coverage_penalty": 0.2}], ids=str)
def test_a_network_that_has_diverged_still_gives_one_line_for_one(
    settings: dict[str, object],
) -> None:
    network = random_network(5)
    with torch.no_grad():
        network.output.weight.fill_(math.nan)
    config = replace(searching(3), **settings)  # type: ignore[arg-type]
    broken = Translator(NativeEngine(network), subwords(), subwords(), config)
    assert broken.translate(["kare", "", "tosu mino"]) == ["", "", ""]
