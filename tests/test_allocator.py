"""What an application decides about memory, in processes of their own."""

import os
import subprocess
import sys

import pytest

from seq2seq.allocator import KERNELS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's")

PRODUCTS = """
import torch
from seq2seq.allocator import keep_freed_memory
keep_freed_memory()
x = torch.ones(64, 64, dtype=torch.bfloat16)
for rows in [*range(9, 49), 48, 9]:
    x[:rows] @ x
"""


def said(program: str, **environment: str) -> str:
    outside = {name: value for name, value in os.environ.items() if "ONEDNN" not in name}
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
