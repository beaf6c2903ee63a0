"""A step never asks the device for a number, which would stop the host until all is computed."""

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import Run, settings
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.training.module import TranslationModule

ASKED = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
)
"""What float(), bool(), .item() and the like become, and what has as many results as are found."""
ON_THE_HOST = "seq2seq/data/dataset.py"
"""Where batches are made of lists, before they go to any device."""


def chosen_by_mask(_: torch.Tensor, indices: list[torch.Tensor | None]) -> bool:
    return any(index is not None and index.dtype == torch.bool for index in indices)


class Questions(TorchDispatchMode):
    """Where numbers were asked for, of each step."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.step, self.places = 0, dict[int, list[str]]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in ASKED or (func is torch.ops.aten.index.Tensor and chosen_by_mask(*args)):
            frames = traceback.extract_stack()
            if not any(frame.filename.endswith(ON_THE_HOST) for frame in frames):
                place = next(f for f in reversed(frames[:-1]) if "/torch/" not in f.filename)
                self.places.setdefault(self.step, []).append(f"{place.filename}:{place.lineno}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("changes", [{}, {"training__optimizer": "muon", "training__ema": 0.9}])
def test_no_step_asks_for_a_number_before_the_bar_is_drawn_or_a_row_is_logged(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    questions, step = Questions(), TranslationModule.training_step

    def counted(self: TranslationModule, *arguments: Any) -> Any:
        questions.step = self.global_step + 1
        return step(self, *arguments)

    monkeypatch.setattr(TranslationModule, "training_step", counted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with questions:
        fit = settings(
            trainer__max_steps=12,
            trainer__val_check_interval=12,
            trainer__log_every_n_steps=6,
            trainer__enable_progress_bar="true",
            **changes,
        )
        assert run("fit", *fit) == 0
    asking = {number: places for number, places in questions.places.items() if number > 1}
    assert set(asking) == {6, 12}, asking  # logged; logged, drawn, validated and kept
