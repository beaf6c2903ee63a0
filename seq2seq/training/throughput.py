"""How fast a run is, and which share of the positions of its batches is padding."""

import time
from collections.abc import Iterable

from seq2seq.data.batch import Batch


class Throughput:
    """Counts since `restart`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._since = time.perf_counter()
        self._src = self._tgt = 0
        self.cells = 0
        """Positions of all batches, padding included."""

    def count(self, parts: Iterable[Batch]) -> None:
        for part in parts:
            self._src += part.src_tokens
            self._tgt += part.tokens
            self.cells += part.src.numel() + part.tgt_out.numel()

    def measured(self) -> tuple[float, float]:
        """Target tokens a second, and the share of padding."""
        real = self._src + self._tgt
        return self._tgt / (time.perf_counter() - self._since), 1 - real / self.cells
