"""What an application decides about memory, in processes of their own."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.allocator import HANDLES, KERNELS, TCMALLOC

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's")

PRODUCTS = """
import sys
import torch
from seq2seq.allocator import keep_freed_memory
keep_freed_memory()
x = torch.ones(256, 64, dtype=torch.bfloat16)
last = 8 + int(sys.argv[1])
for rows in [*range(9, last + 1), last, 9]:
    x[:rows] @ x[:64]
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


def said(program: str, *arguments: str, **environment: str) -> str:
    outside = {k: v for k, v in os.environ.items() if k not in (KERNELS, HANDLES)}
    command, variables = [sys.executable, "-c", program, *arguments], {**outside, **environment}
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return done.stdout


def skip_without_tcmalloc() -> None:
    try:
        ctypes.CDLL(TCMALLOC)
    except OSError:
        pytest.skip("this system has none")


def first_and_last_of(made: int, **environment: str) -> tuple[str, str]:
    """Whether the first of these kernels is still there once all are made, and the last."""
    lines = said(PRODUCTS, str(made), ONEDNN_VERBOSE="profile_create", **environment).splitlines()
    found = [
        line.split(",")[3].removeprefix("create:cache_") for line in lines if ",create" in line
    ]
    if not found:
        pytest.skip("this CPU multiplies bf16 without oneDNN")
    assert found[:-2] == ["miss"] * made
    return found[-1], found[-2]


def test_of_forty_kernels_the_first_is_gone_unless_told_otherwise() -> None:
    assert first_and_last_of(40) == ("miss", "hit")
    assert first_and_last_of(40, **{KERNELS: "1024"}) == ("hit", "hit")


def test_with_tcmalloc_it_is_gone_of_two_hundred() -> None:
    skip_without_tcmalloc()
    assert first_and_last_of(40, LD_PRELOAD=TCMALLOC) == ("hit", "hit")
    assert first_and_last_of(200, LD_PRELOAD=TCMALLOC) == ("miss", "hit")


def test_of_two_hundred_kernels_most_are_freed_unless_told_otherwise() -> None:
    kept, all_of_them = said(HELD), said(HELD, **{KERNELS: "1024", HANDLES: "1024"})
    if not kept:
        pytest.skip("this C library does not count")
    if int(all_of_them) < 1_000_000:
        pytest.skip("this CPU multiplies bf16 without oneDNN")
    assert int(kept) < int(all_of_them) / 3


PROGRAM = """
import os, sys
from seq2seq import allocator
allocator.TCMALLOC, allocator.GPUS = os.environ["STAND_IN"], (os.environ.get("GPU", "/none"),)
print(os.getpid(), sys.argv[1:], os.environ.get("LD_PRELOAD"),
      os.environ.get("TCMALLOC_RELEASE_RATE"), flush=True)
allocator.begin_anew()
"""


def began(folder: Path, *options: str, **environment: str) -> list[tuple[str, ...]]:
    """Process, arguments, LD_PRELOAD and rate of each beginning of a program that begins anew with
    the mathematical library, which every system has."""
    outside = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    variables = {**outside, "STAND_IN": "libm.so.6", **environment}
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    program = options or [str(folder / "program.py")]
    command = [sys.executable, "-X", "utf8", *program, "a b", "--c"]
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return [
        (process, arguments, *rest.split())
        for line in done.stdout.splitlines()
        for process, arguments, rest in re.findall(r"(\d+) (\[.*\]) (.*)", line)
    ]


def test_a_program_begins_anew_once_in_the_same_process_with_its_arguments(tmp_path: Path) -> None:
    first, second = began(tmp_path)
    assert first[1] == "['a b', '--c']"
    assert (first[2:], second[2:]) == (("None", "None"), ("libm.so.6", "0"))
    assert second[:2] == first[:2]


def test_what_the_environment_says_of_tcmalloc_has_precedence(tmp_path: Path) -> None:
    assert [each[3] for each in began(tmp_path, TCMALLOC_RELEASE_RATE="5")] == ["5", "5"]


@pytest.mark.parametrize(
    "environment",
    [{"LD_PRELOAD": ""}, {"STAND_IN": "libnone.so.4"}, {"GPU": "/dev/null"}],
    ids=["decided by the user", "not there", "a GPU"],
)
def test_a_program_goes_on_as_it_is_where_tcmalloc_is_not_wanted(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    assert len(began(tmp_path, **environment)) == 1


def test_a_program_that_was_typed_goes_on_as_it_is(tmp_path: Path) -> None:
    assert len(began(tmp_path, "-c", PROGRAM)) == 1


def test_a_command_begins_anew_and_a_call_of_main_does_not() -> None:
    program = (
        "import sys; from seq2seq import cli; cli.begin_anew = lambda: print('anew');"
        "sys.argv = ['seq2seq', '--version']; cli.main(['--version']); print('then'); cli.main()"
    )
    version, then, anew, same = said(program).splitlines()
    assert (then, anew) == ("then", "anew")
    assert version == same


def test_a_process_tells_whether_it_has_tcmalloc() -> None:
    program = "from seq2seq.allocator import has_tcmalloc; print(has_tcmalloc())"
    assert said(program) == "False\n"
    skip_without_tcmalloc()
    assert said(program, LD_PRELOAD=TCMALLOC) == "True\n"
