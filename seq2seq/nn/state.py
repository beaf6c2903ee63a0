"""What changes while decoding, owned by the caller; modules hold parameters only.

A state of width W decodes W beams for each of B sentences: R = B * W rows, the beams of one
sentence next to each other. Beams share their sentence's cross-attention keys and values.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class LayerState:
    """One decoder layer's keys and values."""

    memory_keys: Tensor
    """(B, H, S, E): of the source, projected once."""
    memory_values: Tensor
    """(B, H, S, E)."""
    keys: Tensor | None
    """(R, H, C, E): of the target so far, with room for C positions; None in training."""
    values: Tensor | None
    """(R, H, C, E)."""

    def extend(
        self, keys: Tensor, values: Tensor, positions: Tensor, used: int
    ) -> tuple[Tensor, Tensor]:
        """Put keys and values (R, H, T, E) at `positions` (R, T); return all (R, H, used, E).

        Without a cache they are used as they come, so that autograd sees nothing in place.
        """
        if self.keys is None or self.values is None:
            assert used == keys.shape[2], "a state without a cache decodes only once"
            return keys, values
        self.keys, self.values = with_room(self.keys, used), with_room(self.values, used)
        rows = torch.arange(len(positions), device=positions.device)[:, None]
        self.keys.transpose(1, 2)[rows, positions] = keys.transpose(1, 2)  # (R, T, H, E)
        self.values.transpose(1, 2)[rows, positions] = values.transpose(1, 2)
        return self.keys[:, :, :used], self.values[:, :, :used]

    def select(self, sentences: Tensor, rows: Tensor) -> "LayerState":
        """Go on with these sentences (N,), and with these rows (N * W,) of the cache."""
        keys, values = self.memory_keys, self.memory_values
        if len(sentences) < len(keys):
            keys, values = keys.index_select(0, sentences), values.index_select(0, sentences)
        assert self.keys is not None, "without a cache there is nothing to select"
        assert self.values is not None
        cache = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        return LayerState(keys, values, *cache)


def with_room(cache: Tensor, used: int) -> Tensor:
    """A cache (R, H, C, E) of at least `used` positions, twice as many as before if it must grow.

    New places hold zeros: a row that lags behind attends to them with weight 0, and 0 times
    whatever else stood there might be NaN.
    """
    room = cache.shape[2]
    return cache if used <= room else F.pad(cache, (0, 0, 0, max(used, 2 * room) - room))


@dataclass
class DecoderState:
    """Everything the decoder remembers of B sentences in W beams each."""

    layers: list[LayerState]
    memory_lens: Tensor
    """(B,): source tokens of each sentence."""
    lengths: Tensor
    """(R,): target tokens that each row has decoded; its next position and its valid length."""
    width: int
    """W."""
    used: int = 0
    """At least the largest of `lengths`; known without asking the device."""

    def advance(self, steps: int) -> "DecoderState":
        """The state after every row has decoded `steps` more tokens; the caches are shared."""
        return replace(self, lengths=self.lengths + steps, used=self.used + steps)

    def select(self, sentences: Tensor, beams: Tensor) -> "DecoderState":
        """Go on with sentences (N,) only: beam w of the n-th, from what was its beam beams[n, w].

        beams (N, W) count from 0 in each sentence. The old state must not be used any more.
        """
        rows = (sentences[:, None] * self.width + beams).flatten()  # (N * W,)
        return replace(
            self,
            layers=[layer.select(sentences, rows) for layer in self.layers],
            memory_lens=self.memory_lens[sentences],
            lengths=self.lengths[rows],
        )
