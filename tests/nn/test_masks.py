"""Lengths become masks, and masked softmax looks at nothing else."""

import math

import pytest
import torch
from oracle import B, K, Q
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from seq2seq.nn.masks import VECTOR, masked_softmax, may_attend, repeat_per_head


def picture(mask: Tensor) -> list[str]:
    """(Q, K) -> a line per query: # for a key that it may attend to."""
    return ["".join(".#"[cell] for cell in row) for row in mask.tolist()]


def test_one_length_for_a_sentence_is_one_row_for_all_its_queries() -> None:
    mask = may_attend(torch.tensor([3, 0]), 4)
    assert mask.shape == (2, 1, 4)
    assert picture(mask[0]) == ["###."]
    assert picture(mask[1]) == ["...."]


def test_a_length_for_each_query_is_a_row_for_each_query() -> None:
    mask = may_attend(torch.tensor([[1, 2, 3], [4, 0, 2]]), 4)
    assert mask.shape == (2, 3, 4)
    assert picture(mask[0]) == ["#...", "##..", "###."]
    assert picture(mask[1]) == ["####", "....", "##.."]


def test_both_forms_agree_where_all_queries_see_the_same_keys() -> None:
    lens = torch.tensor([K, 3])
    by_query = may_attend(lens[:, None].expand(B, Q), K)
    assert by_query.equal(may_attend(lens, K).expand(B, Q, K))


def test_each_length_is_repeated_in_place_and_not_the_whole_list() -> None:
    repeated = repeat_per_head(torch.tensor([3, 2]), 5)
    assert repeated.tolist() == [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]


def test_the_lengths_of_all_queries_are_repeated_together() -> None:
    repeated = repeat_per_head(torch.tensor([[1, 2, 3], [4, 5, 6]]), 2)
    assert repeated.tolist() == [[1, 2, 3], [1, 2, 3], [4, 5, 6], [4, 5, 6]]


@pytest.mark.parametrize("hidden", [-math.inf, 0.0, 9.0, 1e30, math.inf, math.nan])
def test_causal_softmax_is_the_textbooks_whatever_stands_above_the_diagonal(hidden: float) -> None:
    scores = torch.tensor([[2, hidden, hidden], [1, 3, hidden], [0.5, 2, 1.5]])
    weights = masked_softmax(scores, may_attend(torch.tensor([[1, 2, 3]]), 3)[0])
    textbook = torch.tensor([[1, 0, 0], [0.1192, 0.8808, 0], [0.1220, 0.5465, 0.3315]])
    torch.testing.assert_close(weights, textbook, atol=5e-5, rtol=0)
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_softmax_is_in_fp32_whatever_the_type_of_the_scores(dtype: torch.dtype) -> None:
    scores, lens = (3 * torch.randn(B, Q, K)).to(dtype), [7, 3]
    weights = masked_softmax(scores, may_attend(torch.tensor(lens), K))
    assert weights.dtype == torch.float32
    for b, n in enumerate(lens):
        exact = scores[b, :, :n].double().softmax(dim=-1)
        torch.testing.assert_close(weights[b, :, :n].double(), exact, atol=1e-6, rtol=1e-6)
        assert (weights[b, :, n:] == 0).all()


@pytest.mark.parametrize("keys", [1, VECTOR - 1, VECTOR, VECTOR + 1])
def test_few_keys_get_the_exact_softmax_and_its_gradient(keys: int) -> None:
    scores = torch.randn(B, Q, keys, requires_grad=True)
    exact = scores.detach().double().requires_grad_()
    mix = torch.randn(B, Q, keys)
    weights = masked_softmax(scores, torch.ones(B, 1, keys, dtype=torch.bool))
    (weights * mix).sum().backward()
    (exact.softmax(dim=-1) * mix).sum().backward()
    torch.testing.assert_close(weights.double(), exact.softmax(dim=-1), atol=1e-6, rtol=1e-6)
    assert scores.grad is not None
    assert exact.grad is not None
    torch.testing.assert_close(scores.grad.double(), exact.grad, atol=1e-6, rtol=1e-5)


def test_few_keys_and_many_are_one_compiled_graph() -> None:
    graphs = CompileCounter()
    compiled = torch.compile(masked_softmax, dynamic=True, backend=graphs)
    for keys in (VECTOR - 1, 2 * VECTOR):
        scores, allowed = torch.randn(B, Q, keys), may_attend(torch.tensor([keys, 3]), keys)
        torch.testing.assert_close(compiled(scores, allowed), masked_softmax(scores, allowed))
    assert graphs.frame_count == 1


@pytest.mark.parametrize("low", [-1e5, -1e7, -1e30])
def test_a_very_low_score_still_wins_against_a_masked_one(low: float) -> None:
    weights = masked_softmax(torch.tensor([[low, 5.0]]), torch.tensor([[True, False]]))
    assert weights.tolist() == [[1, 0]]


def test_a_query_that_sees_nothing_gets_zeros_and_gives_zero_gradients() -> None:
    scores = torch.randn(B, Q, K, requires_grad=True)
    lens = torch.tensor([[0, 7, 3, 0, 5], [0, 0, 0, 0, 0]])
    weights = masked_softmax(scores, may_attend(lens, K))
    assert (weights[lens == 0] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), (lens > 0).float())
    (weights * torch.randn(B, Q, K)).sum().backward()
    assert scores.grad is not None
    assert (scores.grad[~may_attend(lens, K)] == 0).all()
    assert (scores.grad[0, 1] != 0).all()


def test_masked_scores_of_any_size_change_nothing_and_get_no_gradient() -> None:
    allowed = may_attend(torch.tensor([K, 3]), K)
    scores = torch.randn(B, Q, K)
    results = []
    for hidden in (0.0, 1e30, math.inf, math.nan):
        filled = scores.masked_fill(~allowed, hidden).requires_grad_()
        weights = masked_softmax(filled, allowed)
        (weights**2).sum().backward()
        assert filled.grad is not None
        assert (filled.grad[1, :, 3:] == 0).all()
        results.append((weights.detach(), filled.grad))
    for weights, gradient in results[1:]:
        assert weights.equal(results[0][0])
        assert gradient.equal(results[0][1])


def test_masked_softmax_leaves_its_arguments_as_they_were() -> None:
    scores, allowed = torch.randn(B, Q, K), may_attend(torch.tensor([0, 3]), K)
    before = scores.clone(), allowed.clone()
    masked_softmax(scores, allowed)
    assert scores.equal(before[0])
    assert allowed.equal(before[1])
