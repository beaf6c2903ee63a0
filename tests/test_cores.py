"""How many cores a process may use, where control groups grant it less than it sees."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from crowded_cores import crowd

from seq2seq import cores as module
from seq2seq.cores import Sharing, cores, granted, limit_threads, waited


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Until the test ends, where six cores are seen, as with two threads on some of them."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/pod/own", {"pod/own/cpu.max": "max 100000", "pod/cpu.max": "300000 100000"}, 3),
        ("0::/pod/own", {"pod/own/cpu.max": "50000 100000", "pod/cpu.max": "300000 100000"}, 0.5),
        ("0::/of/the/host", {"cpu.max": "200000 100000"}, 2),
        (
            "3:cpuset:/x\n2:cpu,cpuacct:/docker/own\n0::/",
            {
                "cpu/cpu.cfs_quota_us": "150000\n",
                "cpu/cpu.cfs_period_us": "50000\n",
                "cpu/x/cpu.cfs_quota_us": "50000\n",  # of other processes
                "cpu/x/cpu.cfs_period_us": "50000\n",
            },
            3,
        ),
        (
            "1:cpu:/own",
            {"cpu/own/cpu.cfs_quota_us": "-1\n", "cpu/own/cpu.cfs_period_us": "100000\n"},
            math.inf,
        ),
        ("3:cpuset:/\n", {}, math.inf),
        (None, {}, math.inf),
    ],
    ids=[
        "a container",
        "without a bound",
        "the group around it",
        "its own of two",
        "named as on the host",
        "a container, version 1",
        "without a bound, version 1",
        "no group of processor time",
        "no groups",
    ],
)
def test_what_is_granted_is_the_least_of_the_groups_around_a_process(
    tmp_path: Path, group: str | None, files: dict[str, str], expected: float
) -> None:
    if group is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(group)
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert granted(tmp_path) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.5, 1), (1.5, 2), (5.0, 5), (8.0, 6), (math.inf, 6)]
)
def test_threads_are_no_more_than_there_were_or_than_what_is_granted_has_work_for(
    four_threads: None, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    monkeypatch.setattr(module, "granted", lambda: seconds)
    assert cores() == expected
    limit_threads()
    assert torch.get_num_threads() == min(4, expected)


def test_threads_stay_as_the_environment_says(
    four_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "granted", lambda: 1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    limit_threads()
    assert torch.get_num_threads() == 4


def test_the_waits_of_all_threads_are_added_up(tmp_path: Path) -> None:
    for thread, counts in {"11": "70 1500000000 3\n", "12": "90 250000000 4\n", "13": ""}.items():
        (tmp_path / "proc/self/task" / thread).mkdir(parents=True)
        (tmp_path / "proc/self/task" / thread / "schedstat").write_text(counts)
    (tmp_path / "proc/self/task/14").mkdir()  # one that has just ended
    assert waited(tmp_path) == 1.75
    assert waited(tmp_path / "another system") == 0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux with sched-stats")
def test_a_process_that_shares_its_core_waits() -> None:
    allowed, core = os.sched_getaffinity(0), min(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            for each in (other.pid, 0):
                os.sched_setaffinity(each, {core})
            before, begun = waited(), time.process_time()
            while time.process_time() < begun + 0.5:
                pass
            assert waited() - before > 0.1
        finally:
            os.sched_setaffinity(0, allowed)
            other.kill()


@pytest.mark.parametrize(
    ("waits", "threads", "told"),
    [
        (1.5, 2, "75% of the time each of its 2 "),
        (0.81, 8, "10% "),
        (0.79, 8, None),
        (0.9, 1, None),
    ],
    ids=["crowded", "just so", "hardly", "a single thread waits for no other one"],
)
def test_threads_that_have_to_wait_for_cores_are_told_once(
    monkeypatch: pytest.MonkeyPatch, waits: float, threads: int, told: str | None
) -> None:
    crowd(monkeypatch, waits, threads)
    sharing = Sharing()
    words = [sharing.words() for _ in range(6)]
    said = [each for each in words if each is not None]
    assert len(said) == (told is not None)
    assert told is None or told in said[0]
    assert words[0] is None  # so soon that it may be chance


def test_what_is_told_of_cores_is_of_the_time_since_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd(monkeypatch, 0.0)
    sharing = Sharing()
    assert [sharing.words() for _ in range(4)] == [None] * 4
    monkeypatch.setattr(module, "waited", lambda: 101.0)
    assert [sharing.words() is None for _ in range(2)] == [True, False]
