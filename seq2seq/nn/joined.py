"""Attention of joined sentences as an operator of torch, which autograd and torch.compile know.

Importing this needs Triton, which compiles its kernels.
"""

import warnings
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime import driver

from seq2seq.nn import joined_kernels as kernels

BLOCK, STEP = 64, 32
"""Queries in a block, and keys that they look at in one step. For the gradients of keys and values
the other way round: keys in a block, and queries of one step that look at them."""


@cache
def triton_runs() -> bool:
    """Whether Triton can compile the code that starts its kernels; if not, a warning says why."""
    try:
        driver.active.get_current_target()
    except Exception as error:  # of any kind: Triton has none of its own for this
        warnings.warn(
            f"attention also computes padding, which is slower, since Triton cannot compile (it "
            f"needs a C compiler and the headers of Python): {error}",
            stacklevel=2,
        )
        return False
    return True


@torch.library.custom_op("seq2seq::joined_attention", mutates_args=())
def joined(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    firsts: Tensor,
    ends: Tensor,
    seen_firsts: Tensor,
    seen_ends: Tensor,
    seeds: Tensor | None,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """query (M, H, E), key and value (K, H, E), then `Spans` -> mixed values (M, H, E) and, for the
    gradient, log2 of the sum of exponentials that each query's weights are divided by (H, M).

    If `seeds` (1,) are given, weights are dropped at this rate. `seen_firsts` and `seen_ends`, the
    spans of keys, are needed by the gradient only.
    """
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    queries, heads, _ = query.shape
    output = torch.empty_like(query)
    log_sums = query.new_empty(heads, queries, dtype=torch.float32)
    with torch.cuda.device_of(query):  # Triton asks for the current one
        kernels.forward[(heads, triton.cdiv(queries, BLOCK))](
            query, key, value, output, log_sums, firsts, ends, seeds,
            **_sizes(query, key, rate, seeds), ROWS=BLOCK, COLUMNS=STEP,
        )  # fmt: skip
    return output, log_sums


@joined.register_fake
def _(query: Tensor, *inputs: object) -> tuple[Tensor, Tensor]:
    queries, heads, _ = query.shape
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    return output, query.new_empty(heads, queries, dtype=torch.float32)


@torch.library.custom_op("seq2seq::joined_attention_backward", mutates_args=())
def _joined_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_sums: Tensor,
    firsts: Tensor,
    ends: Tensor,
    seen_firsts: Tensor,
    seen_ends: Tensor,
    seeds: Tensor | None,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    gradient, query = gradient.contiguous(), query.contiguous()
    key, value = key.contiguous(), value.contiguous()
    deltas = torch.empty_like(log_sums)
    query_gradient, key_gradient, value_gradient = map(torch.empty_like, (query, key, value))
    sizes, heads = _sizes(query, key, rate, seeds), query.shape[1]
    with torch.cuda.device_of(query):
        kernels.backward_queries[(heads, triton.cdiv(len(query), BLOCK))](
            query, key, value, output, gradient, query_gradient, log_sums, deltas, firsts, ends,
            seeds, **sizes, ROWS=BLOCK, COLUMNS=STEP,
        )  # fmt: skip
        kernels.backward_keys[(heads, triton.cdiv(len(key), BLOCK))](
            query, key, value, gradient, key_gradient, value_gradient, log_sums, deltas, firsts,
            ends, seen_firsts, seen_ends, seeds, **sizes, ROWS=STEP, COLUMNS=BLOCK,
        )  # fmt: skip
    return query_gradient, key_gradient, value_gradient


@_joined_backward.register_fake
def _(gradient: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first, second, third = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:3]
    )
    return first, second, third


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, *where, seeds, rate = inputs
    ctx.save_for_backward(query, key, value, *output, *where, seeds)
    ctx.rate = rate
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor | None, ...]:
    found: tuple[Tensor, ...] = _joined_backward(gradient, *ctx.saved_tensors, ctx.rate)
    return *found, *[None] * 6


joined.register_autograd(_gradients, setup_context=_remember)


def _sizes(query: Tensor, key: Tensor, rate: float, seeds: Tensor | None) -> dict[str, Any]:
    """The arguments that all kernels share."""
    queries, heads, width = query.shape
    return {
        "queries": queries,
        "keys": len(key),
        "scale": width**-0.5,
        "rate": rate,
        "HEADS": heads,
        "E": width,
        "WIDTH": max(16, triton.next_power_of_2(width)),
        "DROPS": seeds is not None,
        "num_stages": 2,
        "enable_fp_fusion": True,  # Triton 3.9 warns if it is not given
    }
