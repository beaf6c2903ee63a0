"""What an application decides about memory, in processes of their own."""

import os
import subprocess
import sys

import pytest

from seq2seq.allocator import CACHES, KERNELS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's")

PRODUCTS = """
import torch
from seq2seq.allocator import keep_freed_memory
keep_freed_memory()
x = torch.ones(64, 64, dtype=torch.bfloat16)
for rows in [*range(9, 49), 48, 9]:
    x[:rows] @ x
"""

HELD = """
import ctypes
import torch
from seq2seq.allocator import keep_freed_memory

class Counts(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL("libc.so.6")
if hasattr(libc, "mallinfo2"):
    libc.mallinfo2.restype = Counts
    keep_freed_memory()
    x = torch.ones(256, 64, dtype=torch.bfloat16)
    x[:8] @ x[:64]
    before = libc.mallinfo2().uordblks
    for rows in range(9, 209):
        x[:rows] @ x[:64]
    print(libc.mallinfo2().uordblks - before)
"""


def said(program: str, **environment: str) -> str:
    outside = {name: value for name, value in os.environ.items() if name not in CACHES}
    command, variables = [sys.executable, "-c", program], {**outside, **environment}
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize(("capacity", "first"), [("32", "miss"), ("1024", "hit")])
def test_of_forty_kernels_the_first_is_gone_unless_told_otherwise(
    capacity: str, first: str
) -> None:
    told = {} if capacity == KERNELS else {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": capacity}
    lines = said(PRODUCTS, ONEDNN_VERBOSE="profile_create", **told).splitlines()
    found = [
        line.split(",")[3].removeprefix("create:cache_") for line in lines if ",create" in line
    ]
    if not found:
        pytest.skip("this CPU multiplies bf16 without oneDNN")
    assert found == ["miss"] * 40 + ["hit", first]


def test_of_two_hundred_kernels_most_are_freed_unless_told_otherwise() -> None:
    kept, all_of_them = said(HELD), said(HELD, **dict.fromkeys(CACHES, "1024"))
    if not kept:
        pytest.skip("this C library does not count")
    if int(all_of_them) < 1_000_000:
        pytest.skip("this CPU multiplies bf16 without oneDNN")
    assert int(kept) < int(all_of_them) / 3
