"""The optimizer of a recipe, new or gone on with from a checkpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2seq.errors import ConfigError
from seq2seq.nn.transformer import Transformer
from seq2seq.training.muon import Muon
from seq2seq.training.recipe import Recipe
from seq2seq.training.schedule import factor


def optimizer_of(recipe: Recipe, network: Transformer, *, bf16: bool) -> Optimizer:
    """`bf16` says that products of the training are in bf16, so Muon's may be."""
    settings: dict[str, Any] = {
        "lr": recipe.lr,
        "betas": recipe.betas,
        "weight_decay": weight_decay_of(recipe),
        "eps": 1e-9,
    }
    if recipe.optimizer == "muon":
        matrices = hidden_matrices(network)
        known = set(matrices)
        others = [parameter for parameter in network.parameters() if parameter not in known]
        return Muon(matrices, others, dtype=torch.bfloat16 if bf16 else torch.float32, **settings)
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(network.parameters(), fused=True, **settings)


def hidden_matrices(network: Transformer) -> list[Tensor]:
    """Those that map hidden vectors to hidden vectors: neither embeddings nor the output."""
    modules = (*network.encoder.modules(), *network.decoder.modules())
    return [module.weight for module in modules if isinstance(module, nn.Linear)]


def weight_decay_of(recipe: Recipe) -> float:
    """0 for plain Adam."""
    return 0.0 if recipe.optimizer == "adam" else recipe.weight_decay


def prefer_settings(recipe: Recipe, checkpoint: Mapping[str, Any], end: int) -> None:
    """The recipe of this run, which goes on up to step `end`, wins over the one that the checkpoint
    was trained with."""
    for scheduler in checkpoint.get("lr_schedulers", []):
        next_step = scheduler["last_epoch"] + 1
        rate = recipe.lr * factor(recipe.schedule, next_step, recipe.warmup_steps, end)
        scheduler["base_lrs"] = [recipe.lr for _ in scheduler["base_lrs"]]
        scheduler["_last_lr"] = [rate for _ in scheduler["base_lrs"]]
        for state in checkpoint["optimizer_states"]:
            _prefer(recipe, rate, state["param_groups"])


def _prefer(recipe: Recipe, rate: float, groups: Sequence[dict[str, Any]]) -> None:
    if (len(groups) > 1) != (recipe.optimizer == "muon"):
        there = "muon" if len(groups) > 1 else "adamw or adam"
        raise ConfigError(
            f"training.optimizer={recipe.optimizer} cannot go on with the state of {there} in the "
            f"checkpoint; restore the setting, or start a new run with --init_from."
        )
    for group in groups:
        group.update(
            lr=rate,
            initial_lr=recipe.lr,
            betas=recipe.betas,
            weight_decay=weight_decay_of(recipe),
        )
