"""ONNX: the encoder, and one step of the decoder with its cache, as two graphs.

encoder.onnx: src (B, S), the end token last, and src_lens (B,)
    -> memory (L, 2, B, H, S, E): keys and values for the cross-attention of each decoder layer
decoder.onnx: tokens (B,), the ones said last, cache (L, 2, B, H, T, E) of those before, memory and
    src_lens -> logits (B, V) of what comes next, new_cache (L, 2, B, H, T + 1, E)

The first token is the start token and its cache is empty (T = 0). Beams are rows of their own: they
take their sentence's memory along. The start token's id is in the properties of decoder.onnx.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import EOS_ID, ModelConfig
from seq2seq.errors import ConfigError
from seq2seq.interop.formats import extra
from seq2seq.interop.onnx_engine import DECODER, ENCODER, open_engine
from seq2seq.interop.refusal import MODEL, Abilities, unable
from seq2seq.model_folder import SavedModel
from seq2seq.nn.attention import MultiHeadAttention
from seq2seq.nn.embedding import TokenEmbedding, angular_rates
from seq2seq.nn.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from seq2seq.nn.transformer import Transformer

if TYPE_CHECKING:
    from seq2seq.interop.onnx_graph import Graph

LIBRARY = "onnx"
engine = open_engine
QUANTIZATIONS = ()
ABILITIES: Abilities = {**MODEL, "activation": ("relu", "gelu", "silu", "swiglu")}
LONGEST = None
"""Sinusoids are computed: they reach any length."""
LOWEST = torch.finfo(torch.float32).min
_USAGE = """\
seq2seq-lightning wrote it as two graphs. Greedy search with them:

```python
import numpy
import onnxruntime
import sentencepiece

src = sentencepiece.SentencePieceProcessor(model_file="subwords.src.model")
tgt = sentencepiece.SentencePieceProcessor(model_file="subwords.tgt.model")
encoder, decoder = (
    onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
    for name in ("encoder.onnx", "decoder.onnx")
)
ids = numpy.array([[*src.encode("A sentence."), {eos_id}]])  # (B, S): the end token is last
src_lens = numpy.array([ids.shape[1]])  # (B,): shorter ones are padded with 0
(memory,) = encoder.run(None, {{"src": ids, "src_lens": src_lens}})
tokens = numpy.array([int(decoder.get_modelmeta().custom_metadata_map["start_id"])])  # (B,)
cache, said = memory[:, :, :, :, :0], []
while len(said) < {most}:
    inputs = {{"tokens": tokens, "cache": cache, "memory": memory, "src_lens": src_lens}}
    logits, cache = decoder.run(None, inputs)
    logits[:, :3] = -numpy.inf  # padding, unknown, start
    tokens = logits.argmax(axis=1)
    if tokens[0] == {eos_id}:
        break
    said.append(int(tokens[0]))
print(tgt.decode(said))
```

On the command line: `seq2seq translate --engine onnx MODEL FILE`, MODEL being this folder.
"""


def obstacles(config: ModelConfig) -> list[str]:
    """What these graphs cannot represent, each with what to change."""
    return unable(config, ABILITIES, "model.")


def export(saved: SavedModel, folder: Path, quantize: str | None = None) -> None:
    """Write both graphs."""
    assert quantize is None, "QUANTIZATIONS is empty"
    with extra("onnx"):
        import onnx
        from google.protobuf.message import EncodeError

        from seq2seq.interop.onnx_graph import Graph
    for graph, name in ((encoder, ENCODER), (decoder, DECODER)):
        model = graph(saved.network, Graph())
        try:
            onnx.save(model, folder / name)
        except (EncodeError, ValueError):
            raise ConfigError(
                f"{name} cannot hold more than 2 GiB, as ONNX stores it; a smaller vocabulary or "
                f"model.d_model makes it smaller."
            ) from None


def usage(config: ModelConfig) -> str:
    """For the model card."""
    most = config.max_length or "2 * ids.shape[1] + 10"
    return _USAGE.format(eos_id=EOS_ID, most=most)


def encoder(network: Transformer, graph: "Graph") -> Any:
    """The model of encoder.onnx; inside, x is (B * S, D)."""
    config = network.config
    shape = graph.op("Shape", "src")  # [B, S]
    length = graph.op("Gather", shape, graph.integer(1))
    steps = graph.op("Range", graph.integer(0), length, graph.integer(1))  # (S,)
    last = graph.op("Unsqueeze", "src_lens", graph.integers(1))  # (B, 1)
    mask = graph.op("Unsqueeze", graph.op("Less", steps, last), graph.integers(1, 2))
    x = embedded(graph, network.src_embedding, "src")  # (B, S, D)
    x = graph.op("Add", x, positions(graph, network.src_positions, config, steps))
    x = graph.op("Reshape", x, graph.integers(-1, config.d_model))
    by_sentence = graph.op("Concat", shape, graph.integers(-1, config.head_width), axis=0)

    def heads(layer: nn.Linear, y: str) -> str:
        split = graph.op("Reshape", linear(graph, layer, y), by_sentence)  # (B, S, H, E)
        return graph.op("Transpose", split, perm=[0, 2, 1, 3])

    for layer in network.encoder:
        assert isinstance(layer, EncoderLayer)
        attention = layer.self_attention
        y = entering(graph, layer.self_residual, x)
        query, key, value = (
            heads(each, y) for each in (attention.query, attention.key, attention.value)
        )
        y = attended(graph, attention, query, key, value, mask)
        x = leaving(graph, layer.self_residual, x, y)
        x = fed_forward(graph, layer.feed_forward_residual, layer.feed_forward, x)
    x = normalised(graph, network.encoder_norm, x)
    memory = []
    for layer in network.decoder:
        assert isinstance(layer, DecoderLayer)
        attention = layer.cross_attention
        memory.append(pair(graph, heads(attention.key, x), heads(attention.value, x)))
    graph.name(graph.op("Concat", *memory, axis=0), "memory")
    return graph.model(
        {"src": ("int64", "BS"), "src_lens": ("int64", "B")},
        {"memory": memory_shape(config, "S")},
        {},
    )


def decoder(network: Transformer, graph: "Graph") -> Any:
    """The model of decoder.onnx; inside, x is (B, D)."""
    config = network.config
    said = graph.op("Gather", graph.op("Shape", "cache"), graph.integers(4))  # [T]
    source = graph.op("Gather", graph.op("Shape", "memory"), graph.integer(4))  # S
    steps = graph.op("Range", graph.integer(0), source, graph.integer(1))  # (S,)
    last = graph.op("Unsqueeze", "src_lens", graph.integers(1))  # (B, 1)
    mask = graph.op("Unsqueeze", graph.op("Less", steps, last), graph.integers(1, 2))
    x = embedded(graph, network.tgt_embedding, "tokens")  # (B, D)
    x = graph.op("Add", x, positions(graph, network.tgt_positions, config, said))
    by_row = graph.integers(0, -1, 1, config.head_width)

    def heads(layer: nn.Linear, y: str) -> str:
        return graph.op("Reshape", linear(graph, layer, y), by_row)  # (B, H, 1, E)

    def stored(tensor: str, number: int, which: int) -> str:
        """Keys (0) or values (1) of a layer, (B, H, ., E)."""
        layer = graph.op("Gather", tensor, graph.integer(number), axis=0)
        return graph.op("Gather", layer, graph.integer(which), axis=0)

    cache = []
    for number, layer in enumerate(network.decoder):
        assert isinstance(layer, DecoderLayer)
        attention = layer.self_attention
        y = entering(graph, layer.self_residual, x)
        key, value = (
            graph.op("Concat", stored("cache", number, which), heads(each, y), axis=2)
            for which, each in enumerate((attention.key, attention.value))
        )
        cache.append(pair(graph, key, value))
        y = attended(graph, attention, heads(attention.query, y), key, value, None)
        x = leaving(graph, layer.self_residual, x, y)
        attention = layer.cross_attention
        y = entering(graph, layer.cross_residual, x)
        key, value = (stored("memory", number, which) for which in (0, 1))
        y = attended(graph, attention, heads(attention.query, y), key, value, mask)
        x = leaving(graph, layer.cross_residual, x, y)
        x = fed_forward(graph, layer.feed_forward_residual, layer.feed_forward, x)
    x = normalised(graph, network.decoder_norm, x)
    graph.name(linear(graph, network.output, x), "logits")
    graph.name(graph.op("Concat", *cache, axis=0), "new_cache")
    return graph.model(
        {
            "tokens": ("int64", "B"),
            "cache": ("float", memory_shape(config, "T")),
            "memory": ("float", memory_shape(config, "S")),
            "src_lens": ("int64", "B"),
        },
        {
            "logits": ("B", config.tgt_vocab_size),
            "new_cache": memory_shape(config, "T + 1"),
        },
        {"start_id": str(network.config.start_id)},
    )


def memory_shape(config: ModelConfig, length: str) -> list[int | str]:
    """Of keys and values of all decoder layers."""
    return [config.decoder_layers, 2, "B", config.heads, length, config.head_width]


def embedded(graph: "Graph", embedding: TokenEmbedding, tokens: str) -> str:
    rows = graph.op("Gather", graph.weight(embedding.weight), tokens)
    return graph.op("Mul", rows, graph.number(embedding.scale))


def positions(graph: "Graph", module: nn.Module, config: ModelConfig, numbers: str) -> str:
    """numbers (N,) -> (N, D)."""
    if config.positions == "learned":
        assert isinstance(module.table, Tensor)
        return graph.op("Gather", graph.weight(module.table), numbers)
    column = graph.op("Unsqueeze", graph.op("Cast", numbers, to=1), graph.integers(1))
    angles = graph.op("Mul", column, graph.weight(angular_rates(config.d_model)))  # (N, D / 2)
    return graph.op("Concat", graph.op("Sin", angles), graph.op("Cos", angles), axis=1)


def attended(
    graph: "Graph",
    attention: MultiHeadAttention,
    query: str,
    key: str,
    value: str,
    mask: str | None,
) -> str:
    """query (B, H, Q, E), key and value (B, H, K, E), mask (B, 1, 1, K) -> (B * Q, D)."""
    scale = graph.number(1 / math.sqrt(attention.head_dim))
    turned = graph.op("Transpose", key, perm=[0, 1, 3, 2])
    scores = graph.op("MatMul", graph.op("Mul", query, scale), turned)  # (B, H, Q, K)
    if mask is not None:
        scores = graph.op("Where", mask, scores, graph.number(LOWEST))
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)  # (B, H, Q, E)
    mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    inner = attention.output.in_features
    merged = graph.op("Reshape", mixed, graph.integers(-1, inner))  # (B * Q, H * E)
    return linear(graph, attention.output, merged)


def fed_forward(graph: "Graph", around: Residual, layer: FeedForward, x: str) -> str:
    """x (N, D) -> (N, D), the residual around it included."""
    y = entering(graph, around, x)
    inner = activated(graph, layer, linear(graph, layer.inner, y))  # (N, F)
    if layer.gate is not None:
        inner = graph.op("Mul", inner, linear(graph, layer.gate, y))
    return leaving(graph, around, x, linear(graph, layer.outer, inner))


def activated(graph: "Graph", layer: FeedForward, x: str) -> str:
    if layer.activation is F.silu:
        return graph.op("Mul", x, graph.op("Sigmoid", x))
    return graph.op({F.relu: "Relu", F.gelu: "Gelu"}[layer.activation], x)


def entering(graph: "Graph", around: Residual, x: str) -> str:
    """What the sublayer inside a residual reads."""
    return normalised(graph, around.norm, x) if around.pre else x


def leaving(graph: "Graph", around: Residual, x: str, y: str) -> str:
    """x and what the sublayer makes of it."""
    total = graph.op("Add", x, y)
    return total if around.pre else normalised(graph, around.norm, total)


def normalised(graph: "Graph", norm: nn.Module, x: str) -> str:
    """By a LayerNorm, or by nothing."""
    if not isinstance(norm, nn.LayerNorm):
        return x
    weights = graph.weight(norm.weight), graph.weight(norm.bias)
    return graph.op("LayerNormalization", x, *weights, epsilon=norm.eps)


def linear(graph: "Graph", layer: nn.Linear, x: str) -> str:
    """x (N, inputs) -> (N, outputs)."""
    bias = [] if layer.bias is None else [graph.weight(layer.bias)]
    return graph.op("Gemm", x, graph.weight(layer.weight), *bias, transB=1)


def pair(graph: "Graph", key: str, value: str) -> str:
    """Two of (B, H, K, E) -> (1, 2, B, H, K, E)."""
    both = [graph.op("Unsqueeze", each, graph.integers(0, 1)) for each in (key, value)]
    return graph.op("Concat", *both, axis=1)
