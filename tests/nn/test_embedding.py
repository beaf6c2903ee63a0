"""Rows of tables: which, how large, and what stays zero."""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2seq.config import PAD_ID, ModelConfig
from seq2seq.nn.embedding import (
    POSITIONS,
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
    sinusoids,
)
from seq2seq.nn.transformer import Transformer

D = 6
CONFIG = ModelConfig(d_model=D, heads=2, max_positions=9)


def by_formula(positions: range) -> Tensor:
    """Vaswani et al. 2017, section 3.5, number by number; the sines first, then the cosines."""
    angles = [[p / 10000 ** (2 * i / D) for i in range(D // 2)] for p in positions]
    return torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angles])


def test_sinusoids_are_the_formulas_in_two_halves_from_position_0() -> None:
    torch.testing.assert_close(sinusoids(300, D), by_formula(range(300)), atol=1e-4, rtol=0)
    assert sinusoids(1, D).tolist() == [[0, 0, 0, 1, 1, 1]]


def test_the_table_grows_on_demand_and_what_it_said_before_stays() -> None:
    positions = SinusoidalPositions(CONFIG)
    size = len(positions.table)
    before = positions(torch.arange(size), size)
    for end in (size + 1, 1000, 3000):
        grown = positions(torch.arange(end), end)
        torch.testing.assert_close(grown, by_formula(range(end)), atol=1e-3, rtol=0)
        assert grown[:size].equal(before)


def test_a_single_step_far_out_finds_its_row() -> None:
    positions = SinusoidalPositions(CONFIG)
    found = positions(torch.tensor([[700], [2]]), 701)  # (R, 1, D)
    expected = torch.stack([by_formula(range(700, 701)), by_formula(range(2, 3))])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_a_table_that_another_thread_replaces_meanwhile_is_no_harm() -> None:
    class Raced(SinusoidalPositions):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "table":
                super().__setattr__(name, value[:600])  # the other one needed no more

    found = Raced(CONFIG)(torch.arange(900), 900)
    torch.testing.assert_close(found, sinusoids(900, D))


def test_a_grown_table_keeps_its_type_and_is_not_stored() -> None:
    positions = SinusoidalPositions(CONFIG).to(torch.bfloat16)
    assert positions(torch.arange(600), 600).dtype == torch.bfloat16
    assert not positions.state_dict()


def test_a_table_that_grew_while_translating_serves_training() -> None:
    positions = SinusoidalPositions(CONFIG)
    with torch.inference_mode():
        positions(torch.arange(600), 600)
    x = torch.randn(600, D, requires_grad=True)
    ((x + positions(torch.arange(600), 600)) ** 2).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("name", POSITIONS)
def test_a_position_has_one_vector_wherever_it_stands(name: str) -> None:
    positions = POSITIONS[name](CONFIG)
    in_a_row = positions(torch.arange(5), 5)  # (5, D)
    assert in_a_row.shape == (5, D)
    assert len(in_a_row.unique(dim=0)) == 5
    places = torch.tensor([[4, 0, 3], [1, 1, 2]])
    assert positions(places, 5).equal(in_a_row[places])  # (2, 3, D)


def test_learned_positions_end_where_the_settings_say() -> None:
    positions = LearnedPositions(CONFIG)
    assert positions(torch.arange(9), 9).equal(positions.table)
    with pytest.raises(AssertionError, match="position 10 of a table of 9"):
        positions(torch.arange(10), 10)


@pytest.mark.parametrize(("scale", "factor"), [(True, math.sqrt(D)), (False, 1.0)])
def test_an_embedding_is_its_row_times_the_root_of_the_width_if_asked(
    scale: bool, factor: float
) -> None:
    embedding = TokenEmbedding(8, D, scale=scale)
    tokens = torch.tensor([[3, 1, 7], [3, PAD_ID, PAD_ID]])
    expected = torch.stack([torch.stack([embedding.weight[t] for t in row]) for row in tokens])
    torch.testing.assert_close(embedding(tokens), expected * factor)


def test_scaled_embeddings_are_as_large_as_sinusoids() -> None:
    """Both have a mean square between a half and one, so that neither drowns the other."""
    embedding = TokenEmbedding(500, 64, scale=True)
    mean_square = embedding(torch.arange(1, 500)).square().mean()
    assert 0.9 < mean_square < 1.1
    torch.testing.assert_close(sinusoids(500, 64).square().mean(), torch.tensor(0.5))


def test_learned_positions_begin_as_small_as_embeddings_before_their_scale() -> None:
    positions = LearnedPositions(replace(CONFIG, d_model=64, max_positions=500))
    embedding = TokenEmbedding(500, 64, scale=False)
    for table in (positions.table, embedding.weight):
        assert table.square().mean().item() == pytest.approx(1 / 64, rel=0.1)


def test_only_the_padding_row_loses_its_gradient_even_where_all_rows_share_one() -> None:
    embedding = TokenEmbedding(8, D, scale=False)
    embedding.weight.sum().backward()  # whose gradient is one number, expanded
    expected = torch.ones(8, D)
    expected[PAD_ID] = 0
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.equal(expected)


def frozen(network: Transformer) -> Transformer:
    return network.requires_grad_(False)


def learning(network: Transformer) -> Transformer:
    assert not any(parameter.requires_grad for parameter in network.parameters())
    return network.requires_grad_(True)


COPIES: dict[str, Callable[[Transformer], Transformer]] = {
    "itself": lambda network: network,
    "deep copy": copy.deepcopy,
    "pickled": lambda network: pickle.loads(pickle.dumps(network)),
    "deep copy of a frozen one": lambda network: learning(copy.deepcopy(frozen(network))),
    "pickled while frozen": lambda network: learning(pickle.loads(pickle.dumps(frozen(network)))),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("tie", ["none", "source-target", "target-output", "all"])
def test_the_padding_row_is_zero_and_stays_zero_however_the_output_is_tied(
    tie: str, copied: Callable[[Transformer], Transformer]
) -> None:
    config = ModelConfig(
        src_vocab_size=8,
        tgt_vocab_size=8,
        d_model=D,
        heads=2,
        ff_dim=8,
        tie=tie,  # type: ignore[arg-type]
    )
    network = copied(Transformer(config))
    tables = [network.src_embedding.weight, network.tgt_embedding.weight]
    before = tables[1].clone()
    assert all((table[PAD_ID] == 0).all() for table in tables)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.1)
    src, tgt = torch.tensor([[4, 5, PAD_ID]]), torch.tensor([[PAD_ID, 6, 7, PAD_ID]])
    for _ in range(2):
        network.project(network(src, torch.tensor([2]), tgt)).logsumexp(-1).sum().backward()
        optimizer.step()
    assert all((table[PAD_ID] == 0).all() for table in tables)
    assert (tables[1][[6, 7]] != before[[6, 7]]).all()


def test_a_table_goes_to_another_process_without_a_warning() -> None:
    ForkingPickler.dumps(TokenEmbedding(8, D, scale=False))
