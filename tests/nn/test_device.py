"""All that a step computes is computed where the network is, and no value of it is waited for.

Torch's meta device is one oracle: it takes the branches that a CPU does not, refuses most tensors
of another device, and has no values that could be asked for. On a GPU torch says who waits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from networks import build, every_form, every_variant
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from seq2seq.config import AttentionForm, Dropout
from seq2seq.data.batch import Batch, make_batch, twice, uniform
from seq2seq.nn import attention
from seq2seq.nn.transformer import Transformer
from seq2seq.training import loss
from seq2seq.training.loss import cross_entropy_sum, token_logits

META = torch.device("meta")
every_loss = pytest.mark.parametrize("r_drop", [0.0, 3.0])


def some_batch(network: Transformer, r_drop: float) -> Batch:
    batch = make_batch([[5, 6, 7], [8]], [[5, 6], [7, 8, 9, 10]], network.config.start_id)
    return twice(batch) if r_drop else batch


def learn(network: Transformer, batch: Batch, r_drop: float) -> Tensor:
    logits, said = token_logits(network, batch)
    wanted = said[: batch.tokens // (2 if r_drop else 1)]
    loss = cross_entropy_sum(logits, wanted, 0.1, r_drop, batch.tokens)
    loss.backward()
    return loss.detach()


@contextmanager
def never_waiting() -> Iterator[None]:
    """Torch raises an error where the GPU would be waited for."""
    try:
        torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def _without_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch has none for the meta device, and says so with an error."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)


@every_form
@every_variant
@every_loss
@pytest.mark.usefixtures("_without_autocast")
def test_a_training_step_stays_on_the_device(
    settings: dict[str, Any], form: AttentionForm, r_drop: float
) -> None:
    rates = Dropout(residual=0.1, attention=0.1, activation=0.1)
    network = build(settings, form, training=True, rates=rates).to(META)
    loss = learn(network, some_batch(network, r_drop).to(META), r_drop)
    gradients = [parameter.grad for parameter in network.parameters()]
    assert {each.device for each in (loss, *gradients) if each is not None} == {META}


@every_form
@every_variant
@pytest.mark.usefixtures("_without_autocast")
def test_what_a_search_asks_of_the_network_stays_on_the_device(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form, training=False).to(META)
    batch = make_batch([[5, 6, 7], [8]], [[5], [7]], network.config.start_id).to(META)
    with torch.no_grad():
        memory = network.encode(batch.src, batch.src_lens)
        state = network.start(memory, batch.src_lens, width=2, cached=True)
        words = batch.tgt_in[:, :1].repeat_interleave(2, dim=0)
        for _ in range(2):
            hidden, state = network.decode(words, state)
            state = state.select([1, 0], torch.zeros(2, 2, dtype=torch.int64, device=META))
    assert (network.project(hidden).device, len(hidden)) == (META, 4)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@every_form
@every_variant
@every_loss
def test_a_gpu_learns_what_a_cpu_does_and_is_not_waited_for(
    settings: dict[str, Any], form: AttentionForm, r_drop: float
) -> None:
    network = build(settings, form, training=True)
    batch = some_batch(network, r_drop)
    there, moved = deepcopy(network).to("cuda"), batch.to(torch.device("cuda"))
    expected = learn(network, batch, r_drop)
    with never_waiting():
        found = learn(there, moved, r_drop)
    torch.testing.assert_close(found.cpu(), expected)
    for one, other in zip(there.parameters(), network.parameters(), strict=True):
        if other.grad is not None:
            assert one.grad is not None
            torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@every_variant
@every_loss
def test_joined_sentences_are_learned_from_as_rows_are_and_not_waited_for(
    settings: dict[str, Any], r_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Mock(wraps=attention.joined_attention)
    monkeypatch.setattr(attention, "joined_attention", spy)
    network = build(settings | {"head_dim": 8}, training=True).to("cuda")
    batch = some_batch(network, r_drop).to(torch.device("cuda"))
    parameters = list(network.parameters())

    def step() -> None:
        network.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            learn(network, batch, r_drop)

    def gradients() -> Tensor:
        found = [torch.zeros(0) if p.grad is None else p.grad.flatten().cpu() for p in parameters]
        return torch.cat(found)

    with monkeypatch.context() as rows:
        rows.setattr(loss, "takes_joined", lambda *_: False)
        step()
    assert not spy.called
    expected = gradients()
    with never_waiting():
        step()
    config = network.config
    assert spy.call_count == config.encoder_layers + 2 * config.decoder_layers
    error = (gradients() - expected).norm() / expected.norm()
    assert error < 0.15  # rounding was seen to make 0.06, the keys of another sentence 0.38 or more


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_joined_layers_share_graphs_for_all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "takes_joined", lambda *_: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)
    deep = {"head_dim": 8, "encoder_layers": 3, "decoder_layers": 3}
    network = build(deep, training=True, rates=Dropout(residual=0.1)).to(META).bfloat16()
    graphs = CompileCounter()
    for layer in (*network.encoder, *network.decoder):
        layer.compile(dynamic=True, backend=graphs)
    made = list[int]()
    for shape in ((23, 31, 37), (1, 31, 37), (40, 8, 9), (7, 100, 3), (1, 5, 6)):
        logits, _ = token_logits(network, uniform(*shape).to(META))
        logits.sum().backward()
        made.append(graphs.frame_count)
    assert made == [2, 3, 3, 3, 3]  # a decoder layer's is another one for one pair
