"""Every form of attention against loops, torch's own module and the numbers of the textbook."""

import pytest
import torch
from networks import every_form
from oracle import VALID_LENS, B, E, H, K, Q, copy_attention, fill_vectors, head_by_head
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.config import AttentionForm
from seq2seq.nn.attention import (
    FORMS,
    MultiHeadAttention,
    attend,
    avoid_cudnn_attention,
    dot_product_attention,
    form_on,
    takes_joined,
)
from seq2seq.nn.layout import Padded
from seq2seq.nn.masks import may_attend

D = 10

every_mask = pytest.mark.parametrize("valid_lens", VALID_LENS.values(), ids=VALID_LENS.keys())


def heads_of() -> tuple[Tensor, Tensor, Tensor]:
    """Random query (B, H, Q, E), key and value (B, H, K, E)."""
    return torch.randn(B, H, Q, E), torch.randn(B, H, K, E), torch.randn(B, H, K, E)


def by_hand(
    attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, valid_lens: Tensor
) -> Tensor:
    """Each head with its own slices of the projections; what they find stands side by side."""
    width, found = attention.head_dim, []
    for start in range(0, len(attention.query.weight), width):
        part = slice(start, start + width)
        q, k, v = (
            nn.functional.linear(x, p.weight[part], None if p.bias is None else p.bias[part])[
                :, None
            ]
            for x, p in (
                (query, attention.query),
                (key, attention.key),
                (value, attention.value),
            )
        )  # (B, 1, ., E)
        found.append(head_by_head(q, k, v, valid_lens)[0][:, 0])  # (B, Q, E)
    output: Tensor = attention.output(torch.cat(found, dim=-1))
    return output


@every_form
@every_mask
def test_every_form_equals_a_loop_over_heads_and_queries(form: str, valid_lens: Tensor) -> None:
    direction = torch.randn(B, H, Q, E)
    inputs = [x.requires_grad_() for x in heads_of()]
    query, key, value = inputs
    output = FORMS[form](query, key, value, valid_lens, 0.0)
    gradients = torch.autograd.grad((output * direction).sum(), inputs)
    expected = head_by_head(query, key, value, valid_lens)[0]
    torch.testing.assert_close(output, expected)
    for found, right in zip(
        gradients, torch.autograd.grad((expected * direction).sum(), inputs), strict=True
    ):
        torch.testing.assert_close(found, right)


@every_form
@pytest.mark.parametrize("size", [1e3, 1e30])
def test_what_stands_in_the_padding_changes_nothing(form: str, size: float) -> None:
    query, key, value = heads_of()
    lens = torch.tensor([0, 3])
    clean = FORMS[form](query, key, value, lens, 0.0)
    for b, n in enumerate(lens.tolist()):
        key[b, :, n:], value[b, :, n:] = -size, size
    query, key, value = (x.requires_grad_() for x in (query, key, value))
    dirty = FORMS[form](query, key, value, lens, 0.0)
    assert dirty.equal(clean)
    for gradient in torch.autograd.grad(dirty.sum(), (query, key, value)):
        assert gradient.isfinite().all()
        assert (gradient[0] == 0).all()


@every_form
def test_a_query_without_keys_gets_zeros_and_gives_zero_gradients(form: str) -> None:
    lens = VALID_LENS["a length per query and empty ones"]
    query, key, value = (x.requires_grad_() for x in heads_of())
    output = FORMS[form](query, key, value, lens, 0.0)
    nothing = (lens == 0)[:, None].expand(B, H, Q)
    assert (output[nothing] == 0).all()
    query_gradient, *_ = torch.autograd.grad(output.sum(), (query, key, value))
    assert (query_gradient[nothing] == 0).all()
    assert (query_gradient[~nothing] != 0).any(dim=-1).all()


@every_form
def test_every_form_of_attention_leaves_its_arguments_as_they_were(form: str) -> None:
    arguments = (*heads_of(), torch.tensor([0, 3]))
    before = [x.clone() for x in arguments]
    FORMS[form](*arguments, 0.0)
    assert all(x.equal(y) for x, y in zip(arguments, before, strict=True))


@every_form
def test_dropout_zeroes_and_scales_weights_not_values(form: str) -> None:
    query, key, _ = heads_of()
    lens, identity = torch.tensor([K, 3]), torch.eye(K).expand(B, H, K, K)
    weights = FORMS[form](query, key, identity, lens, 0.0)  # (B, H, Q, K)
    dropped = FORMS[form](query, key, identity, lens, 0.5)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * weights[kept])
    assert 0.3 < kept[weights != 0].float().mean() < 0.7
    assert (kept[:, :, 0] != kept[:, :, 1]).any()  # a value is dropped for one query, not for all


def test_auto_is_one_of_the_forms_and_an_unknown_name_is_none() -> None:
    query, key, value = heads_of()
    lens = torch.tensor([K, 3])
    auto = attend(query, key, value, lens)
    assert any(auto.equal(form(query, key, value, lens, 0.0)) for form in FORMS.values())
    with pytest.raises(KeyError, match="slow"):
        attend(query, key, value, lens, form="slow")  # type: ignore[arg-type]


def test_the_batched_product_equals_the_textbooks_product_head_by_head() -> None:
    first = [[0.2745, 0.6584, 0.2775, 0.8573], [0.8993, 0.0390, 0.9268, 0.7388]]
    second = [[0.0772, 0.3565, 0.1479, 0.5331], [0.4066, 0.2318, 0.4545, 0.9737]]
    first.append([0.7179, 0.7058, 0.9156, 0.4340])
    second.append([0.4606, 0.5159, 0.4220, 0.5786])
    a = torch.tensor([[first, second]])  # (1, 2, 3, 4): heads 2, queries 3, width 4
    textbook = torch.tensor(
        [
            [[1.3208, 1.1631, 1.2879], [1.1631, 2.2150, 1.8424], [1.2879, 1.8424, 2.0402]],
            [[0.4391, 0.7003, 0.5903], [0.7003, 1.3737, 1.0620], [0.5903, 1.0620, 0.9912]],
        ]
    )
    folded = a.flatten(0, 1)
    found = dot_product_attention(folded, folded, folded, torch.tensor([3, 3]))
    torch.testing.assert_close(a @ a.transpose(2, 3), textbook[None], atol=1e-4, rtol=0)
    scaled = textbook / 4**0.5
    torch.testing.assert_close(found.weights, scaled.softmax(dim=-1), atol=1e-4, rtol=0)


def test_scores_are_divided_by_the_root_of_the_head_width_not_of_the_model() -> None:
    query, key, _ = heads_of()
    q, k = query.flatten(0, 1), key.flatten(0, 1)
    weights = dot_product_attention(q, k, k, torch.full((B * H,), K)).weights
    scores = torch.stack([x @ y.T for x, y in zip(q, k, strict=True)]) / E**0.5
    torch.testing.assert_close(weights, scores.softmax(dim=-1))


@every_form
def test_the_textbooks_shapes(form: AttentionForm) -> None:
    five = MultiHeadAttention(d_model=100, heads=5, form=form)
    queries, keys = torch.ones(2, 4, 100), torch.ones(2, 6, 100)
    assert five(queries, keys, keys, torch.tensor([3, 2])).shape == (2, 4, 100)
    eight = MultiHeadAttention(d_model=512, heads=8, form=form)
    x, lens = torch.randn(10, 6, 512), torch.full((10,), 6)
    assert Padded(10).split(eight.query(x), eight.head_dim).shape == (10, 8, 6, 64)
    assert eight.weights(x, x, lens).shape == (10, 8, 6, 6)
    assert eight(x, x, x, lens).shape == (10, 6, 512)


def test_concatenated_projections_equal_the_projection_by_concatenated_matrices() -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E, bias=False)
    x = torch.randn(B, Q, D)
    matrices = attention.query.weight.split(E)  # W1, W2, ..., each (E, D)
    one_by_one = torch.stack([x @ matrix.T for matrix in matrices], dim=1)  # (B, H, Q, E)
    torch.testing.assert_close(Padded(B).split(attention.query(x), E), one_by_one)
    torch.testing.assert_close(torch.cat([x @ m.T for m in matrices], dim=-1), attention.query(x))


@every_form
@every_mask
@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention_equals_a_loop_of_heads(
    form: AttentionForm, valid_lens: Tensor, bias: bool
) -> None:
    """With a head width, a key width and a value width that are nobody's multiple."""
    attention = MultiHeadAttention(
        d_model=D, heads=H, head_dim=E, key_dim=8, value_dim=9, bias=bias, form=form
    )
    query, key, value = torch.randn(B, Q, D), torch.randn(B, K, 8), torch.randn(B, K, 9)
    found = attention(query, key, value, valid_lens)
    assert found.shape == (B, Q, D)
    torch.testing.assert_close(found, by_hand(attention, query, key, value, valid_lens))


@every_form
@pytest.mark.parametrize("mask", ["padding", "causal"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("widths", [(None, None), (8, 9)], ids=["self", "cross"])
def test_multi_head_attention_equals_torchs_with_copied_weights(
    form: AttentionForm, mask: str, bias: bool, widths: tuple[int | None, int | None]
) -> None:
    key_dim, value_dim = widths
    d_model = H * E
    theirs = nn.MultiheadAttention(
        d_model, H, bias=bias, kdim=key_dim, vdim=value_dim, batch_first=True
    )
    fill_vectors(theirs)
    ours = MultiHeadAttention(
        d_model=d_model, heads=H, key_dim=key_dim, value_dim=value_dim, bias=bias, form=form
    )
    copy_attention(theirs, ours)
    query = torch.randn(B, Q, d_model, requires_grad=True)
    key = torch.randn(B, K, key_dim or d_model)
    value = torch.randn(B, K, value_dim or d_model)
    lens = VALID_LENS[mask]
    forbidden = ~may_attend(lens, K)  # torch's masks say what may not be seen
    masks = (
        {"key_padding_mask": forbidden[:, 0]} if mask == "padding" else {"attn_mask": forbidden[0]}
    )
    expected, weights = theirs(query, key, value, average_attn_weights=False, **masks)
    found = ours(query, key, value, lens)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.weights(query, key, lens), weights)
    direction = torch.randn_like(found)
    (gradient,) = torch.autograd.grad((found * direction).sum(), query)
    torch.testing.assert_close(
        gradient, torch.autograd.grad((expected * direction).sum(), query)[0]
    )


@every_mask
def test_weights_are_the_oracles_and_sum_to_one_where_there_is_a_key(valid_lens: Tensor) -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E, key_dim=8, dropout=0.9)
    query, key = torch.randn(B, Q, D), torch.randn(B, K, 8)
    weights = attention.weights(query, key, valid_lens)
    q = attention.query(query).view(B, Q, H, E).transpose(1, 2)
    k = attention.key(key).view(B, K, H, E).transpose(1, 2)
    torch.testing.assert_close(weights, head_by_head(q, k, k, valid_lens)[1])
    sums = may_attend(valid_lens, K).any(dim=-1)[:, None].float().expand(B, H, Q)
    torch.testing.assert_close(weights.sum(dim=-1), sums)


def test_causal_weights_are_zero_above_the_diagonal_and_nowhere_else() -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E)
    x = torch.randn(B, Q, D)
    weights = attention.weights(x, x, torch.arange(1, Q + 1).expand(B, Q))
    assert (weights != 0).equal(torch.ones(Q, Q).tril().bool().expand(B, H, Q, Q))


def test_softmax_is_in_fp32_under_bf16_autocast() -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E)
    query, key, lens = torch.randn(B, Q, D), torch.randn(B, K, D), torch.tensor([K, 3])
    with torch.autocast("cpu", torch.bfloat16):
        weights = attention.weights(query, key, lens)
        q, k = (
            Padded(B).split(f(x), E) for f, x in ((attention.query, query), (attention.key, key))
        )
        scores = (q / E**0.5) @ k.transpose(2, 3)  # (B, H, Q, K)
    assert (weights.dtype, scores.dtype) == (torch.float32, torch.bfloat16)
    for b, n in enumerate(lens.tolist()):
        exact = scores[b, ..., :n].double().softmax(dim=-1)
        torch.testing.assert_close(weights[b, ..., :n].double(), exact, atol=1e-6, rtol=1e-6)


@every_form
@every_mask
def test_bf16_attention_is_fp32_attention_but_for_rounding(form: str, valid_lens: Tensor) -> None:
    query, key, value = (x.bfloat16() for x in heads_of())
    output = FORMS[form](query, key, value, valid_lens, 0.0)
    expected = head_by_head(query.float(), key.float(), value.float(), valid_lens)[0]
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.03)


@every_form
def test_attention_dropout_acts_in_training_only(form: AttentionForm) -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E, dropout=0.5, form=form)
    x, lens = torch.randn(B, Q, D), torch.tensor([Q, 3])
    assert not attention(x, x, x, lens).equal(attention(x, x, x, lens))
    attention.eval()
    torch.testing.assert_close(attention(x, x, x, lens), by_hand(attention, x, x, x, lens))


@every_form
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("valid_lens", [torch.tensor([0, 3]), torch.tensor([[0] * Q, [3] * Q])])
def test_a_sentence_of_length_zero_gets_the_output_bias(
    form: AttentionForm, bias: bool, valid_lens: Tensor
) -> None:
    attention = MultiHeadAttention(d_model=D, heads=H, head_dim=E, bias=bias, form=form)
    x = torch.randn(B, Q, D, requires_grad=True)
    found = attention(x, x, x, valid_lens)
    expected = attention.output.bias if bias else torch.zeros(D)
    assert found[0].equal(expected.expand(Q, D))
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert (gradient[0] == 0).all()
    assert gradient.isfinite().all()


@every_form
def test_half_of_the_heads_with_their_slices_give_their_half_of_the_sum(
    form: AttentionForm,
) -> None:
    """What a device that holds some of the heads computes: reshapes go by width, not by count."""
    whole = MultiHeadAttention(d_model=D, heads=H, head_dim=E, bias=False, form=form)
    x, lens = torch.randn(B, Q, D), torch.tensor([Q, 3])
    total = torch.zeros(B, Q, D)
    for heads in (slice(0, 1), slice(1, H)):
        part = MultiHeadAttention(d_model=D, heads=H, head_dim=E, bias=False, form=form)
        rows = slice(heads.start * E, heads.stop * E)
        for name in ("query", "key", "value"):
            weight = getattr(whole, name).weight[rows]
            getattr(part, name).weight = nn.Parameter(weight)
        part.output.weight = nn.Parameter(whole.output.weight[:, rows])
        total = total + part(x, x, x, lens)
    torch.testing.assert_close(total, whole(x, x, x, lens))


def test_auto_is_folded_on_a_cpu_and_fast_elsewhere_and_what_is_asked_for_stays() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert (form_on(cpu, "auto"), form_on(gpu, "auto")) == ("folded", "fast")
    assert (form_on(cpu, "fast"), form_on(gpu, "folded")) == ("fast", "folded")


def test_where_shapes_are_new_cudnn_plans_no_attention() -> None:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        avoid_cudnn_attention()
        assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("form", ["auto", "folded", "fast"])
def test_a_cpu_takes_no_joined_sentences(form: AttentionForm) -> None:
    assert not takes_joined(torch.device("cpu"), torch.bfloat16, 64, form)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("capability", "width"), [((8, 6), 128), ((8, 6), 136), ((7, 5), 64)])
def test_an_nvidia_gpu_takes_them_where_the_kernels_run(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], width: int, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    joined = pytest.importorskip("seq2seq.nn.joined", exc_type=ImportError)
    monkeypatch.setattr(joined, "triton_runs", lambda: True)
    gpu, suits = torch.device("cuda"), (capability, width) == ((8, 6), 128)
    assert takes_joined(gpu, dtype, width, "auto") == (suits and dtype != torch.float32)
    assert not takes_joined(gpu, dtype, width, "folded")
    monkeypatch.setattr(joined, "triton_runs", lambda: False)
    assert not takes_joined(gpu, dtype, width, "auto")
