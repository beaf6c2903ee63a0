"""What is chosen for the hardware."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seq2seq.provenance import Hardware
from seq2seq.training import hardware
from seq2seq.training.hardware import precision_for, product_times
from seq2seq.training.recipe import Recipe


@pytest.fixture
def threads() -> Iterator[int]:
    """More than one, until the test ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("bf16", "fp32", "d_model", "chosen"),
    [
        (1.0, 3.0, 128, "bf16-mixed"),
        (2.0, 1.0, 128, "32-true"),
        (1.0, 1.1, 128, "32-true"),
        (1.0, 1.3, 128, "bf16-mixed"),
        (1.0, 3.0, 64, "32-true"),
    ],
)
def test_a_cpu_trains_in_the_type_whose_products_are_faster_if_the_network_is_wide(
    monkeypatch: pytest.MonkeyPatch, bf16: float, fp32: float, d_model: int, chosen: str
) -> None:
    times = {torch.bfloat16: bf16, torch.float32: fp32}
    monkeypatch.setattr(hardware, "product_times", lambda: times)
    assert precision_for("cpu", d_model) == chosen


@pytest.mark.parametrize(("fast", "chosen"), [(True, "bf16-mixed"), (False, "32-true")])
def test_a_gpu_trains_in_bf16_where_it_has_products_of_it(
    monkeypatch: pytest.MonkeyPatch, fast: bool, chosen: str
) -> None:
    """torch emulates them on others."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: fast or including_emulation,
    )
    assert precision_for("auto", 64) == chosen


def test_a_run_keeps_its_precision_on_the_same_cpu_however_busy_that_is_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = {torch.bfloat16: 2.0, torch.float32: 1.0}
    monkeypatch.setattr(hardware, "product_times", lambda: times)
    other, same = (
        Hardware(device=device, processes=1, precision="bf16-mixed", attention="folded")
        for device in ("another", hardware.cpu_name())
    )
    first = same | {"precision": "32-true"}
    assert precision_for("cpu", 128, [first, same, other]) == "bf16-mixed"
    assert precision_for("cpu", 128, [other]) == "32-true"


def test_a_cpu_has_the_name_that_linux_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "processor\t: 0\nmodel\t\t: 6\nmodel name\t: Quick 9: 3 GHz\n\nprocessor\t: 1\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert hardware.cpu_name() == "Quick 9: 3 GHz"


@pytest.mark.parametrize(
    ("processes", "count", "recipe", "said"),
    [
        (1, 1, Recipe(), "on cpu, 1 thread: 32-true, folded attention"),
        (
            2,
            3,
            Recipe(compile=True),
            "on cpu, 2 processes, 3 threads: 32-true, folded attention, compiled",
        ),
    ],
)
def test_what_a_run_uses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, processes: int, count: int, recipe: Recipe, said: str
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: count)
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    trainer: Any = SimpleNamespace(strategy=strategy, world_size=processes, precision="32-true")
    assert hardware.hardware_line(trainer, recipe) == said
    monkeypatch.setattr(hardware, "has_tcmalloc", lambda: True)
    assert hardware.hardware_line(trainer, recipe) == f"{said}, tcmalloc"


def test_products_are_timed_and_the_threads_are_as_before(threads: int) -> None:
    times = product_times()
    assert set(times) == {torch.bfloat16, torch.float32}
    assert all(0 < each < 10 for each in times.values())
    assert torch.get_num_threads() == threads


def test_a_slow_spell_at_the_start_does_not_decide_the_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0

    class Matrix:
        """Its products are slow for a tenth of a second; then fp32 takes three times as long."""

        def __init__(self, *shape: int, dtype: torch.dtype) -> None:
            self.dtype = dtype

        def __matmul__(self, other: "Matrix") -> None:
            nonlocal now
            now += 0.02 if now < 0.1 else 0.001 if self.dtype is torch.bfloat16 else 0.003

    monkeypatch.setattr(torch, "ones", Matrix)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert precision_for("cpu", 128) == "bf16-mixed"
