"""Running out of memory, for real where a computer without a GPU can."""

import pytest
import torch

from seq2seq.memory import attempt


def test_what_fits_is_done() -> None:
    assert attempt(lambda: 7) == 7


def test_a_tensor_of_a_petabyte_is_an_attempt_that_failed() -> None:
    assert attempt(lambda: torch.empty(1 << 50, dtype=torch.int8)) is None


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("could not create a primitive"),
        RuntimeError("unable to mmap 9 bytes from file <a>: Cannot allocate memory (12)"),
    ],
    ids=repr,
)
def test_each_kind_of_running_out_is_known(error: Exception) -> None:
    def work() -> int:
        raise error

    assert attempt(work) is None


@pytest.mark.parametrize(
    "said",
    [
        "mat1 and mat2 shapes cannot be multiplied",
        "could not create a primitive descriptor for the matmul primitive",
    ],
)
def test_another_error_is_not_hidden(said: str) -> None:
    def work() -> int:
        raise RuntimeError(said)

    with pytest.raises(RuntimeError, match=said):
        attempt(work)
