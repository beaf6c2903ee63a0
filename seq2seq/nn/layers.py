"""The layers of encoder and decoder: attention and feed-forward inside residual sublayers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.nn.attention import MultiHeadAttention
from seq2seq.nn.dropout import dropout
from seq2seq.nn.layout import Layout
from seq2seq.nn.masks import Visible
from seq2seq.nn.state import LayerState

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": F.silu,
}


def lowered(x: Tensor) -> Tensor:
    """x in the type that autocast multiplies in: cast once where several products read it."""
    return x.to(product_type(x))


def product_type(x: Tensor) -> torch.dtype:
    """What products of x are computed in."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class FeedForward(nn.Module):
    """Two matrices with an activation between (Vaswani et al. 2017, eq. 2).

    forward: (..., D) -> (..., D)
    With swiglu a third matrix gates the inner vector (Shazeer 2020, eq. 6).
    """

    def __init__(self, config: ModelConfig, rate: float) -> None:
        super().__init__()
        self.activation, self.rate = ACTIVATIONS[config.activation], rate
        self.inner = nn.Linear(config.d_model, config.ff_dim, bias=config.bias)
        gated = config.activation == "swiglu"
        self.gate = nn.Linear(config.d_model, config.ff_dim, bias=config.bias) if gated else None
        self.outer = nn.Linear(config.ff_dim, config.d_model, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.activation(self.inner(x))  # (..., F)
        if self.gate is not None:
            inner = inner * self.gate(x)
        out: Tensor = self.outer(dropout(inner, self.rate if self.training else 0.0))  # (..., D)
        return out


class Residual(nn.Module):
    """x + f(norm(x)) (Xiong et al. 2020), or with post-norm norm(x + f(x)) (Vaswani et al. 2017,
    section 3.1); dropout on what f gives.

    forward: x (..., D), and f, a function from (..., D) to (..., D) -> (..., D)
    """

    def __init__(self, config: ModelConfig, rate: float) -> None:
        super().__init__()
        self.norm, self.pre, self.rate = nn.LayerNorm(config.d_model), config.norm == "pre", rate

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        rate = self.rate if self.training else 0.0
        if self.pre:
            return x + dropout(sublayer(lowered(self.norm(x))), rate)
        out: Tensor = self.norm(x + dropout(sublayer(lowered(x)), rate))
        return out


def _attention(config: ModelConfig, rates: Dropout, form: AttentionForm) -> MultiHeadAttention:
    return MultiHeadAttention(
        d_model=config.d_model,
        heads=config.heads,
        head_dim=config.head_dim,
        bias=config.bias,
        dropout=rates.attention,
        form=form,
    )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward.

    forward: x (..., D) in its layout, what it sees of itself -> (..., D)
    """

    def __init__(self, config: ModelConfig, rates: Dropout, form: AttentionForm) -> None:
        super().__init__()
        self.self_attention = _attention(config, rates, form)
        self.feed_forward = FeedForward(config, rates.activation)
        self.self_residual = Residual(config, rates.residual)
        self.feed_forward_residual = Residual(config, rates.residual)

    def forward(self, x: Tensor, visible: Visible, layout: Layout) -> Tensor:
        x = self.self_residual(x, lambda y: self.self_attention(y, y, y, visible, layout))
        return self.feed_forward_residual(x, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention (Q from here, K and V from the memory), feed-forward.

    forward: x (..., D) in its layout, cache, positions (R, T), visible, used, visible_memory
             -> (..., D)
    Query t of a row sees its row's positions 0 .. positions[t], as `visible` says
    (`DecoderState.visible`): that is the causal mask, in training, evaluation and step-by-step
    decoding alike. `used` is how many positions the cache holds, these included; `visible_memory`
    says what is seen of the source. If `cross_weights` is a list, the cross-attention's weights
    (B, H, W * T, S) are appended to it.
    """

    def __init__(self, config: ModelConfig, rates: Dropout, form: AttentionForm) -> None:
        super().__init__()
        self.self_attention = _attention(config, rates, form)
        self.cross_attention = _attention(config, rates, form)
        self.feed_forward = FeedForward(config, rates.activation)
        self.self_residual = Residual(config, rates.residual)
        self.cross_residual = Residual(config, rates.residual)
        self.feed_forward_residual = Residual(config, rates.residual)

    def forward(
        self,
        x: Tensor,
        cache: LayerState,
        positions: Tensor,
        visible: Visible,
        used: int,
        visible_memory: Visible,
        layout: Layout,
        cross_weights: list[Tensor] | None = None,
    ) -> Tensor:
        def look_back(y: Tensor) -> Tensor:
            keys, values = self.self_attention.keys_and_values(y, y, layout)  # (B, H, W * T, E)
            keys, values = cache.extend(keys, values, positions, used)  # (B, H, used * W, E)
            return self.self_attention.attend(y, keys, values, visible, layout)

        def look_at_source(y: Tensor) -> Tensor:
            keys, values = cache.memory_keys, cache.memory_values  # (B, H, S, E)
            if cross_weights is not None:
                assert isinstance(visible_memory, Tensor), "joined sentences show no weights"
                cross_weights.append(self.cross_attention.look(y, keys, visible_memory, layout))
            return self.cross_attention.attend(y, keys, values, visible_memory, layout)

        x = self.self_residual(x, look_back)
        x = self.cross_residual(x, look_at_source)
        return self.feed_forward_residual(x, self.feed_forward)  # type: ignore[no-any-return]
