"""How the vectors of a batch's tokens lie in memory.

Attention looks at them sentence by sentence, as (B, H, N, E). All other layers treat each vector
on its own, so they take any number in any order. A search keeps padded rows, `Padded`; training
leaves the padding out: `Unpadded`, if attention still needs it, or else `Joined`.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq.nn.masks import Spans, Visible, may_attend

MULTIPLE = 64
"""The number of vectors of joined sentences is a multiple of this; at least one is of no token. A
GPU multiplies such sizes fast, and there are fewer sizes for which memory is kept."""


class Layout(Protocol):
    """(..., D) below is how a layout's vectors lie."""

    def tokens(self, x: Tensor) -> Tensor:
        """What padded rows hold, one for each position, in this layout: (R, N) -> (...)."""

    def split(self, x: Tensor, head_dim: int) -> Tensor:
        """(..., H * E) -> (B, H, N, E), or joined (M, H, E)."""

    def merge(self, heads: Tensor) -> Tensor:
        """What `split` gives -> (..., H * E)."""

    def visible(self, valid_lens: Tensor, keys: "Layout") -> Visible:
        """The lengths, or a mask, as attention takes them where queries lie in this layout and keys
        in the layout `keys`."""


class Padded(NamedTuple):
    """(R, N, D): rows of one length; W neighbours, beams, belong to one sentence.

    To attention the beams of a sentence are one row of W * N.
    """

    sentences: int
    """B."""
    width: int = 1
    """W."""

    def tokens(self, x: Tensor) -> Tensor:
        return x

    def split(self, x: Tensor, head_dim: int) -> Tensor:
        together = x.reshape(self.sentences, -1, x.shape[-1])  # (B, W * N, H * E)
        heads: Tensor = together.unflatten(-1, (-1, head_dim)).transpose(1, 2)
        return heads

    def merge(self, heads: Tensor) -> Tensor:
        together = heads.transpose(1, 2).flatten(2)  # (B, W * N, H * E)
        return together.view(self.sentences * self.width, -1, together.shape[-1])

    def visible(self, valid_lens: Tensor, keys: Layout) -> Visible:
        return valid_lens


class Unpadded(NamedTuple):
    """(M, D): the tokens of all sentences one after the other, without padding (Zeng et al. 2022).

    M is above the number of tokens: padding reads a vector that belongs to no token and whose
    gradient is zero. M is rounded up, so that batches of about the same size have the same M: a CPU
    makes a kernel for each product of each shape, and a GPU likes multiples of eight.
    """

    places: Tensor
    """(M,): where in the flattened rows each vector's token stands; the first place for no token"""
    apart: Tensor
    """(B, H, N): the vectors' heads in the order of attention, as places in (M, H)."""
    together: Tensor
    """(M, H): the way back, as places in (B, H, N)."""
    real: int
    """The number of tokens."""

    @classmethod
    def of(cls, lens: Tensor, width: int, tokens: int, heads: int) -> "Unpadded":
        """For rows (B, width); `tokens`, the sum of their lengths (B,), is given so that no device
        is waited for."""
        inside = may_attend(lens, width)[:, 0]  # (B, N)
        flat = inside.flatten()
        places = _places(flat, room_for(tokens))  # (M,)
        vectors = torch.where(flat, flat.cumsum(0) - 1, tokens).view_as(inside)  # (B, N)
        head = torch.arange(heads, device=lens.device)
        apart = vectors[:, None] * heads + head[:, None]  # (B, H, N)
        sentence, position = (places // width)[:, None], (places % width)[:, None]
        together = (sentence * heads + head) * width + position  # (M, H)
        return cls(places, apart, together, tokens)

    def tokens(self, x: Tensor) -> Tensor:
        return x.flatten().index_select(0, self.places)

    def split(self, x: Tensor, head_dim: int) -> Tensor:
        vectors = x.view(-1, head_dim)  # (M * H, E)
        moved = _Moved.apply(vectors, self.apart, self.together, None, self._ends)  # type: ignore[no-untyped-call]
        return moved.view(*self.apart.shape, head_dim)  # type: ignore[no-any-return]

    def merge(self, heads: Tensor) -> Tensor:
        vectors = heads.reshape(-1, heads.shape[-1])  # (B * H * N, E)
        moved = _Moved.apply(vectors, self.together, self.apart, self._ends, None)  # type: ignore[no-untyped-call]
        return moved.view(len(self.places), -1)  # type: ignore[no-any-return]

    def visible(self, valid_lens: Tensor, keys: Layout) -> Visible:
        return valid_lens

    @property
    def _ends(self) -> int:
        """Where in (M, H), flattened, the tokens end."""
        return self.real * self.together.shape[1]


class Joined(NamedTuple):
    """(M, D): the same vectors, which attention sees as they lie, (M, H, E), with the `Spans` of
    their sentences. FlashAttention calls this varlen, and `bounds` cu_seqlens."""

    places: Tensor
    """(M,): as of `Unpadded`."""
    sentences: Tensor
    """(M,): the sentence that each vector's token is in; B for no token."""
    bounds: Tensor
    """(B + 1,): where each sentence begins, and where the last one ends."""

    @classmethod
    def of(cls, lens: Tensor, width: int, tokens: int) -> "Joined":
        """For rows (B, width); `tokens` is at least the sum of their lengths (B,), known without
        waiting for a device."""
        room = (tokens // MULTIPLE + 1) * MULTIPLE
        places = _places(may_attend(lens, width).flatten(), room)
        bounds = torch.cat([lens.new_zeros(1), lens.cumsum(0)])
        real = torch.arange(room, device=lens.device) < bounds[-1]
        return cls(places, torch.where(real, places // width, len(lens)), bounds)

    def tokens(self, x: Tensor) -> Tensor:
        return x.flatten().index_select(0, self.places)

    def split(self, x: Tensor, head_dim: int) -> Tensor:
        heads: Tensor = x.unflatten(-1, (-1, head_dim))  # (M, H, E)
        return heads

    def merge(self, heads: Tensor) -> Tensor:
        return heads.flatten(1)

    def visible(self, valid_lens: Tensor, keys: Layout) -> Visible:
        """Only the shape of `valid_lens` counts: (B,) is all keys of a sentence, (B, Q) causal."""
        assert isinstance(keys, Joined), "joined queries see joined keys"
        firsts, ends = keys._bounds_of(self.sentences)
        seen_firsts, seen_ends = self._bounds_of(keys.sentences)
        if valid_lens.dim() == 2:
            own = torch.arange(len(self.places), device=ends.device)
            ends, seen_firsts = ends.minimum(own + 1), seen_firsts.maximum(own)
        return Spans(firsts.int(), ends.int(), seen_firsts.int(), seen_ends.int())

    def _bounds_of(self, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """Where each of these sentences begins here, and ends; B, which is none, ends at 0."""
        ends = torch.cat([self.bounds[1:], self.bounds.new_zeros(1)])
        return self.bounds[sentences], ends[sentences]


def room_for(tokens: int) -> int:
    """M of `Unpadded`: a multiple of eight above `tokens`, by at most a sixteenth, or eight."""
    step = 1 << max(3, tokens.bit_length() - 5)
    return (tokens // step + 1) * step


def _places(inside: Tensor, room: int) -> Tensor:
    """The places where `inside` (B * N,) is true, then 0, the first place, as filler -> (room,)."""
    places: Tensor = inside.nonzero_static(size=room, fill_value=0)[:, 0]
    return places


class _Moved(torch.autograd.Function):
    """x (I, E) at the places `there` (...) -> (J, E); from row `ends` on zeros, if it is given.

    Rows that are taken twice have gradients of zero. So the gradient is just moved `back`, with
    zeros from row `back_ends` on. torch would add it up instead: slowly, and in bf16 inexactly.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, there: Tensor, back: Tensor, ends: int | None, back_ends: int | None
    ) -> Tensor:
        ctx.save_for_backward(back)
        ctx.ends = back_ends
        return _taken(x, there, ends)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        (back,) = ctx.saved_tensors
        return _taken(gradient, back, ctx.ends), None, None, None, None


def _taken(x: Tensor, places: Tensor, ends: int | None) -> Tensor:
    taken = x.index_select(0, places.flatten())
    if ends is not None:
        taken[ends:] = 0
    return taken
