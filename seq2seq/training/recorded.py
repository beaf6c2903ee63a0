"""Training steps recorded as CUDA graphs: the host starts one thing, not a thousand kernels.

A graph repeats its kernels with the same shapes at the same addresses. So batches are brought to a
few shapes, with rows of no tokens and more vectors of no token, which cost little where sentences
are joined; and what a graph reads is copied to where it was when it was recorded.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.data.batch import Batch, round_up
from seq2seq.memory import attempt

STEPS, LEAST_STEP = 16, 256
"""Sizes, in tokens, between one power of two and the next; and the least distance of two sizes."""

Replay = Callable[[], object]


def shaped(batch: Batch, longest: int) -> Batch:
    """The same in one of few shapes: its last rows may have no tokens, and it counts more tokens
    than it has. Padding lengthens rows to `longest` at most."""
    rows = stepped(len(batch.src), 1, 8)

    def filled(x: Tensor) -> Tensor:
        width = max(x.shape[1], min(stepped(x.shape[1], 1, 8), longest))
        return F.pad(x, (0, width - x.shape[1], 0, rows - len(x)))

    def lens(x: Tensor) -> Tensor:
        return F.pad(x, (0, rows - len(x)))

    return Batch(
        filled(batch.src),
        lens(batch.src_lens),
        filled(batch.tgt_in),
        filled(batch.tgt_out),
        lens(batch.tgt_lens),
        *(
            stepped(count, STEPS, LEAST_STEP) - 1
            for count in (batch.src_tokens + 1, batch.tokens + 1)
        ),
    )


def stepped(size: int, steps: int, least: int) -> int:
    """`size` rounded up, to `steps` sizes between two powers of two, `least` apart at least."""
    return round_up(size, max(least, (1 << size.bit_length() - 1) // steps))


class Recorded:
    """Repeats what was recorded of batches of the same shape.

    `work` adds the gradients of a batch to those that the parameters have, and gives its loss,
    detached. When a shape comes for the second time, `record` records the work, without doing it,
    and returns what replays it.
    """

    def __init__(self, work: Callable[[Batch], Tensor], record: Callable[[Replay], Replay]) -> None:
        self._work, self._record = work, record
        self._seen = set[tuple[int, ...]]()
        self._recordings: dict[tuple[int, ...], tuple[Batch, Replay, Tensor]] = {}
        self._full = False

    def learn(self, batch: Batch) -> Tensor | None:
        """The loss of a batch from `shaped`, whose gradients were added; or None, and nothing was
        done: its shape is new, or there is no memory to make or to start a recording."""
        key = (*batch.src.shape, batch.tgt_in.shape[1], batch.src_tokens, batch.tokens)
        if key not in self._seen:
            self._seen.add(key)
            return None
        if key not in self._recordings and not self._full:
            made = attempt(partial(self._recording, batch))
            if made is None:
                self._full = True
            else:
                self._recordings[key] = made
        if key not in self._recordings:
            return None
        loss = attempt(partial(_repeated, batch, *self._recordings[key]))
        if loss is None:  # a graph needs some memory of its own when it is first started
            self.forget()
        return loss

    def forget(self) -> bool:
        """Free the memory of all recordings, and make no more -> whether there were any."""
        there, self._full = bool(self._recordings), True
        self._recordings.clear()
        return there

    def _recording(self, batch: Batch) -> tuple[Batch, Replay, Tensor]:
        own = batch.map_tensors(torch.clone, batch.src_tokens, batch.tokens)
        loss = torch.zeros((), device=batch.src.device)
        return own, self._record(lambda: loss.copy_(self._work(own))), loss


def _repeated(batch: Batch, own: Batch, replay: Replay, loss: Tensor) -> Tensor:
    """The loss of a batch, from a recording made of `own`. All memory is asked for before it is
    repeated, so an error leaves no gradients."""
    for there, new in zip(own.tensors, batch.tensors, strict=True):
        there.copy_(new)
    copy = torch.empty_like(loss)
    replay()
    return copy.copy_(loss)


class CudaGraphs:
    """Recordings of work with a network, all in one pool of memory.

    They read parameters, gradients and tables at the addresses where these were when recorded, so a
    table that is replaced by a larger one is kept.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network, self._tables = network, set[Tensor]()
        self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def record(self, work: Replay) -> Replay:
        self._tables.update(self._network.buffers())
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as the one that pins batches, may allocate memory meanwhile.
        recording = torch.cuda.graph(
            graph, self._pool, self._stream, capture_error_mode="thread_local"
        )
        # If memory runs out for the graph itself, `recording` does not restore the current stream;
        # then threads that search, on the usual stream, would not wait for what is learned.
        with torch.cuda.stream(torch.cuda.current_stream()), recording:
            work()
        return graph.replay
