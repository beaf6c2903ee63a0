"""Muon against torch's own, which takes its matrices one by one, and against AdamW."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Run, settings
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.nn.transformer import Transformer
from seq2seq.training import muon
from seq2seq.training.muon import Muon, orthogonalised
from seq2seq.training.optimizer import hidden_matrices, optimizer_of
from seq2seq.training.recipe import Recipe

CONFIG = ModelConfig(src_vocab_size=20, tgt_vocab_size=30, d_model=16, ff_dim=48, tie="none")


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 40, 16), (2, 16, 40)])
def test_orthogonalising_keeps_the_directions_and_evens_out_their_lengths(
    shape: tuple[int, int, int],
) -> None:
    u, _, vh = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    lengths = torch.logspace(0, -2, u.size(-1))
    matrices = u * lengths @ vh
    whole = orthogonalised(matrices)
    found = u.mT @ whole @ vh.mT
    diagonal = found.diagonal(dim1=-2, dim2=-1)
    assert ((diagonal > 0.65) & (diagonal < 1.25)).all()
    torch.testing.assert_close(found, torch.diag_embed(diagonal), rtol=0, atol=1e-4)
    torch.testing.assert_close(orthogonalised(1e-5 * matrices), whole, rtol=0, atol=1e-4)
    assert not orthogonalised(0 * matrices).any()


def networks(
    dtype: torch.dtype,
) -> tuple[Transformer, Muon, Transformer, list[torch.optim.Optimizer]]:
    """One with our optimizer, and its copy with torch's two."""
    ours, theirs = Transformer(CONFIG), Transformer(CONFIG)
    theirs.load_state_dict(ours.state_dict())
    recipe = Recipe(optimizer="muon", lr=0.01, weight_decay=0.1)
    optimizer = optimizer_of(recipe, ours, bf16=dtype == torch.bfloat16)
    assert isinstance(optimizer, Muon)
    assert optimizer.dtype == dtype
    optimizer.found_inf = torch.zeros(())
    matrices = hidden_matrices(theirs)
    kept = {id(matrix) for matrix in matrices}
    rest = [p for p in theirs.parameters() if id(p) not in kept]
    shared: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1}
    return (
        ours,
        optimizer,
        theirs,
        [
            torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **shared),
            torch.optim.AdamW(rest, betas=recipe.betas, eps=1e-9, fused=True, **shared),
        ],
    )


def set_gradients(*networks: nn.Module) -> None:
    """The same random ones for all."""
    for together in zip(*(network.parameters() for network in networks), strict=True):
        gradient = torch.randn_like(together[0])
        for parameter in together:
            parameter.grad = gradient.clone()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_ten_steps_are_those_of_torch(dtype: torch.dtype) -> None:
    """torch's are in bf16: the difference is that of rounding, which the steps' size dwarfs."""
    ours, optimizer, theirs, expected = networks(dtype)
    start = {name: parameter.detach().clone() for name, parameter in ours.named_parameters()}
    for _ in range(10):
        set_gradients(ours, theirs)
        for each in (optimizer, *expected):
            each.step()
    hidden = {id(matrix) for matrix in hidden_matrices(ours)}
    for (name, our), their in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if id(our) in hidden:
            moved, expected_move = our - start[name], their - start[name]
            assert (moved - expected_move).norm() < 0.02 * expected_move.norm()
        else:
            torch.testing.assert_close(our, their, rtol=0, atol=0)


@pytest.mark.parametrize("without", ["encoder.", "src_embedding.", ""])
def test_what_has_no_gradient_stays_as_it_is(without: str) -> None:
    """As the encoder of a model without decoder layers."""
    ours, optimizer, theirs, expected = networks(torch.float32)
    set_gradients(ours, theirs)
    for network in (ours, theirs):
        for name, parameter in network.named_parameters():
            if name.startswith(without):
                parameter.grad = None
    before = {name: parameter.detach().clone() for name, parameter in ours.named_parameters()}
    for each in (optimizer, *expected):
        each.step()
    for (name, our), their in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if name.startswith(without):
            assert torch.equal(our, before[name])
        else:
            torch.testing.assert_close(our, their, rtol=0, atol=3e-3)
            assert not torch.equal(our, before[name])


@pytest.mark.parametrize("tie", ["none", "target-output", "all"])
def test_it_is_for_the_matrices_of_the_layers_alone(tie: str) -> None:
    sizes = {"src_vocab_size": 20, "tgt_vocab_size": 20, "d_model": 16}
    network = Transformer(ModelConfig(**sizes, tie=tie, positions="learned"))  # type: ignore[arg-type]
    optimizer = optimizer_of(Recipe(optimizer="muon"), network, bf16=False)
    names = {parameter: name for name, parameter in network.named_parameters()}
    matrices, others = (
        {names[parameter] for parameter in group["params"]} for group in optimizer.param_groups
    )
    assert matrices | others == set(names.values())
    assert not matrices & others
    assert matrices == {
        name
        for name in names.values()
        if name.startswith(("encoder.", "decoder.")) and ".norm." not in name and "bias" not in name
    }


@pytest.mark.parametrize(
    ("precision", "dtype"), [("32-true", torch.float32), ("bf16-mixed", torch.bfloat16)]
)
def test_it_multiplies_in_the_precision_of_the_training(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, precision: str, dtype: torch.dtype
) -> None:
    def seen(x: Tensor) -> Tensor:
        found.add(x.dtype)
        return orthogonalised(x)

    found = set[torch.dtype]()
    monkeypatch.setattr(muon, "orthogonalised", seen)
    chosen = {"trainer__precision": precision, "training__optimizer": "muon"}
    assert run("fit", *settings(trainer__max_steps=1, **chosen)) == 0
    assert found == {dtype}


def test_a_run_cannot_go_on_with_the_state_of_another_optimizer(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"ckpt_path": "last", "trainer__max_steps": 12}
    for first, second, there in (
        ("muon", "adamw", "muon"),
        ("adam", "muon", "adamw or adam"),
    ):
        assert run("fit", *settings(training__optimizer=first, run=first)) == 0
        assert run("fit", *settings(training__optimizer=second, run=first, **changes)) == 2
        said = capsys.readouterr().err
        assert f"training.optimizer={second} cannot go on with the state of {there}" in said
        assert run("fit", *settings(training__optimizer=first, run=first, **changes)) == 0
