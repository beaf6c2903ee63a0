"""What changes while decoding, owned by the caller; modules hold parameters only.

A state of width W decodes W beams for each of B sentences: R = B * W rows, the beams of one
sentence next to each other. Beams share their sentence's cross-attention keys and values.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass
class LayerState:
    """One decoder layer's keys and values."""

    memory_keys: Tensor
    """(B, H, S, E): of the source, projected once."""
    memory_values: Tensor
    """(B, H, S, E)."""
    keys: Tensor
    """(R, H, C, E): of the target so far, with room for C positions; C is 0 in training."""
    values: Tensor
    """(R, H, C, E)."""

    def extend(
        self, keys: Tensor, values: Tensor, positions: Tensor, used: int
    ) -> tuple[Tensor, Tensor]:
        """Put keys and values (R, H, T, E) at `positions` (R, T); return all (R, H, used, E).

        Without capacity they are used as they come, so that autograd sees nothing in place.
        """
        if self.keys.shape[2] == 0:
            assert used == keys.shape[2], "a state without capacity decodes only once"
            return keys, values
        rows = torch.arange(len(positions), device=positions.device)[:, None]
        self.keys.transpose(1, 2)[rows, positions] = keys.transpose(1, 2)  # (R, T, H, E)
        self.values.transpose(1, 2)[rows, positions] = values.transpose(1, 2)
        return self.keys[:, :, :used], self.values[:, :, :used]


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
        """The state after every row has decoded `steps` more tokens; the buffers are shared."""
        return replace(self, lengths=self.lengths + steps, used=self.used + steps)

    def reorder(self, beams: Tensor) -> "DecoderState":
        """beams (B, W): beam w of sentence b goes on from beam beams[b, w] of the same sentence.

        The buffers are rewritten: the old state must not be used any more.
        """
        first = torch.arange(len(beams), device=beams.device)[:, None] * self.width
        rows = (first + beams).flatten()  # (R,)
        for layer in self.layers:
            for cache in (layer.keys[:, :, : self.used], layer.values[:, :, : self.used]):
                cache.copy_(cache.index_select(0, rows))
        return replace(self, lengths=self.lengths[rows])

    def keep(self, sentences: Tensor) -> "DecoderState":
        """sentences (N,), indices: drop all the others."""
        beams = torch.arange(self.width, device=sentences.device)
        rows = (sentences[:, None] * self.width + beams).flatten()  # (N * W,)
        layers = [
            LayerState(
                layer.memory_keys[sentences],
                layer.memory_values[sentences],
                layer.keys[rows],
                layer.values[rows],
            )
            for layer in self.layers
        ]
        return replace(
            self,
            layers=layers,
            memory_lens=self.memory_lens[sentences],
            lengths=self.lengths[rows],
        )
