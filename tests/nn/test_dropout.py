"""Dropout that shares one random draw between eight elements must not show that it does."""

import pytest
import torch

from seq2seq.nn.dropout import dropout

MANY = 80_000


def dropped(rate: float, count: int = MANY) -> torch.Tensor:
    """Which of `count` elements became zero."""
    return dropout(torch.ones(count), rate) == 0


def near(share: torch.Tensor | float, probability: float, count: int) -> bool:
    """Within five standard deviations of what `count` independent draws give."""
    spread = (probability * (1 - probability) / count) ** 0.5
    return bool(abs(float(share) - probability) <= 5 * spread)


@pytest.mark.parametrize("rate", [0.004, 0.1, 0.25, 0.3, 0.5, 0.9, 0.996])
def test_the_rate_is_rounded_to_256ths_and_the_mean_stays(rate: float) -> None:
    rounded = round(rate * 256) / 256
    out = dropout(torch.full((MANY,), 3.0), rate)
    assert abs(rounded - rate) <= 1 / 512
    assert near((out == 0).float().mean(), rounded, MANY)
    torch.testing.assert_close(out[out != 0], torch.full_like(out, 3 / (1 - rounded))[out != 0])


@pytest.mark.parametrize("rate", [0.999, 0.9999])
def test_a_rate_near_one_drops_nearly_all(rate: float) -> None:
    assert dropped(rate).float().mean() > 0.99


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_each_of_the_eight_bytes_of_a_draw_drops_equally_often(rate: float) -> None:
    by_byte = dropped(rate).view(-1, 8).float().mean(dim=0)
    assert all(near(share, round(rate * 256) / 256, MANY // 8) for share in by_byte)


def test_neighbours_are_dropped_independently() -> None:
    zero = dropped(0.5)
    for distance in range(1, 17):
        both = (zero[distance:] & zero[:-distance]).float().mean()
        # Overlapping pairs are not independent draws: half as many are.
        assert near(both, 0.25, MANY // 2), distance


def test_rate_zero_gives_back_the_very_tensor() -> None:
    x = torch.randn(5)
    assert dropout(x, 0.0) is x


def test_the_gradient_is_the_mask() -> None:
    x = torch.randn(6, 7, requires_grad=True)
    out = dropout(x, 0.5)
    out.sum().backward()
    assert x.grad is not None
    assert sorted(x.grad.unique().tolist()) == [0, 2]
    torch.testing.assert_close(out, x * x.grad)


def test_a_seed_repeats_a_mask_and_the_next_call_draws_another() -> None:
    torch.manual_seed(5)
    first, second = dropped(0.5, 100), dropped(0.5, 100)
    torch.manual_seed(5)
    assert dropped(0.5, 100).equal(first)
    assert not first.equal(second)
    torch.manual_seed(6)
    assert not dropped(0.5, 100).equal(first)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (8,), (3, 0, 2), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_shape_and_type_stay(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    out = dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert (out.shape, out.dtype) == (shape, dtype)
    assert ((out == 0) | (out == 2)).all()


def test_a_transposed_tensor_is_dropped_like_any_other_and_not_written_into() -> None:
    x = torch.arange(1.0, 36).view(5, 7)
    out = dropout(x.T, 0.5)
    assert ((out == 0) | (out == 2 * x.T)).all()
    assert x.equal(torch.arange(1.0, 36).view(5, 7))


def test_the_mean_stays_in_bf16_as_well() -> None:
    # 256 / (256 - 26) is not a number of bf16: rounded, it would take 0.3 % of the mean.
    inputs = torch.rand(2_000_000).bfloat16()
    rounded = 26 / 256
    kept = dropout(inputs, 0.1).double()
    spread = (rounded / (1 - rounded) * float(inputs.double().square().sum())) ** 0.5
    assert abs(float(kept.sum() - inputs.double().sum())) <= 5 * spread
    assert 5 * spread < 0.002 * float(inputs.double().sum())
