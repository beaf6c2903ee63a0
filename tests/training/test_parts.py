"""Gradients of a batch, whole, in parts, and after running out of memory."""

import pytest
import torch
from torch import Tensor, nn

from seq2seq.config import EOS_ID
from seq2seq.data.batch import Batch, make_batch
from seq2seq.errors import ConfigError
from seq2seq.training.parts import Parts, halves, positions

V, D = 11, 3
pytestmark = pytest.mark.filterwarnings("ignore:out of memory")


class Memory:
    """A loss with gradients that runs out of memory beyond so many positions, in its backward
    pass, when some gradients are already there."""

    def __init__(self, size: int) -> None:
        torch.manual_seed(1)
        self.table, self.bias = nn.Parameter(torch.randn(V, D)), nn.Parameter(torch.randn(D))
        self.size, self.tried = size, list[int]()

    def loss(self, part: Batch) -> Tensor:
        self.tried.append(len(part.src))
        self.fits = positions(part) <= self.size
        rows = (self.table[part.src] + self.bias).sum(dim=1)  # (B, D)
        return (rows**2).sum()

    def work(self, part: Batch) -> Tensor:
        loss = self.loss(part)
        if not self.fits:
            self.bias.grad = torch.full((D,), 7.0)
            raise torch.OutOfMemoryError("CUDA out of memory")
        loss.backward()
        return loss.detach()

    def learn(self, parts: Parts, batches: list[Batch]) -> Tensor:
        return parts.learn(batches, [self.table, self.bias], self.work)


def batch(rows: int) -> Batch:
    generator = torch.Generator().manual_seed(rows)
    src = [torch.randint(4, V, (4,), generator=generator).tolist() for _ in range(rows)]
    return make_batch(src, [[5, 6]] * rows, EOS_ID)


@pytest.mark.parametrize("size", [5 * 7, 5 * 4, 5 * 2, 5])
def test_memory_decides_about_parts_but_not_about_gradients(size: int) -> None:
    batches = [batch(7), batch(3)]
    expected = Memory(1000)
    whole = sum(expected.loss(each) for each in batches)
    assert isinstance(whole, Tensor)
    whole.backward()

    memory = Memory(size)
    total = memory.learn(Parts(), batches)
    torch.testing.assert_close(total, whole.detach())
    torch.testing.assert_close(memory.table.grad, expected.table.grad)
    torch.testing.assert_close(memory.bias.grad, expected.bias.grad)


def test_what_was_there_before_stays() -> None:
    memory = Memory(10)
    memory.learn(Parts(), [batch(7)])
    assert memory.table.grad is not None
    once, unused = memory.table.grad.clone(), nn.Parameter(torch.zeros(D))
    unused.grad = torch.ones(D)
    parameters = [memory.table, memory.bias, unused]
    Parts().learn([batch(7)], parameters, memory.work)
    torch.testing.assert_close(memory.table.grad, 2 * once)
    assert unused.grad.equal(torch.ones(D))


def test_what_did_not_fit_once_is_not_tried_again() -> None:
    memory, parts = Memory(5 * 2), Parts()
    with pytest.warns(UserWarning, match=r"out of memory with 20 .* parts of 10"):
        memory.learn(parts, [batch(7)])
    assert parts.limit == 5 * 2
    memory.tried.clear()
    memory.learn(parts, [batch(7), batch(3)])
    assert memory.tried == [2, 2, 2, 1, 2, 1]


def test_a_sentence_alone_is_tried_however_long_it_is() -> None:
    memory, parts = Memory(5), Parts()
    parts.limit = 4
    memory.learn(parts, [batch(3)])
    assert memory.tried == [1, 1, 1]


def test_a_part_is_as_large_as_its_longer_side() -> None:
    short, long = [[5]] * 3, [[5, 6, 7]] * 3
    assert positions(make_batch(short, long, EOS_ID)) == 3 * 4
    assert positions(make_batch(long, short, EOS_ID)) == 3 * 4


def test_a_sentence_that_does_not_fit_alone_is_named() -> None:
    with pytest.raises(ConfigError, match=r"of 5 subwords .* data\.max_length"):
        Memory(4).learn(Parts(), [batch(3)])


def test_other_errors_pass() -> None:
    def broken(part: Batch) -> Tensor:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        Parts().learn([batch(2)], [], broken)


def test_halves_are_all_rows_in_order() -> None:
    whole = batch(5)
    first, second = halves(whole)
    assert (len(first.src), len(second.src)) == (3, 2)
    for both, parts in zip(whole[:5], zip(first[:5], second[:5], strict=True), strict=True):
        assert torch.equal(both, torch.cat(parts))
    for half in (first, second):
        assert half.tokens == int(half.tgt_lens.sum())
