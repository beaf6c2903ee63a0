"""The kernels for joined sentences compute what their definition says: on a GPU, or interpreted."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple
from unittest.mock import MagicMock, Mock

import pytest
import torch
from torch import Tensor

from seq2seq.nn.attention import joined_attention
from seq2seq.nn.layout import Joined
from seq2seq.nn.masks import Spans

pytest.importorskip("triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BEST = torch.bfloat16 if torch.cuda.is_available() else torch.float32  # the interpreter has no bf16
H = 2
BOUND = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in exp2:RuntimeWarning")

SIDES = [  # lengths of sources and of targets; None: of itself, causal
    ([5, 9, 1, 70, 3], None),
    ([100, 1], None),
    ([5, 9, 1, 40, 3], [7, 2, 30, 4, 60]),
    ([1, 1, 1], [1, 90, 1]),
    ([33, 40], [64, 33]),
    ([0, 8, 0], [3, 8, 1]),
]
every_shape = pytest.mark.parametrize(("lens", "key_lens"), SIDES)


class Case(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    spans: Spans

    @classmethod
    def of(
        cls, lens: list[int], key_lens: list[int] | None, width: int, dtype: torch.dtype
    ) -> "Case":
        torch.manual_seed(0)
        queries, keys = (
            Joined.of(torch.tensor(each, device=DEVICE), max(each), sum(each))
            for each in (lens, key_lens or lens)
        )
        valid = torch.tensor(key_lens) if key_lens else torch.ones(len(lens), max(lens))
        spans = queries.visible(valid, keys)
        assert isinstance(spans, Spans)
        sizes = [(H, len(side.places), width) for side in (queries, keys, keys)]
        query, key, value = (
            torch.randn(size, device=DEVICE).to(dtype).transpose(0, 1).requires_grad_()
            for size in sizes
        )
        return cls(query, key, value, spans)

    @property
    def seen(self) -> Tensor:
        """(M, K)."""
        key = torch.arange(len(self.key), device=DEVICE)
        return (key >= self.spans.firsts[:, None]) & (key < self.spans.ends[:, None])


def by_definition(case: Case, kept: Tensor | float) -> tuple[Tensor, ...]:
    """In double precision, with weights times `kept`: the output, and gradients of a loss."""
    query, key, value = (x.detach().double().requires_grad_() for x in case[:3])
    scores = torch.einsum("qhe,khe->hqk", query, key) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~case.seen, -torch.inf).softmax(dim=-1).nan_to_num(0)
    output = torch.einsum("hqk,khe->qhe", weights * kept, value)
    return output, *torch.autograd.grad(output, (query, key, value), slope(output))


def slope(output: Tensor) -> Tensor:
    places = torch.arange(output.numel(), device=output.device)
    places = places.view(output.transpose(0, 1).shape).transpose(0, 1)
    return (places % 7 - 3).to(output.dtype)


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    found, expected = found.detach().double(), expected.detach()
    return float((found - expected).norm() / expected.norm())


@every_shape
@pytest.mark.parametrize(("width", "dtype"), [(8, BEST), (64, BEST), (48, torch.float16)])
def test_output_and_gradients_are_those_of_the_definition(
    lens: list[int], key_lens: list[int] | None, width: int, dtype: torch.dtype
) -> None:
    case = Case.of(lens, key_lens, width, dtype)
    output = joined_attention(*case)
    found = output, *torch.autograd.grad(output, case[:3], slope(output))
    seeing, looked_at = case.seen.any(dim=1), case.seen.any(dim=0)
    concerned = seeing, seeing, looked_at, looked_at
    for each, expected, some in zip(found, by_definition(case, 1.0), concerned, strict=True):
        assert each.dtype == dtype
        assert error(each, expected) < BOUND[dtype]
        assert not each[~some].any()


@every_shape
@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_weights_are_dropped_in_both_directions_alike(
    lens: list[int], key_lens: list[int] | None, rate: float
) -> None:
    case, seeds = Case.of(lens, key_lens, 128, BEST), torch.tensor([7], device=DEVICE)

    from seq2seq.nn.joined import joined

    def with_seeds(value: Tensor) -> Tensor:
        output: Tensor = joined(case.query, case.key, value, *case.spans, seeds, rate)[0]
        return output

    keys = len(case.key)
    one_hot = torch.eye(keys, 128, device=DEVICE, dtype=BEST)[:, None].expand(-1, H, -1)
    weights = with_seeds(one_hot)[..., :keys].transpose(0, 1)  # (H, M, K)
    kept = (weights != 0).double() / (1 - rate)
    seen = case.seen.expand_as(kept)
    share = (weights[seen] != 0).double()
    deviation = (rate * (1 - rate) / len(share)) ** 0.5
    assert share.mean().item() == pytest.approx(1 - rate, abs=4 * deviation)
    assert not torch.equal(kept[0], kept[1]) or len(share) < 20
    output = with_seeds(case.value)
    found = output, *torch.autograd.grad(output, case[:3], slope(output))
    for each, expected in zip(found, by_definition(case, kept), strict=True):
        assert error(each, expected) < 5 * BOUND[BEST]  # a row of one key has nearly no gradient


def test_each_call_drops_other_weights() -> None:
    case = Case.of([30, 20], None, 16, BEST)
    first, again = (joined_attention(*case, 0.5) for _ in range(2))
    assert not torch.equal(first, again)
    torch.manual_seed(1)
    one = joined_attention(*case, 0.5)
    torch.manual_seed(1)
    assert torch.equal(joined_attention(*case, 0.5), one)


def test_nothing_seen_is_zero() -> None:
    case = Case.of([3, 2], [0, 4], 16, BEST)
    output = joined_attention(*case)
    assert not output[:3].any()
    assert output[3:5].any()
    assert not output[5:].any()


def test_kernels_start_on_the_device_of_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton starts them on the current one."""
    from seq2seq.nn import joined_kernels

    current, started = list[Tensor](), list[bool]()

    @contextmanager
    def device_of(tensor: Tensor) -> Iterator[None]:
        current.append(tensor)
        yield
        current.pop()

    case = Case.of([3, 2], None, 16, BEST)
    kernel = MagicMock()
    kernel.__getitem__().side_effect = lambda query, *_, **__: started.append(query is current[-1])
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    for name in ("forward", "backward_queries", "backward_keys"):
        monkeypatch.setattr(joined_kernels, name, kernel)
    joined_attention(*case).sum().backward()
    assert started == [True] * 3


def test_where_triton_does_not_run_its_reason_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from seq2seq.nn import joined

    asked = Mock(side_effect=RuntimeError("Failed to find C compiler"))
    monkeypatch.setattr(joined, "driver", Mock(active=Mock(get_current_target=asked)))
    joined.triton_runs.cache_clear()
    with pytest.warns(UserWarning, match="is slower, since Triton .*: Failed to find C compiler"):
        assert not joined.triton_runs()
    assert not joined.triton_runs()
    joined.triton_runs.cache_clear()


def shared_memory(width: int) -> list[int]:
    """Bytes that blocks of each kernel need on a GPU like the RTX 3090."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from seq2seq.nn import joined_kernels as kernels
    from seq2seq.nn.joined import BLOCK, STEP

    kinds = dict.fromkeys(("firsts", "ends", "seen_firsts", "seen_ends"), "*i32")
    kinds |= dict.fromkeys(("log_sums", "deltas"), "*fp32") | {"seeds": "*i64"}
    kinds |= {"queries": "i32", "keys": "i32", "scale": "fp32", "rate": "fp32"}

    def needed(kernel: Any, rows: int, columns: int) -> int:
        names, padded = kernel.arg_names, triton.next_power_of_2(width)
        sizes = {"HEADS": H, "E": width, "WIDTH": padded, "ROWS": rows, "COLUMNS": columns}
        constants = sizes | {"DROPS": True}
        all_kinds = kinds | dict.fromkeys(constants, "constexpr")
        source = ASTSource(
            kernel,
            {name: all_kinds.get(name, "*bf16") for name in names},
            {(names.index(name),): value for name, value in constants.items()},
        )
        made = triton.compile(source, GPUTarget("cuda", 86, 32), {"num_stages": 2})
        return int(made.metadata.shared)

    return [
        needed(kernels.forward, BLOCK, STEP),
        needed(kernels.backward_queries, BLOCK, STEP),
        needed(kernels.backward_keys, STEP, BLOCK),
    ]


@pytest.mark.slow
def test_a_small_gpu_has_memory_for_the_widest_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with ProcessPoolExecutor(1, get_context("spawn")) as another:  # where nothing is interpreted
        assert max(another.submit(shared_memory, 128).result()) <= 99 * 1024
