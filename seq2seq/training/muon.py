"""Muon (Jordan et al. 2024): every direction of a matrix is learned at the same rate."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.adamw import adamw

MOMENTUM = 0.95
RMS = 0.2
"""Root mean square of an update's elements at rate 1, as AdamW's are about (Liu et al. 2025)."""


def orthogonalised(x: Tensor) -> Tensor:
    """(N, A, B) -> U V' of each matrix U S V', with singular values of 0.7 to 1.2 instead of 1.

    Five Newton-Schulz iterations X <- a X + b X X' X + c X X' X X' X in the type of `x`; the
    coefficients of Jordan et al. raise small singular values fastest, by up to 480 times: what is
    below a 650th of the matrix's norm stays smaller.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    if x.size(-2) > x.size(-1):
        return orthogonalised(x.mT).mT
    x = x / x.flatten(1).norm(dim=1)[:, None, None].clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Muon(Optimizer):
    """Muon for `matrices`, AdamW with `betas` for the other parameters.

    An update of a matrix (A, B) is its orthogonalised momentum (Nesterov's) times
    0.2 sqrt(max(A, B)), which lets both take AdamW's learning rate (Liu et al. 2025, section 2.2).
    Matrices of one shape are multiplied together, in `dtype`. A step where `found_inf` is 1, as of
    torch's fused optimizers, changes nothing.
    """

    _step_supports_amp_scaling = True  # torch's GradScaler sets found_inf and lets it step
    found_inf: Tensor

    def __init__(
        self,
        matrices: Iterable[Tensor],
        others: Iterable[Tensor],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        eps: float,
        dtype: torch.dtype,
    ) -> None:
        self.dtype = dtype
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "eps": eps,
            "fused": True,
        }
        super().__init__([{"params": list(matrices)}, {"params": list(others)}], defaults)
        hidden, rest = self.param_groups
        for parameter in hidden["params"]:
            self.state[parameter] = {"momentum": torch.zeros_like(parameter)}
        for parameter in rest["params"]:
            self.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Parameters without a gradient stay as they are."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        hidden, rest = self.param_groups
        shapes: dict[torch.Size, list[Tensor]] = {}
        for matrix in _learning(hidden):
            shapes.setdefault(matrix.shape, []).append(matrix)
        for matrices in shapes.values():
            self._step_together(matrices, hidden["lr"], hidden["weight_decay"])
        self._step_adamw(rest)
        return loss

    def _step_together(self, matrices: list[Tensor], lr: float, weight_decay: float) -> None:
        """One step of matrices of one shape."""
        taken = 1 - self.found_inf  # 0 in a step that changes nothing
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        gradient = torch.stack([matrix.grad for matrix in matrices])  # type: ignore[misc]
        gradient = gradient.where(taken > 0, 0)
        momentum = torch.stack(momenta).lerp(gradient, (1 - MOMENTUM) * taken)
        torch._foreach_copy_(momenta, list(momentum))
        update = orthogonalised(gradient.lerp(momentum, MOMENTUM).to(self.dtype)).float()
        rate = lr * taken
        scale = RMS * max(gradient.shape[1:]) ** 0.5
        torch._foreach_mul_(matrices, 1 - rate * weight_decay)
        torch._foreach_sub_(matrices, list(update * (rate * scale)))

    def _step_adamw(self, group: dict[str, Any]) -> None:
        parameters = _learning(group)
        if not parameters:
            return

        def states(name: str) -> list[Tensor]:
            return [self.state[parameter][name] for parameter in parameters]

        adamw(
            parameters,
            [parameter.grad for parameter in parameters],  # type: ignore[misc]
            states("exp_avg"),
            states("exp_avg_sq"),
            [],
            states("step"),
            fused=True,
            found_inf=self.found_inf,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def _learning(group: dict[str, Any]) -> list[Tensor]:
    """The parameters that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]
