"""An ensemble is one model whose probabilities are the mean of its members' probabilities."""

import math
from collections.abc import Sequence

import pytest
import torch
from test_searches import Model, ToyStepper, config_of, random_model, same, textbook_beam

from seq2seq.config import BOS_ID
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.ensemble import Ensemble
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.search import Search


def mean(members: Sequence[Model]) -> Model:
    def model(said: tuple[int, ...]) -> Sequence[float]:
        rows = zip(*(member(said) for member in members), strict=True)
        chances = [sum(map(math.exp, row)) / len(members) for row in rows]
        return [math.log(chance) if chance else -math.inf for chance in chances]

    return model


@pytest.mark.parametrize(("search", "width"), [(greedy_search, 1), (beam_search, 3)])
@pytest.mark.parametrize("members", [2, 3])
def test_search_with_an_ensemble_is_search_with_the_mean_of_its_models(
    search: Search, width: int, members: int
) -> None:
    config, limits = config_of(width, n_best=width, alpha=0.6), [seed % 7 + 1 for seed in range(20)]
    told = [[random_model(100 * m + seed) for seed in range(20)] for m in range(members)]
    ensemble = Ensemble([ToyStepper(models) for models in told])
    found = search(ensemble, torch.tensor(limits), BOS_ID, config)
    for models, limit, hypotheses in zip(zip(*told, strict=True), limits, found, strict=True):
        assert same(hypotheses, textbook_beam(mean(models), limit, config))


def test_a_model_beside_itself_is_that_model() -> None:
    models, config = [random_model(seed) for seed in range(20)], config_of(4, n_best=4)
    limits = torch.tensor([6] * 20)
    alone = beam_search(ToyStepper(models), limits, BOS_ID, config)
    twice = Ensemble([ToyStepper(models), ToyStepper(models)])
    assert all(map(same, beam_search(twice, limits, BOS_ID, config), alone))
