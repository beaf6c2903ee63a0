"""What is learned from recordings is what is learned without."""

import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from kernel_tests import interpreted
from pytorch_lightning.plugins.precision import HalfPrecision, MixedPrecision
from small_runs import Run, metrics, settings
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import ModelConfig
from seq2seq.data.batch import Batch, make_batch, uniform
from seq2seq.nn import attention
from seq2seq.nn.masks import Spans, masked_softmax
from seq2seq.nn.transformer import Transformer
from seq2seq.training import learner, loss, pilot
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.learner import Learner
from seq2seq.training.loss import cross_entropy_sum, token_logits
from seq2seq.training.optimizer import optimizer_of
from seq2seq.training.pilot import try_longest
from seq2seq.training.recipe import Recipe
from seq2seq.training.recorded import LEAST_STEP, CudaGraphs, Recorded, Replay, shaped, stepped


def small() -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(
        src_vocab_size=12,
        tgt_vocab_size=12,
        d_model=16,
        heads=2,
        ff_dim=24,
        encoder_layers=1,
        decoder_layers=1,
    )
    return Transformer(config).train()


def some(rng: random.Random, pairs: int, longest: int) -> Batch:
    def side() -> list[list[int]]:
        lengths = (rng.randrange(1, longest) for _ in range(pairs))
        return [[rng.randrange(4, 9) for _ in range(length)] for length in lengths]

    return make_batch(side(), side(), 2)


def learn(network: Transformer, batch: Batch) -> Tensor:
    logits, said = token_logits(network, batch)
    total = cross_entropy_sum(logits, said[: batch.tokens], 0.1)
    total.backward()
    more = batch.tokens - batch.tgt_lens.sum()
    return total.detach() - more * torch.log(torch.tensor(float(logits.shape[1])))


def gradients(network: nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in network.parameters() if p.grad is not None]


def check(
    network: Transformer, record: Callable[[Replay], Replay], to: Callable[[Batch], Batch]
) -> None:
    """Of repeated batches of several shapes, whose gradients add up."""
    rng = random.Random(1)
    batches = [some(rng, rng.randrange(1, 12), rng.choice([5, 9])) for _ in range(4)] * 3
    made = list[Replay]()

    def counted(work: Replay) -> Replay:
        made.append(work)
        return record(work)

    recorded = Recorded(lambda batch: learn(network, batch), counted)
    learn(network, to(batches[0]))  # gradients have their places
    repeated = 0
    for batch in map(to, batches):
        network.zero_grad(set_to_none=False)
        expected_loss = learn(network, batch)
        expected = gradients(network)
        network.zero_grad(set_to_none=False)
        found = recorded.learn(shaped(batch, 100))
        if found is None:
            assert not any(each.any() for each in gradients(network))
            continue
        repeated += 1
        torch.testing.assert_close(found, expected_loss, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(gradients(network), expected, rtol=1e-3, atol=1e-3)
    assert 0 < len(made) <= 4
    assert repeated >= 8


@interpreted
def test_recorded_steps_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    check(small(), lambda work: work, lambda batch: batch)


@pytest.mark.gpu
def test_graphs_of_a_gpu_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    network = small().to("cuda")
    check(network, CudaGraphs(network).record, lambda batch: batch.to(torch.device("cuda")))


def by_definition(query: Tensor, key: Tensor, value: Tensor, spans: Spans, rate: float) -> Tensor:
    """Attention of joined sentences in fp32, without the kernels, whose interpreter has no bf16."""
    assert rate == 0
    scores = torch.einsum("qhe,khe->hqk", query.float(), key.float()) / query.shape[-1] ** 0.5
    place = torch.arange(len(key))
    seen = (place >= spans.firsts[:, None]) & (place < spans.ends[:, None])
    weights = masked_softmax(scores, seen)
    return torch.einsum("hqk,khe->qhe", weights, value.float()).to(value.dtype)


class InPlace:
    """Instead of graphs: refuses gradients that are not where they were when it recorded."""

    made = 0

    def __init__(self, network: nn.Module) -> None:
        self.parameters = list(network.parameters())

    def places(self) -> list[int]:
        return [p.grad.data_ptr() for p in self.parameters if p.grad is not None]

    def record(self, work: Replay) -> Replay:
        InPlace.made += 1
        before = self.places()

        def replay() -> None:
            assert self.places() == before
            work()

        return replay


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_run_learns_from_recordings_across_validations(
    corpus: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    accumulated: int,
) -> None:
    def losses(name: str) -> list[float]:
        changes = {
            "training__dropout__residual": 0.0,
            "trainer__precision": "bf16-mixed",
            "trainer__accumulate_grad_batches": accumulated,
            "trainer__max_steps": 24,
            "trainer__val_check_interval": 5 * accumulated,
        }
        assert run("fit", *settings(run=name, **changes)) == 0
        return [float(row["loss"]) for row in metrics(corpus / name) if row["loss"]]

    expected = losses("anew")
    assert "folded attention\n" in caplog.text
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    monkeypatch.setattr(learner, "joins_sentences", lambda *_: True)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    monkeypatch.setattr(attention, "joined_attention", by_definition)
    monkeypatch.setattr(InPlace, "made", 0)
    assert losses("recorded") == pytest.approx(expected, rel=0.01)
    assert "folded attention, steps recorded\n" in caplog.text
    assert InPlace.made > 0


@pytest.mark.parametrize(
    "changes",
    [{"trainer__strategy": "ddp", "trainer__devices": 1}, {"trainer__detect_anomaly": "true"}],
)
def test_what_would_run_or_look_beside_the_kernels_is_not_recorded(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    """Hooks of gradients, of one process too, and questions whether they are finite."""
    monkeypatch.setattr(learner, "joins_sentences", lambda *_: True)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    monkeypatch.setattr(InPlace, "made", 0)
    assert run("fit", *settings(trainer__precision="bf16-mixed", **changes)) == 0
    assert InPlace.made == 0


def test_what_more_tokens_would_teach_and_what_a_loss_scale_would_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learner, "joins_sentences", lambda *_: True)
    network = small()
    biased = Transformer(replace(network.config, output_bias=True))
    plain = Learner(network, Recipe(), 1, Tensor.backward)
    assert plain.can_record
    assert not Learner(network, Recipe(r_drop=1.0), 1, Tensor.backward).can_record
    assert not Learner(biased, Recipe(), 1, Tensor.backward).can_record
    with torch.autocast("cpu", torch.float16):
        assert not plain.can_record


def test_what_there_is_no_memory_for_is_not_recorded() -> None:
    def record(work: Replay) -> Replay:
        tried.append(work)
        raise torch.OutOfMemoryError

    tried = list[Replay]()
    recorded = Recorded(lambda batch: torch.zeros(()), record)
    batch = shaped(some(random.Random(1), 3, 5), 100)
    assert [recorded.learn(batch) for _ in range(4)] == [None] * 4
    assert len(tried) == 1


class OnStream:
    """What torch.cuda.stream does, without a GPU."""

    current = "the run's"

    def __init__(self, stream: str) -> None:
        self.stream = self.before = stream

    def __enter__(self) -> None:
        self.before, OnStream.current = OnStream.current, self.stream

    def __exit__(self, *_: object) -> None:
        OnStream.current = self.before


def test_a_graph_that_there_is_no_memory_for_leaves_the_stream_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch does not, where it fails after the work, and other threads have the run's stream."""

    class Graph:
        def capture_begin(self, *_: object, **__: object) -> None:
            pass

        def capture_end(self) -> None:
            raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(OnStream, "current", "the run's")
    for name in ("synchronize", "empty_cache", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: "its own")
    monkeypatch.setattr(torch.cuda, "stream", OnStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: OnStream.current)
    used = list[str]()
    with pytest.raises(RuntimeError, match="out of memory"):
        CudaGraphs(small()).record(lambda: used.append(OnStream.current))
    assert used == ["its own"]
    assert OnStream.current == "the run's"


@pytest.mark.parametrize("mixed", [False, True])
def test_a_recording_compiles_nothing_that_the_step_before_has_compiled(
    monkeypatch: pytest.MonkeyPatch, mixed: bool
) -> None:
    """In Lightning's context of each precision."""

    def counted(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        compiled.append(graph)
        return graph.forward

    compiled = list[torch.fx.GraphModule]()
    double = torch.compile(lambda x: 2 * x, backend=counted)
    network = small()
    taught = Learner(network, Recipe(), 1, Tensor.backward)
    monkeypatch.setattr(Learner, "loss", lambda *_: double(network.output.weight).sum())
    batch = some(random.Random(1), 3, 5)
    precision = MixedPrecision("bf16-mixed", "cpu") if mixed else HalfPrecision("bf16-true")
    with precision.forward_context():
        taught.learn([batch])
        taught._work(batch)
    assert len(compiled) == 1


def test_a_recording_reads_the_weights_as_they_are_not_what_autocast_has_kept() -> None:
    """Lightning's context keeps nothing."""
    taught, batch = Learner(small(), Recipe(), 1, Tensor.backward), some(random.Random(1), 3, 5)
    with MixedPrecision("bf16-mixed", "cpu").forward_context():
        before = taught.learn([batch])
        with torch.no_grad():
            torch._foreach_mul_(list[Tensor](taught.parameters), 1.5)
        found = taught._work(batch)
    with torch.autocast("cpu", torch.bfloat16):
        expected = taught.learn([batch])
    assert found == expected != before


def test_where_memory_is_short_none_is_taken_for_recordings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    monkeypatch.setattr(InPlace, "made", 0)
    taught = Learner(small(), Recipe(), 1, Tensor.backward)
    taught.record()
    taught.begin()
    gradients = [weakref.ref(parameter.grad) for parameter in taught.parameters]
    assert all(gradient() is not None for gradient in gradients)
    taught.parts.limit = 100
    for _ in range(3):
        taught.learn([some(random.Random(1), 3, 5)])
        taught.begin()
        assert all(gradient() is None for gradient in gradients)
        assert all(parameter.grad is None for parameter in taught.parameters)
    assert InPlace.made == 0


@interpreted
def test_the_pilot_needs_the_memory_of_a_recorded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradients, and the tokens that bring a batch to one of few shapes."""
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    config = replace(small().config, positions="learned", max_positions=12)
    taught = Learner(Transformer(config), Recipe(), 1, Tensor.backward)
    whole, tried = Learner.loss, list[Batch]()

    def seen(self: Learner, batch: Batch) -> Tensor:
        tried.append(batch)
        return whole(self, batch)

    monkeypatch.setattr(Learner, "loss", seen)
    data = cast("CorpusDataModule", SimpleNamespace(largest_part=(5, 11)))
    taught.record()
    try_longest(taught, data, optimizer_of(Recipe(), taught.network, bf16=False))
    (batch,) = tried
    longest = uniform(5, 11, 11)
    expected = shaped(longest, 12)
    assert all(map(torch.equal, batch[:5], expected[:5]))
    assert batch.tokens == expected.tokens > longest.tokens
    assert len(taught._gradients) == len(taught.parameters)
    for parameter, gradient in zip(taught.parameters, taught._gradients, strict=True):
        assert parameter.grad is gradient
        assert not gradient.any()


@pytest.mark.filterwarnings("ignore:out of memory")
def test_what_fits_without_recordings_is_found_out_before_the_first_step_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their halves have other rows."""

    def tight(self: Learner, batch: Batch) -> Tensor:
        if batch.src_lens.sum() > 44:
            refused.append(batch)
            raise torch.OutOfMemoryError
        return torch.stack([p.sum() for p in self.parameters]).sum()

    refused = list[Batch]()
    monkeypatch.setattr(Learner, "loss", tight)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    taught = Learner(small(), Recipe(), 1, Tensor.backward)
    taught.record()
    data = cast("CorpusDataModule", SimpleNamespace(largest_part=(5, 11)))
    try_longest(taught, data, optimizer_of(Recipe(), taught.network, bf16=False))
    before = len(refused)
    taught.learn([uniform(5, 11, 11)])
    assert len(refused) == before > 0


def test_the_pilot_needs_the_memory_of_the_moments_that_are_not_there_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def empty_like(parameter: Tensor) -> Tensor:
        held.append(parameter.numel())
        return torch.empty_like(parameter)

    held = list[int]()
    monkeypatch.setattr(pilot, "torch", SimpleNamespace(empty_like=empty_like))
    taught = Learner(small(), Recipe(), 1, Tensor.backward)
    optimizer = optimizer_of(Recipe(), taught.network, bf16=False)
    data = cast("CorpusDataModule", SimpleNamespace(largest_part=(5, 11)))
    try_longest(taught, data, optimizer)
    taught.learn([uniform(5, 11, 11)])
    optimizer.step()
    state = [x for each in optimizer.state.values() for x in each.values() if x.ndim]
    assert sum(held) == sum(map(Tensor.numel, state))
    held.clear()
    try_longest(taught, data, optimizer)
    assert not held


@pytest.mark.parametrize(("most", "tokens"), [(1000, 9000), (243, 10**5), (9, 9000), (1000, 99)])
def test_the_pilot_compiles_for_a_usual_batch_and_for_one_pair_where_the_network_is(
    monkeypatch: pytest.MonkeyPatch, most: int, tokens: int
) -> None:
    """Before it tries the longest. No network has a multiple of 23 heads that is odd."""

    def seen(self: Learner, batch: Batch) -> Tensor:
        assert batch.src.device == self.parameters[0].device
        tried.append((*batch.src.shape, batch.tgt_in.shape[1]))
        return torch.stack([p.sum() for p in self.parameters]).sum()

    tried = list[tuple[int, ...]]()
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(Learner, "loss", seen)
    taught = Learner(small().to("meta"), Recipe(compile=True), 1, Tensor.backward)
    sizes = {"largest_part": (5, 11), "batch_pairs": most, "batch_tokens": tokens}
    data = cast("CorpusDataModule", SimpleNamespace(**sizes))
    try_longest(taught, data, optimizer_of(Recipe(), taught.network, bf16=False))
    usual = min(most, tokens // 37)
    odd = [pairs for pairs in range(23, max(usual, 23) + 1, 46)]
    assert tried == [(odd[-1], 31, 37), (1, 31, 37), (5, 11, 11)]
    assert all(parameter.grad is None for parameter in taught.parameters)


@interpreted
def test_recordings_are_forgotten_before_a_batch_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep as much memory as a step, apart from what other steps have."""
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    network = small()
    taught = Learner(network, Recipe(), 1, Tensor.backward)
    taught.record()
    assert taught.recorded is not None
    rng = random.Random(1)
    known, new = some(rng, 3, 5), some(rng, 20, 9)

    def tight(self: Learner, batch: Batch) -> Tensor:
        if self.recorded is not None and self.recorded._recordings and len(batch.src) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, batch)

    whole = Learner.loss
    monkeypatch.setattr(Learner, "loss", tight)
    for _ in range(2):
        taught.begin()
        taught.learn([known])
    assert taught.recorded._recordings
    taught.begin()
    found = taught.learn([new])
    assert taught.parts.limit is None
    assert not taught.recorded._recordings
    network.zero_grad()
    torch.testing.assert_close(found, learn(network, new))
    torch.testing.assert_close(taught._gradients, gradients(network))


@interpreted
def test_parts_of_one_recording_add_up_from_nothing_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    monkeypatch.setattr(learner, "CudaGraphs", InPlace)
    monkeypatch.setattr(InPlace, "made", 0)
    network, rng = small(), random.Random(1)
    taught = Learner(network, Recipe(), 1, Tensor.backward)
    taught.record()
    batches = [some(rng, 3, 5) for _ in range(4)]
    for some_of_them in (batches[:2], batches[2:]):
        taught.begin()
        found = taught.learn(some_of_them)
        learned = [each.clone() for each in taught._gradients]
        network.zero_grad()
        expected = torch.stack([learn(network, batch) for batch in some_of_them]).sum()
        torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-5)
        torch.testing.assert_close(learned, gradients(network))
    assert InPlace.made == 1


def test_a_recording_is_of_batches_with_as_many_tokens_and_columns_on_each_side() -> None:
    recorded = Recorded(lambda batch: torch.zeros(()), lambda work: work)
    batch = shaped(some(random.Random(1), 3, 5), 100)
    assert [recorded.learn(batch) is None for _ in range(2)] == [True, False]
    more = LEAST_STEP
    assert recorded.learn(batch._replace(src_tokens=batch.src_tokens + more)) is None
    assert recorded.learn(batch._replace(tokens=batch.tokens + more)) is None
    longer = batch._replace(
        tgt_in=F.pad(batch.tgt_in, (0, 8)), tgt_out=F.pad(batch.tgt_out, (0, 8))
    )
    assert recorded.learn(longer) is None


def test_what_was_forgotten_is_not_recorded_again() -> None:
    recorded = Recorded(lambda batch: torch.zeros(()), lambda work: work)
    batch = shaped(some(random.Random(1), 3, 5), 100)
    assert [recorded.learn(batch) is None for _ in range(2)] == [True, False]
    assert recorded.forget()
    assert recorded.learn(batch) is None
    assert not recorded.forget()


def test_a_recording_that_there_is_no_memory_to_start_is_forgotten_with_all_others() -> None:
    def replay() -> None:
        if len(done) == 1:
            raise RuntimeError("CUDA error: out of memory")
        done.append(replay)

    done = list[Replay]()
    recorded = Recorded(lambda batch: torch.ones(()), lambda work: replay)
    batch, other = (shaped(some(random.Random(1), pairs, 5), 100) for pairs in (3, 20))
    found = [recorded.learn(each) is None for each in (batch, batch, other, other, batch)]
    assert found == [True, False, True, True, True]
    assert not recorded.forget()


def test_a_recording_leaves_the_batch_as_it_is_of_which_it_was_made() -> None:
    def work(batch: Batch) -> Tensor:
        seen.append(batch.src.clone())
        return torch.zeros(())

    seen = list[Tensor]()
    recorded = Recorded(work, lambda replay: replay)
    one, other = (shaped(some(random.Random(n), 8, 7), 100) for n in (1, 2))
    before = one.src.clone()
    for batch in (one, one, other):
        recorded.learn(batch)
    assert torch.equal(torch.stack(seen), torch.stack([before, other.src]))
    assert torch.equal(one.src, before)


def test_batches_come_in_few_shapes() -> None:
    rng = random.Random(2)
    batches = [some(rng, rng.randrange(1, 40), 9) for _ in range(200)]
    batches.append(make_batch([[4] * 300, [5]], [[6], [7, 8]], 2))
    found = [shaped(batch, 100) for batch in batches]
    assert len(set(map(shape_of, found[:200]))) < 16
    for one, other in zip(batches, found, strict=True):
        for before, after in zip(one[:5], other[:5], strict=True):
            rows = slice(len(before)), *(slice(width) for width in before.shape[1:])
            assert torch.equal(after[rows], before)
            assert after.sum() == before.sum()
        assert 0 <= other.tokens - one.tokens < LEAST_STEP
        assert 0 <= other.src_tokens - one.src_tokens < LEAST_STEP
        assert shape_of(shaped(other, 100)) == shape_of(other)


def shape_of(batch: Batch) -> tuple[int, ...]:
    return *batch.src.shape, batch.tgt_in.shape[1], batch.src_tokens, batch.tokens


def test_rows_do_not_become_longer_than_positions_reach() -> None:
    batch = some(random.Random(3), 3, 60)
    width = batch.src.shape[1]
    assert width > 40
    assert shaped(batch, 50).src.shape == (8, max(width, 50))
    assert shaped(batch, 100).src.shape == (8, 64)


def test_sizes() -> None:
    assert [stepped(n, 1, 8) for n in (1, 8, 9, 16, 17, 33)] == [8, 8, 16, 16, 32, 64]
    for n in range(1, 5000):
        assert n <= stepped(n, 16, 16) <= max(n * 17 / 16, n + 16)
