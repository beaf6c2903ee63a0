"""Names of CTranslate2's `TransformerSpec`, and which modules of ours each of its parts holds."""

from seq2seq.config import ModelConfig

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
"""Ours and theirs; swiglu is theirs with a gate."""

_OUTSIDE_LAYERS = {
    "encoder/embeddings_0": ["src_embedding"],
    "encoder/layer_norm": ["encoder_norm"],
    "decoder/embeddings": ["tgt_embedding"],
    "decoder/layer_norm": ["decoder_norm"],
    "decoder/projection": ["output"],
}
_IN_A_LAYER = {
    "self_attention/layer_norm": ["self_residual.norm"],
    "self_attention/linear_0": [f"self_attention.{each}" for each in ("query", "key", "value")],
    "self_attention/linear_1": ["self_attention.output"],
    "attention/layer_norm": ["cross_residual.norm"],
    "attention/linear_0": ["cross_attention.query"],
    "attention/linear_1": [f"cross_attention.{each}" for each in ("key", "value")],
    "attention/linear_2": ["cross_attention.output"],
    "ffn/layer_norm": ["feed_forward_residual.norm"],
    "ffn/linear_0": ["feed_forward.inner"],
    "ffn/linear_0_noact": ["feed_forward.gate"],
    "ffn/linear_1": ["feed_forward.outer"],
}
PARTS = {*_OUTSIDE_LAYERS} | {
    f"{side}/layer/{part}" for side in ("encoder", "decoder") for part in _IN_A_LAYER
}
"""All of them, without the numbers of layers."""


def parts(config: ModelConfig) -> dict[str, list[str]]:
    """Each part with our modules, whose rows stand there one below the other."""
    found = dict(_OUTSIDE_LAYERS)
    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(depth):
            for part, modules in _IN_A_LAYER.items():
                names = [f"{side}.{number}.{module}" for module in modules]
                found[f"{side}/layer_{number}/{part}"] = names

    def there(part: str) -> bool:
        if part in ("encoder/layer_norm", "decoder/layer_norm"):
            return config.norm == "pre"
        if part.endswith("linear_0_noact"):
            return config.activation == "swiglu"
        return not (part.startswith("encoder/") and "/attention/" in part)

    return {part: names for part, names in found.items() if there(part)}


def their_parameter(part: str, name: str) -> str:
    """Of a parameter of the modules in that part."""
    return {"weight": "gamma", "bias": "beta"}[name] if part.endswith("norm") else name
