"""The processor cores that this process may use.

A container that is granted two cores of a machine with sixty-four sees all of them. torch would
start a thread for each, and they would spend what is granted waiting for each other.
"""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch

ROOT = Path("/")
WATCHED = 10.0
"""Seconds, at least, for which threads are watched before anything is said of their cores."""
CROWDED = 0.1
"""Share of its time that each thread waits for a core; without other processes, a hundredth."""


def limit_threads() -> None:
    """Give torch no more threads than cores, unless the environment says how many."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), cores()))


def cores() -> int:
    """Those that the process may run on, or as many as its time is enough for."""
    on_linux = hasattr(os, "sched_getaffinity")
    seen = len(os.sched_getaffinity(0)) if on_linux else os.cpu_count() or 1
    return math.ceil(min(seen, granted()))


class Sharing:
    """Reports once if threads of this process lack a core because other processes use it: all other
    threads wait for them at the end of each operation."""

    def __init__(self) -> None:
        self.told = False
        self._since, self._waited = time.perf_counter(), waited()

    def words(self) -> str | None:
        """What there is to say of the time since it was last looked at, if anything. May be asked
        for each line: files are read only when something may be said."""
        now, threads = time.perf_counter(), torch.get_num_threads()
        if self.told or threads == 1 or now - self._since < WATCHED:
            return None
        wait = waited()
        share = (wait - self._waited) / (now - self._since) / threads
        self._since, self._waited = now, wait
        if share < CROWDED:
            return None
        self.told = True
        return (
            f"other processes use the cores of this one: for {share:.0%} of the time each of its "
            f"{threads} threads had no core, and the others waited for it, which can make it ten "
            f"times slower. Make room, or start it with no more threads than cores are free, e.g. "
            f"with OMP_NUM_THREADS=1 in front of the command"
        )


def waited(root: Path = ROOT) -> float:
    """Seconds that all threads of this process together could have run, but had no core: others
    were there. 0 where the system does not count them (Linux does, see its sched-stats)."""
    return sum(map(_waited, (root / "proc/self/task").glob("*/schedstat"))) / 1e9


def _waited(counts: Path) -> int:
    try:
        return int(counts.read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError):  # a thread that has just ended
        return 0


def granted(root: Path = ROOT) -> float:
    """Seconds of processor time a second that the control groups of this process allow, more than
    0; infinity without any."""
    return min(map(_granted_to, _groups(root)), default=math.inf)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the group of this process and of those around it, in both versions. A
    container's own group is the outermost that it sees, so some of them may not be there."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            outermost = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            group = outermost / name.lstrip("/")
            yield group
            yield from (each for each in group.parents if each.is_relative_to(outermost))


def _granted_to(group: Path) -> float:
    """Of one group, without those around it."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text(encoding="utf-8")
                for name in ("quota", "period")
            )
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # "max", or no such file
        return math.inf
