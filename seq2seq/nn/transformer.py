"""The encoder-decoder Transformer (Vaswani et al. 2017).

Training and search take one decoder path: `start` projects the memory and makes an empty state,
`decode` goes on from a state. Training decodes T tokens at once without a cache, search one token
a step into a cache.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.config import AttentionForm, Dropout, ModelConfig
from seq2seq.nn.dropout import dropout
from seq2seq.nn.embedding import POSITIONS, TokenEmbedding
from seq2seq.nn.layers import DecoderLayer, EncoderLayer, lowered
from seq2seq.nn.layout import Layout, Padded
from seq2seq.nn.state import DecoderState, LayerState

FIRST_ROOM = 16
"""Positions that a new cache has room for."""
NO_DROPOUT = Dropout(residual=0.0, attention=0.0, activation=0.0)


class Transformer(nn.Module):
    """forward: src (B, S), src_lens (B,), tgt_in (B, T) -> hidden (B, T, D), or (M, D) in layouts
    without padding, which both sides have or neither.

    `project` makes logits of hidden vectors. `rates` and `attention` say how it runs; they are no
    part of the model.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        rates: Dropout = NO_DROPOUT,
        attention: AttentionForm = "auto",
    ) -> None:
        super().__init__()
        assert config.src_vocab_size > 0, "a network needs the size of its source vocabulary"
        assert config.tgt_vocab_size > 0, "a network needs the size of its target vocabulary"
        self.config, self.rate, self.attention = config, rates.residual, attention
        self.compiled = False
        scale, d_model = config.scale_embeddings, config.d_model
        self.src_embedding = TokenEmbedding(config.src_vocab_size, d_model, scale=scale)
        self.tgt_embedding = (
            self.src_embedding
            if config.shares_languages
            else TokenEmbedding(config.tgt_vocab_size, d_model, scale=scale)
        )
        self.src_positions = POSITIONS[config.positions](config)
        self.tgt_positions = POSITIONS[config.positions](config)
        self.encoder = nn.ModuleList(
            EncoderLayer(config, rates, attention) for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(config, rates, attention) for _ in range(config.decoder_layers)
        )
        # Pre-norm leaves the last sum unnormalised; post-norm has normalised it already.
        last_norm = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last_norm(d_model), last_norm(d_model)
        self.output = nn.Linear(d_model, config.tgt_vocab_size, bias=config.output_bias)
        self._initialise()
        if config.tie in ("target-output", "all"):
            self.output.weight = self.tgt_embedding.weight

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def encode(self, src: Tensor, src_lens: Tensor, layout: Layout | None = None) -> Tensor:
        """src (B, S), src_lens (B,) -> memory (B, S, D), or as the layout says."""
        layout = layout or Padded(len(src))
        positions = torch.arange(src.shape[1], device=src.device).expand_as(src)  # (B, S)
        embedded = self.src_embedding(layout.tokens(src))  # (..., D)
        x = embedded + self.src_positions(layout.tokens(positions), src.shape[1])
        x = dropout(x, self.rate if self.training else 0.0)
        visible = layout.visible(src_lens, layout)
        for layer in self._runnable(self.encoder):
            x = layer(x, visible, layout)
        return lowered(self.encoder_norm(x))

    def start(
        self,
        memory: Tensor,
        src_lens: Tensor,
        width: int = 1,
        *,
        cached: bool = False,
        layout: Layout | None = None,
    ) -> DecoderState:
        """An empty state for W beams per sentence: memory (B, S, D) or as the layout says,
        src_lens (B,).

        With a cache, tokens may be decoded step by step; without one, only once, all together.
        """
        assert cached or width == 1, "beams share a cache"
        sentences = len(src_lens)
        layout = layout or Padded(sentences)
        layers = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            attention = layer.cross_attention
            keys, values = attention.keys_and_values(memory, memory, layout)  # (B, H, S, E)
            if not cached:
                layers.append(LayerState(keys, values, None, None))
                continue
            cache = keys.new_zeros(2, *keys.shape[:2], FIRST_ROOM, width, keys.shape[3])
            # Every step folds heads into the batch; strided tensors would be copied each time.
            keys, values = keys.contiguous(), values.contiguous()
            layers.append(LayerState(keys, values, cache[0], cache[1]))
        lengths = src_lens.new_zeros(sentences * width)
        return DecoderState(layers, src_lens, lengths, src_lens.new_zeros(sentences, width, 0))

    def decode(
        self,
        tokens: Tensor,
        state: DecoderState,
        cross_weights: list[Tensor] | None = None,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
    ) -> tuple[Tensor, DecoderState]:
        """tokens (R, T), the next T of every row -> hidden (R, T, D), or as the layout says, and
        the state after them.

        A list `cross_weights` gets what each layer looked at in the source: (B, H, W * T, S).
        """
        lens = state.memory_lens
        layout = layout or Padded(len(lens), state.width)
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = state.lengths[:, None] + steps  # (R, T)
        after = state.advance(positions)
        visible = layout.visible(after.visible(positions), layout)
        visible_memory = layout.visible(lens, memory_layout or layout)
        embedded = self.tgt_embedding(layout.tokens(tokens))  # (..., D)
        x = embedded + self.tgt_positions(layout.tokens(positions), after.used)
        x = dropout(x, self.rate if self.training else 0.0)
        for layer, cache in zip(self._runnable(self.decoder), state.layers, strict=True):
            x = layer(
                x, cache, positions, visible, after.used, visible_memory, layout, cross_weights
            )
        return self.decoder_norm(x), after

    def project(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> logits (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits

    def forward(
        self,
        src: Tensor,
        src_lens: Tensor,
        tgt_in: Tensor,
        src_layout: Layout | None = None,
        tgt_layout: Layout | None = None,
    ) -> Tensor:
        memory = self.encode(src, src_lens, src_layout)
        state = self.start(memory, src_lens, layout=src_layout)
        return self.decode(tgt_in, state, layout=tgt_layout, memory_layout=src_layout)[0]

    def compile_layers(self) -> None:
        """Compile the layers for training; those of a kind share their graphs."""
        self.compiled = True
        for layer in (*self.encoder, *self.decoder):
            layer.compile(dynamic=True)

    def _runnable(self, layers: nn.ModuleList) -> Iterable[Callable[..., Any]]:
        """The layers, compiled in training alone: the shapes of a search are not those that they
        were compiled for."""
        if self.training or not self.compiled:
            return layers
        return [layer.forward for layer in layers]
