"""AdamW and Adam of a recipe, new and gone on with."""

from typing import Any

import pytest
import torch

from seq2seq.config import ModelConfig
from seq2seq.nn.transformer import Transformer
from seq2seq.training.optimizer import optimizer_of, prefer_settings
from seq2seq.training.recipe import Recipe

RECIPES: list[dict[str, Any]] = [
    {"lr": 0.1, "weight_decay": 0.3, "betas": (0.8, 0.9)},
    {"lr": 0.2, "weight_decay": 0.5, "betas": (0.7, 0.95)},
]


def network() -> Transformer:
    return Transformer(ModelConfig(src_vocab_size=20, tgt_vocab_size=20, d_model=16))


@pytest.mark.parametrize(("name", "kept"), [("adamw", 1 - 0.1 * 0.3), ("adam", 1.0)])
def test_without_a_gradient_adamw_shrinks_the_weights_and_adam_leaves_them(
    name: Any, kept: float
) -> None:
    learner = network()
    before = [parameter.detach().clone() for parameter in learner.parameters()]
    optimizer = optimizer_of(Recipe(optimizer=name, **RECIPES[0]), learner, bf16=False)
    for parameter in learner.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for old, new in zip(before, learner.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), kept * old)


@pytest.mark.parametrize("name", ["muon", "adamw", "adam"])
def test_what_goes_on_with_another_recipe_has_its_settings(name: Any) -> None:
    """In the middle of a straight line from the peak to zero."""
    old, new = (Recipe(optimizer=name, schedule="linear", **settings) for settings in RECIPES)
    learner = network()
    state = optimizer_of(old, learner, bf16=False).state_dict()
    scheduler = {
        "last_epoch": 3 * new.warmup_steps // 2 - 1,
        "base_lrs": [old.lr],
        "_last_lr": [old.lr],
    }
    checkpoint = {"optimizer_states": [state], "lr_schedulers": [scheduler]}
    prefer_settings(new, checkpoint, end=2 * new.warmup_steps)
    assert scheduler["base_lrs"] == [new.lr]
    assert scheduler["_last_lr"] == [new.lr / 2]
    expected = optimizer_of(new, learner, bf16=False).state_dict()["param_groups"]
    # A scheduler, which an optimizer alone has none of, reads what it began with.
    assert state["param_groups"] == [
        {**group, "lr": new.lr / 2, "initial_lr": new.lr} for group in expected
    ]
