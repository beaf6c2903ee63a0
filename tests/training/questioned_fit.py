"""A fit that tells which steps of a process asked the device for numbers, and where:

python questioned_fit.py fit ...  # writes asked-RANK.json
"""

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.cli import main
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
        self.step, self.rank, self.places = 0, 0, dict[int, list[str]]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in ASKED or (func is torch.ops.aten.index.Tensor and chosen_by_mask(*args)):
            frames = traceback.extract_stack()
            if not any(frame.filename.endswith(ON_THE_HOST) for frame in frames):
                place = next(f for f in reversed(frames[:-1]) if "/torch/" not in f.filename)
                self.places.setdefault(self.step, []).append(f"{place.filename}:{place.lineno}")
        return func(*args, **(kwargs or {}))

    def counting(self) -> Callable[..., Any]:
        """The module's training_step, which says here what step it is in."""
        step = TranslationModule.training_step

        def counted(module: TranslationModule, *arguments: Any) -> Any:
            self.step, self.rank = module.global_step + 1, module.global_rank
            return step(module, *arguments)

        return counted


if __name__ == "__main__":
    questions = Questions()
    TranslationModule.training_step = questions.counting()  # type: ignore[method-assign]
    with questions:
        status = main()
    Path(f"asked-{questions.rank}.json").write_text(json.dumps(questions.places))
    sys.exit(status)
