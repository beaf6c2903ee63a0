"""What changes while decoding, owned by the caller; modules hold parameters and fixed tables only.

A state of width W decodes W beams for each of B sentences: R = B * W rows, the beams of one
sentence next to each other. Beams share their sentence: its source is projected once, and what
its beams say is written once, into the slot of the beam that said it. When a beam goes on from
another one, nothing is copied; it gets the other's ancestors, the slots of what it has said so far.

    position        0  1  2
    slot of beam 0  A  C  E    beam 0 has said A D E: its ancestors are 0 1 0
    slot of beam 1  B  D  F    beam 1 has said A C F: its ancestors are 0 0 1
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class LayerState:
    """One decoder layer's keys and values; in training they may be (K, H, E), joined."""

    memory_keys: Tensor
    """(B, H, S, E): of the source, projected once."""
    memory_values: Tensor
    """(B, H, S, E)."""
    keys: Tensor | None
    """(B, H, C, W, E): of the target so far, with room for C positions; None in training."""
    values: Tensor | None
    """(B, H, C, W, E)."""

    def extend(
        self, keys: Tensor, values: Tensor, positions: Tensor, used: int
    ) -> tuple[Tensor, Tensor]:
        """Put keys and values (B, H, W * T, E) at `positions` (R, T) of their beams; return all
        (B, H, used * W, E).

        Without a cache they are returned as they come: autograd allows no writing in place.
        """
        if self.keys is None or self.values is None:
            assert used == positions.shape[1], "a state without a cache decodes only once"
            return keys, values
        self.keys, self.values = with_room(self.keys, used), with_room(self.values, used)
        width = self.keys.shape[3]
        rows = torch.arange(len(positions), device=positions.device)[:, None]  # (R, 1)
        where = rows // width, positions, rows % width
        for cache, new in ((self.keys, keys), (self.values, values)):
            beams = new.unflatten(2, (width, -1)).permute(0, 2, 3, 1, 4)  # (B, W, T, H, E)
            cache.permute(0, 2, 3, 1, 4)[where] = beams.flatten(0, 1)  # (R, T, H, E)
        return self.keys[:, :, :used].flatten(2, 3), self.values[:, :, :used].flatten(2, 3)

    def select(self, count: int, places: Tensor, sentences: Tensor) -> "LayerState":
        """Go on with `count` sentences; what was at `sentences` (I,) is moved to `places` (I,)."""
        assert self.keys is not None, "without a cache there is nothing to select"
        assert self.values is not None
        kept = []
        for buffer in (self.memory_keys, self.memory_values, self.keys, self.values):
            if len(places):
                buffer[places] = buffer[sentences]
            kept.append(buffer[:count])
        return LayerState(*kept)


def with_room(cache: Tensor, used: int) -> Tensor:
    """cache (., ., C, ...) with room for `used` positions, twice as much as before if it must grow.

    New places hold zeros: a row that lags behind attends to them with weight 0, and 0 times
    whatever else stood there might be NaN.
    """
    room = cache.shape[2]
    if used <= room:
        return cache
    return F.pad(cache, [0, 0] * (cache.dim() - 3) + [0, max(used, 2 * room) - room])


@dataclass
class DecoderState:
    """Everything the decoder remembers of B sentences in W beams each."""

    layers: list[LayerState]
    memory_lens: Tensor
    """(B,): source tokens of each sentence."""
    lengths: Tensor
    """(R,): target tokens that each row has decoded; its next position and its valid length. The
    same for all beams of a sentence: one that lagged behind would overwrite what others say."""
    ancestors: Tensor
    """(B, W, C): the beam in whose slot each beam's token at a position stands; needs no room where
    W is 1."""
    used: int = 0
    """At least the largest of `lengths`; known without asking the device."""

    @property
    def width(self) -> int:
        """W."""
        return self.ancestors.shape[1]

    def advance(self, positions: Tensor) -> "DecoderState":
        """The state after tokens at `positions` (R, T); the caches are shared."""
        steps = positions.shape[1]
        after = replace(self, lengths=self.lengths + steps, used=self.used + steps)
        if self.width > 1:
            own = torch.arange(self.width, device=positions.device)[None, :, None]  # (1, W, 1)
            places = positions.view(len(self.ancestors), self.width, steps)
            ancestors = with_room(self.ancestors, after.used)
            after.ancestors = ancestors.scatter(2, places, own.expand_as(places))
        return after

    def visible(self, positions: Tensor) -> Tensor:
        """Which keys a token at `positions` (R, T) sees, of those that `LayerState.extend` returns.

        Its row's positions up to its own: as lengths (R, T), or with several beams and a cache as a
        mask (B, W * T, used * W), since slots that are not among a beam's ancestors lie between.
        """
        if self.width == 1:
            return positions + 1
        own = torch.arange(self.width, device=positions.device)
        slots = self.ancestors[:, :, : self.used, None] == own  # (B, W, used, W)
        places = torch.arange(self.used, device=positions.device)
        past = places <= positions.view(*self.ancestors.shape[:2], -1, 1)  # (B, W, T, used)
        return (slots[:, :, None] & past[..., None]).flatten(3).flatten(1, 2)

    def select(self, sentences: Sequence[int], beams: Tensor) -> "DecoderState":
        """Go on with N sentences only; beam w of the n-th continues what was its beam beams[n, w].

        beams (N, W) count from 0 in each sentence. The old state must not be used any more. The
        fewer sentences change their place, the less is copied; the device is not waited for.
        """
        moved = [place for place, each in enumerate(sentences) if place != each]  # (I,)
        rows, places, before = (
            torch.tensor(each, dtype=torch.int64).to(beams.device, non_blocking=True)
            for each in (sentences, moved, [sentences[place] for place in moved])
        )
        return replace(
            self,
            layers=[layer.select(len(rows), places, before) for layer in self.layers],
            memory_lens=self.memory_lens[rows],
            lengths=self.lengths[(rows[:, None] * self.width + beams).flatten()],
            ancestors=self.ancestors[rows[:, None], beams],
        )
