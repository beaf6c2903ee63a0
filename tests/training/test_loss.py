"""The training loss against its definition."""

import math

import pytest
import torch
from torch.nn import functional as F

from seq2seq.training.loss import SLICE, Fused, cross_entropy_sum, slice_loss

N, V = 8, 7
WANTED = torch.tensor([4, 5, 6, 1, 3, 6, 3, 0])


def smoothed_by_definition(logits: torch.Tensor, smoothing: float) -> float:
    """Minus the sum over tokens of sum_v q(v) log p(v), q = (1 - e) one-hot + e / V."""
    total = 0.0
    for row, gold in zip(logits, WANTED.tolist(), strict=True):
        for token, log_p in enumerate(row.log_softmax(0).tolist()):
            q = smoothing / V + (1 - smoothing if token == gold else 0)
            total -= q * log_p
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_equals_its_definition(smoothing: float) -> None:
    logits = torch.randn(N, V)
    expected = smoothed_by_definition(logits, smoothing)
    assert cross_entropy_sum(logits, WANTED, smoothing).item() == pytest.approx(expected, rel=1e-5)


def test_loss_is_summed_in_fp32_whatever_the_logits() -> None:
    uniform = torch.zeros(400, V, dtype=torch.bfloat16)
    loss = cross_entropy_sum(uniform, torch.full((400,), 5))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(400 * math.log(V), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_slices_give_the_value_and_gradient_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, rows: int, dtype: torch.dtype
) -> None:
    monkeypatch.setitem(SLICE, "cpu", rows * V)
    hidden, weight = torch.randn(N, 3), torch.randn(V, 3, requires_grad=True)
    logits = (hidden.to(dtype) @ weight.to(dtype).T).float()
    whole = F.cross_entropy(logits, WANTED, label_smoothing=0.1, reduction="sum")
    (expected,) = torch.autograd.grad(whole / 8, weight)
    sliced = cross_entropy_sum(hidden.to(dtype) @ weight.to(dtype).T, WANTED, 0.1)
    torch.testing.assert_close(sliced, whole)
    (gradient,) = torch.autograd.grad(sliced / 8, weight)
    torch.testing.assert_close(gradient, expected)


def check_fused(fused: Fused, smoothing: float, unit: float, dtype: torch.dtype) -> None:
    """A slice's loss and gradient in one, against those of several kernels."""
    logits = torch.randn(N + 3, V).to(dtype)
    found, expected = (logits.clone().requires_grad_() for _ in range(2))
    loss = cross_entropy_sum(found + 0, WANTED, smoothing, unit=unit, fused=fused)
    torch.testing.assert_close(loss, cross_entropy_sum(logits.clone(), WANTED, smoothing, 0, unit))
    loss.backward()
    cross_entropy_sum(expected + 0, WANTED, smoothing, unit=unit).backward()
    torch.testing.assert_close(found.grad, expected.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_fused_loss_is_the_same_and_changes_logits_for_a_gradient_only(
    monkeypatch: pytest.MonkeyPatch, rows: int, dtype: torch.dtype
) -> None:
    monkeypatch.setitem(SLICE, "cpu", rows * V)
    check_fused(slice_loss, 0.1, 8, dtype)
    logits = torch.randn(N, V).to(dtype)
    before = logits.clone()
    cross_entropy_sum(logits, WANTED, fused=slice_loss)
    assert torch.equal(logits, before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's own compiler
def test_a_compiled_loss_has_the_smoothing_of_each_call() -> None:
    compiled = torch.compile(slice_loss, dynamic=True)
    for smoothing, unit in ((0.1, 8), (0.0, 8), (0.3, 4096)):
        check_fused(compiled, smoothing, unit, torch.float32)


@pytest.mark.parametrize("rows", [1, 3, 4, 7])
def test_a_loss_may_be_compiled_anew_for_any_slice(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """As for the last one, of a single token: 7 leave one of 8."""
    monkeypatch.setitem(SLICE, "cpu", rows * V)
    torch.compiler.reset()
    traced = torch.compile(slice_loss, dynamic=True, backend="eager")
    for dtype in (torch.float32, torch.bfloat16):
        check_fused(traced, 0.1, 8, dtype)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_logits_of_no_token_cost_nothing_and_get_no_gradient(alpha: float) -> None:
    count = N * (2 if alpha else 1)
    logits = torch.randn(count + 3, V)
    real = logits[:count].clone().requires_grad_()
    expected = cross_entropy_sum(real + 0, WANTED, 0.1, alpha)
    logits[count:] = torch.tensor([torch.nan, torch.inf, 1e9])[:, None]
    logits.requires_grad_()
    loss = cross_entropy_sum(logits + 0, WANTED, 0.1, alpha)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient[:count], torch.autograd.grad(expected, real)[0])
    assert not gradient[count:].any()


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_a_unit_divides_value_and_gradient(alpha: float) -> None:
    logits = torch.randn(2 * N if alpha else N, V, requires_grad=True)
    whole = cross_entropy_sum(logits + 0, WANTED, 0.1, alpha)
    (expected,) = torch.autograd.grad(whole / 5, logits)
    divided = cross_entropy_sum(logits + 0, WANTED, 0.1, alpha, unit=5)
    torch.testing.assert_close(divided, whole / 5)
    torch.testing.assert_close(torch.autograd.grad(divided, logits)[0], expected)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_half_precision_loses_no_small_gradient_to_the_unit(alpha: float) -> None:
    """What label smoothing teaches a token is 1e-5 of a unit of 4,096: far below fp16's least."""
    scale, unit, vocab = 2.0**16, 4096.0, 4000
    exact = torch.randn(2 * N if alpha else N, vocab).half().float().requires_grad_()
    (expected,) = torch.autograd.grad(cross_entropy_sum(exact + 0, WANTED, 0.1, alpha), exact)
    logits = exact.detach().half().requires_grad_()
    loss = cross_entropy_sum(logits + 0, WANTED, 0.1, alpha, unit)
    (gradient,) = torch.autograd.grad(loss * scale, logits)
    assert gradient.isfinite().all()
    torch.testing.assert_close(
        gradient.float(), expected * (scale / unit), rtol=2e-3, atol=2e-6 * scale / unit
    )


def test_the_gradient_is_there_once() -> None:
    logits = torch.randn(2, V, requires_grad=True)
    loss = cross_entropy_sum(logits, torch.tensor([4, 5]))
    loss.backward(retain_graph=True)
    with pytest.raises(AssertionError, match="used up"):
        loss.backward()


@pytest.mark.parametrize("fused", [None, slice_loss])
@pytest.mark.parametrize("rows", [1, 100])
def test_r_drop_equals_its_definition_in_value_and_gradient(
    monkeypatch: pytest.MonkeyPatch, rows: int, fused: Fused | None
) -> None:
    monkeypatch.setitem(SLICE, "cpu", 2 * rows * V)
    alpha, smoothing = 3.0, 0.1
    logits = torch.randn(2 * N, V, requires_grad=True)
    p, q = logits.view(2, N, V).log_softmax(-1)
    both = F.kl_div(p, q, reduction="none", log_target=True).sum(-1)
    both = both + F.kl_div(q, p, reduction="none", log_target=True).sum(-1)
    entropies = [
        F.cross_entropy(x, WANTED, label_smoothing=smoothing, reduction="sum") for x in (p, q)
    ]
    paper = sum(entropies) + alpha * (both / 2).sum()  # eq. 4
    (expected,) = torch.autograd.grad(paper / 2, logits)
    copy = logits.detach().clone().requires_grad_()
    loss = cross_entropy_sum(copy + 0, WANTED, smoothing, alpha, fused=fused)
    torch.testing.assert_close(loss, paper / 2)
    (gradient,) = torch.autograd.grad(loss, copy)
    torch.testing.assert_close(gradient, expected)
