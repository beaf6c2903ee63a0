"""Packed matrices multiply as the plain ones do, and only those are packed that gain by it."""

import copy
import pickle
from collections.abc import Iterator

import pytest
import torch
from networks import build, every_variant, sentences, targets
from torch import nn

from seq2seq.nn import packed
from seq2seq.nn.packed import PackedLinear, pack

ONEDNN = torch.backends.mkldnn.is_available()
pytestmark = pytest.mark.skipif(not ONEDNN, reason="this torch has no oneDNN")
HALF = pytest.param(
    torch.bfloat16,
    marks=pytest.mark.skipif(
        not (ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported()), reason="no bf16 on this CPU"
    ),
)
"""For networks that are packed in bf16."""


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "WORTH_PACKING", 0)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (80,), (2, 3), (7, 1)])
def test_a_packed_product_is_that_of_the_linear_layer(
    shape: tuple[int, ...], bias: bool, dtype: torch.dtype
) -> None:
    plain = nn.Linear(24, 61, bias=bias, dtype=dtype)
    x = torch.randn(*shape, 24, dtype=dtype)
    torch.testing.assert_close(PackedLinear(plain)(x), plain(x))
    torch.testing.assert_close(PackedLinear(plain)(x.mT.contiguous().mT), plain(x))


def test_a_product_is_in_the_type_of_its_weights_whatever_autocast_says() -> None:
    plain = nn.Linear(24, 61)
    x = torch.randn(5, 24)
    with torch.autocast("cpu", torch.bfloat16):
        found = PackedLinear(plain)(x.bfloat16())
    torch.testing.assert_close(found, plain(x.bfloat16().float()))


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_copies_of_a_packed_layer_are_the_same_bit_by_bit_and_packed(dtype: torch.dtype) -> None:
    layer, x = PackedLinear(nn.Linear(24, 61, dtype=dtype)), torch.randn(5, 24, dtype=dtype)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), layer(x))
        assert other.blocks.is_mkldnn


def test_a_packed_layer_has_no_gradients_and_keeps_its_type() -> None:
    with torch.inference_mode(False), torch.enable_grad():
        plain = nn.Linear(24, 61)
        layer, x = PackedLinear(plain), torch.randn(5, 24)
        assert plain(x).requires_grad
        assert not layer(x).requires_grad
    with pytest.raises(TypeError, match="load it anew"):
        nn.Sequential(layer).to(torch.bfloat16)


@every_variant
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.usefixtures("any_size")
def test_a_packed_network_gives_what_it_gave(
    settings: dict[str, object], dtype: torch.dtype
) -> None:
    (src, lens), tgt = sentences(), targets()
    network = build(settings).to(dtype).eval()
    expected = network.project(network(src, lens, tgt))
    pack(network)
    assert not any(isinstance(each, nn.Linear) for each in network.modules())
    torch.testing.assert_close(network.project(network(src, lens, tgt)), expected)


def test_in_fp32_large_matrices_are_packed_and_small_ones_are_left() -> None:
    network = nn.Sequential(nn.Linear(511, 512), nn.Sequential(nn.Linear(512, 512)))
    pack(network)
    assert isinstance(network[0], nn.Linear)
    assert isinstance(network[1], nn.Sequential)
    assert isinstance(network[1][0], PackedLinear)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.usefixtures("any_size")
def test_other_types_are_left(dtype: torch.dtype) -> None:
    network = nn.Sequential(nn.Linear(4, 4, dtype=dtype))
    pack(network)
    assert isinstance(network[0], nn.Linear)


@pytest.mark.usefixtures("any_size")
def test_what_is_on_another_device_is_left() -> None:
    network = nn.Sequential(nn.Linear(4, 4, device="meta"))
    pack(network)
    assert isinstance(network[0], nn.Linear)


@pytest.mark.usefixtures("any_size")
def test_bf16_is_left_where_the_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    network = nn.Sequential(nn.Linear(4, 4, dtype=torch.bfloat16), nn.Linear(4, 4))
    pack(network)
    assert [type(each) for each in network] == [nn.Linear, PackedLinear]


@pytest.mark.usefixtures("any_size")
def test_without_onednn_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    network = nn.Sequential(nn.Linear(4, 4))
    pack(network)
    assert isinstance(network[0], nn.Linear)
