"""How fast a run is, and how much of its work is padding."""

import time
from collections.abc import Iterable

import torch
from torch import Tensor

from seq2seq.data.batch import Batch


class Throughput:
    """Counts since `restart`; on the batches' device, so that nothing waits for the device."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._since = time.perf_counter()
        self._src: Tensor | int = 0
        self._tgt: Tensor | int = 0
        self.cells = 0
        """Positions of all batches, padding included."""

    def count(self, parts: Iterable[Batch]) -> None:
        for part in parts:
            self._src = self._src + part.src_lens.sum()
            self._tgt = self._tgt + part.tgt_lens.sum()
            self.cells += part.src.numel() + part.tgt_out.numel()

    def measured(self) -> tuple[float, float]:
        """Target tokens a second, and the share of padding; waits for the device."""
        src, tgt = torch.as_tensor(self._src), torch.as_tensor(self._tgt)
        rate = float(tgt) / (time.perf_counter() - self._since)
        return rate, 1 - float(src + tgt) / self.cells
