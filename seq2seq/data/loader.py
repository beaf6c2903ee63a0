"""The loader of training batches, and its workers."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from threading import Thread

from torch.utils.data import DataLoader

from seq2seq.data.batch import Batch
from seq2seq.data.dataset import TrainingBatches
from seq2seq.data.mixture import Mixture
from seq2seq.data.parcel import Parcel


class ResumableLoader(DataLoader[Parcel]):
    """A DataLoader that counts its own epochs and can go on in the middle of one.

    One stream of batches goes through all epochs, so that workers make the first ones of the next
    epoch while the last ones of this are learned from. Lightning saves and restores its
    `state_dict`. The epoch is counted here because Lightning's own count jumps by one after some
    resumes.
    """

    sampler: Mixture
    epoch = 0
    seen = 0
    """Batches of this epoch that were handed out."""
    _begun = False
    """Whether batches were asked for since this loader was made or restored."""
    _rest: Iterator[list[Batch]] = iter(())
    """What is left of the last parcel."""

    def __init__(
        self,
        dataset: TrainingBatches,
        sampler: Mixture,
        workers: int = 0,
        *,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(
            dataset,
            sampler=sampler,
            batch_size=None,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_begin_worker,
            pin_memory=pin_memory,
        )

    def __iter__(self) -> Iterator[list[Batch]]:  # type: ignore[override]
        if self._at_end:
            self.epoch, self.seen = self.epoch + 1, 0
        elif self._begun:  # and left in the middle: the epoch starts over
            self.seen, self._iterator = 0, None
        # Under this name Lightning finds the iterator, ends its workers, and sets it to None.
        if self._iterator is None:
            skipped = self.seen % self.sampler.together
            self.sampler.epoch, self.sampler.start = self.epoch, self.seen - skipped
            self._iterator = super().__iter__()
            self._rest = islice(next(self._iterator).batches(), skipped, None)
        self._begun = True
        while not self._at_end:
            batch = next(self._rest, None)
            if batch is None:
                self._rest = next(self._iterator).batches()
            else:
                self.seen += 1
                yield batch

    def __len__(self) -> int:
        return len(self.sampler)

    @property
    def _at_end(self) -> bool:
        return self.seen >= self.sampler.end

    def state_dict(self) -> dict[str, int]:
        ended, end = self._at_end, self.sampler.end
        return {"epoch": self.epoch + ended, "batches": 0 if ended else self.seen, "end": end}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where the state says, or at the same share of an epoch of another size."""
        place = self.sampler.place(state["batches"], state["end"])
        self.epoch, self.seen = state["epoch"], place
        self._begun, self._iterator = False, None


def _begin_worker(_: int) -> None:
    """Switch the garbage collector off: batches refer to nothing in circles, and it took a third
    of the time of a worker (docs/results.md). SIGTERM and SIGUSR1 may be sent to all processes of a
    run, which still needs batches then: only a SIGTERM from the run itself ends a worker."""
    gc.disable()
    if sys.platform == "linux":  # macOS does not tell who has sent a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
        run = parent_process()
        assert run is not None
        Thread(target=_end_when_told, args=(run,), daemon=True).start()


def _end_when_told(run: BaseProcess) -> None:
    """End when `run` says so, or has ended. The parent of this process may be another one: a fork
    server, which lives as long as this process (Python's default from 3.14 on)."""
    while True:
        told = signal.sigtimedwait([signal.SIGTERM], 1)
        if not run.is_alive() or (told is not None and told.si_pid == run.pid):
            os._exit(0)
