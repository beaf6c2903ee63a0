"""What is chosen for the hardware, where the settings leave it open."""

import math
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from seq2seq.allocator import has_tcmalloc
from seq2seq.nn.attention import form_on
from seq2seq.provenance import Hardware
from seq2seq.training.recipe import Recipe

NARROW = 128
"""Below this width bf16 gains nothing on a CPU: with d_model 64 and AMX, fast products and their
casts take longer than products in fp32 (docs/results.md)."""


def precision_for(accelerator: Any, d_model: int, earlier: Sequence[Hardware] = ()) -> str:
    """bf16-mixed where the hardware multiplies bf16 faster than fp32, and products are most of it.

    A CPU is timed, as its instructions do not tell: of two CPUs with the same bf16 instructions,
    one is three times as fast in bf16 as in fp32, the other half as fast, because it was made for
    AMX, which a virtual machine may hide. A busy CPU gives misleading times, so a run that goes on
    keeps what it had on the same CPU; `earlier` is what its sessions so far were trained on.
    """
    same = [each["precision"] for each in earlier if each["device"] == cpu_name()]
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif same:
        return same[-1]
    elif d_model < NARROW:
        fast = False
    else:
        times = product_times()
        fast = 1.2 * times[torch.bfloat16] < times[torch.float32]
    return "bf16-mixed" if fast else "32-true"


def product_times() -> dict[torch.dtype, float]:
    """Seconds for a product of two 512 x 512 matrices on the CPU in bf16 and in fp32, the shortest
    of 20. They take turns: what slows the machine for a while, or is loaded first, slows both. On
    one thread: several would wait for each other where the machine is busy."""
    threads = torch.get_num_threads()
    matrices = [torch.ones(512, 512, dtype=dtype) for dtype in (torch.bfloat16, torch.float32)]
    times = {matrix.dtype: math.inf for matrix in matrices}
    torch.set_num_threads(1)
    for _ in range(20):
        for matrix in matrices:
            begin = time.perf_counter()
            matrix @ matrix
            times[matrix.dtype] = min(times[matrix.dtype], time.perf_counter() - begin)
    torch.set_num_threads(threads)
    return times


def hardware_line(trainer: pl.Trainer, recipe: Recipe) -> str:
    """What a run uses, in one line: "on cpu, 2 threads: bf16-mixed, folded attention"."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    count = f"{trainer.world_size} processes, " if trainer.world_size > 1 else ""
    threads = torch.get_num_threads()
    on_cpu = device.type == "cpu"
    place = f"{threads} thread{'s'[: threads > 1]}" if on_cpu else f"{device}"
    compiled = ", compiled" if recipe.compile else ""
    form = form_on(device, recipe.attention)
    memory = ", tcmalloc" if on_cpu and has_tcmalloc() else ""
    return f"on {name}, {count}{place}: {trainer.precision}, {form} attention{compiled}{memory}"


def hardware(trainer: pl.Trainer, recipe: Recipe) -> Hardware:
    """What a run uses, as a fact."""
    device = trainer.strategy.root_device
    found = Hardware(
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        processes=trainer.world_size,
        precision=str(trainer.precision),
        attention=form_on(device, recipe.attention),
    )
    if device.type == "cpu":
        found["threads"] = torch.get_num_threads()
    return found


def cpu_name() -> str:
    """As Linux tells it; elsewhere the name of the architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
