"""The training loss against its definition."""

import math

import pytest
import torch
from torch.nn import functional as F

from seq2seq.config import PAD_ID
from seq2seq.training.loss import SLICE, cross_entropy_sum

B, T, V = 2, 5, 7


def smoothed_by_definition(logits: torch.Tensor, target: torch.Tensor, smoothing: float) -> float:
    """Minus the sum over real tokens of sum_v q(v) log p(v), q = (1 - e) one-hot + e / V."""
    total = 0.0
    for sentence in range(B):
        for step in range(T):
            gold = int(target[sentence, step])
            if gold == PAD_ID:
                continue
            log_p = logits[sentence, step].log_softmax(0).tolist()
            for token in range(V):
                q = smoothing / V + (1 - smoothing if token == gold else 0)
                total -= q * log_p[token]
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_equals_its_definition_and_skips_padding(smoothing: float) -> None:
    logits = torch.randn(B, T, V)
    target = torch.tensor([[4, 5, 6, 1, 3], [6, 3, PAD_ID, PAD_ID, PAD_ID]])
    expected = smoothed_by_definition(logits, target, smoothing)
    assert cross_entropy_sum(logits, target, smoothing).item() == pytest.approx(expected, rel=1e-5)


def test_padding_gets_no_gradient() -> None:
    logits = torch.randn(1, 3, V, requires_grad=True)
    cross_entropy_sum(logits, torch.tensor([[4, 3, PAD_ID]]), 0.1).backward()
    assert logits.grad is not None
    assert logits.grad[0, 2].abs().max() == 0
    assert logits.grad[0, 0].abs().max() > 0


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_rows_of_padding_may_be_left_out_beforehand(alpha: float) -> None:
    target = torch.tensor([[4, 5, 6, 1, 3], [6, 3, PAD_ID, PAD_ID, PAD_ID]])
    hidden, weight = torch.randn(2 * B, T, 3), torch.randn(V, 3, requires_grad=True)
    whole = cross_entropy_sum(hidden @ weight.T, target, 0.1, alpha)
    (expected,) = torch.autograd.grad(whole, weight)
    real = target != PAD_ID
    packed = hidden[real.repeat(2, 1)]
    loss = cross_entropy_sum(packed @ weight.T, target[real], 0.1, alpha)
    torch.testing.assert_close(loss, whole)
    torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], expected)


def test_loss_is_summed_in_fp32_whatever_the_logits() -> None:
    uniform = torch.zeros(4, 100, V, dtype=torch.bfloat16)
    loss = cross_entropy_sum(uniform, torch.full((4, 100), 5))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(400 * math.log(V), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_slices_give_the_value_and_gradient_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, rows: int, dtype: torch.dtype
) -> None:
    monkeypatch.setitem(SLICE, "cpu", rows * V)
    target = torch.tensor([[4, 5, 6, 1, 3], [6, 3, PAD_ID, PAD_ID, PAD_ID]])
    hidden, weight = torch.randn(B, T, 3), torch.randn(V, 3, requires_grad=True)
    whole = F.cross_entropy(
        (hidden.to(dtype) @ weight.to(dtype).T).float().flatten(0, 1),
        target.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=0.1,
        reduction="sum",
    )
    (expected,) = torch.autograd.grad(whole / 8, weight)
    sliced = cross_entropy_sum(hidden.to(dtype) @ weight.to(dtype).T, target, 0.1)
    torch.testing.assert_close(sliced, whole)
    (gradient,) = torch.autograd.grad(sliced / 8, weight)
    torch.testing.assert_close(gradient, expected)


def test_the_gradient_is_there_once() -> None:
    logits = torch.randn(1, 2, V, requires_grad=True)
    loss = cross_entropy_sum(logits, torch.tensor([[4, 5]]))
    loss.backward(retain_graph=True)
    with pytest.raises(AssertionError, match="used up"):
        loss.backward()


@pytest.mark.parametrize("rows", [1, 100])
def test_r_drop_equals_its_definition_in_value_and_gradient(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setitem(SLICE, "cpu", 2 * rows * V)
    alpha, smoothing = 3.0, 0.1
    target = torch.tensor([[4, 5, 6, 1, 3], [6, 3, PAD_ID, PAD_ID, PAD_ID]])
    logits = torch.randn(2 * B, T, V, requires_grad=True)
    p, q = logits.log_softmax(-1).view(2, B * T, V)
    both = F.kl_div(p, q, reduction="none", log_target=True).sum(-1)
    both = both + F.kl_div(q, p, reduction="none", log_target=True).sum(-1)
    wanted = target.flatten()
    entropies = [
        F.cross_entropy(x, wanted, ignore_index=PAD_ID, label_smoothing=smoothing, reduction="sum")
        for x in (p, q)
    ]
    paper = sum(entropies) + alpha * (both / 2)[wanted != PAD_ID].sum()  # eq. 4
    (expected,) = torch.autograd.grad(paper / 2, logits)
    copy = logits.detach().clone().requires_grad_()
    loss = cross_entropy_sum(copy + 0, target, smoothing, alpha)
    torch.testing.assert_close(loss, paper / 2)
    (gradient,) = torch.autograd.grad(loss, copy)
    torch.testing.assert_close(gradient, expected)
