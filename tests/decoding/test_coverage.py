"""The coverage penalty beside its closed forms (Wu et al. 2016, eq. 14)."""

import math

import pytest
import torch

from seq2seq.decoding.coverage import coverage

L, H, T, S = 3, 2, 5, 4


def test_what_was_looked_at_once_and_in_full_is_covered() -> None:
    aligned = torch.eye(S).repeat(L, H, 1, 1)
    assert coverage(aligned) == 0
    assert coverage(torch.cat([aligned, aligned], dim=2)) == 0  # looking twice gains nothing


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9])
def test_even_attention_covers_each_source_token_by_steps_out_of_tokens(steps: int) -> None:
    even = torch.full((L, H, steps, S), 1 / S)
    assert coverage(even) == pytest.approx(S * math.log(min(steps / S, 1)), abs=1e-6)


def test_it_is_the_sum_of_logs_of_the_mean_over_heads_of_the_last_layer_but_one() -> None:
    weights = torch.randn(L, H, T, S, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    total = 0.0
    for s in range(S):
        seen = sum(float(weights[1, h, t, s]) / H for h in range(H) for t in range(T))
        total += math.log(min(seen, 1.0))
    assert coverage(weights) == pytest.approx(total, abs=1e-5)
    assert total < -0.1
    assert coverage(weights[1:]) == coverage(weights[1:2]) == coverage(weights)


def test_a_source_token_that_nobody_looked_at_costs_much_but_not_everything() -> None:
    blind = torch.eye(S).repeat(1, 1, 1, 1)
    blind[..., 0] = 0.0
    assert -100 < coverage(blind) < -50
