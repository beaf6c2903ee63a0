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
    ],
    ids=repr,
)
def test_each_kind_of_running_out_is_known(error: Exception) -> None:
    def work() -> int:
        raise error

    assert attempt(work) is None


def test_another_error_is_not_hidden() -> None:
    def work() -> int:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        attempt(work)
