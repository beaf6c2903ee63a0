"""Names of Hugging Face's Marian and Pegasus, which have them from BART."""

SHARED = "model.shared.weight"
"""One matrix for both languages, where they share it."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
"""Our names and theirs; in newer files silu is silu."""

OURS = "seq2seq"
"""A key in config.json, for settings of ours that nothing else there tells."""
UNTOLD = ("src_vocab_size", "tgt_vocab_size", "max_positions", "bias", "output_bias")

_OUTSIDE_LAYERS = {
    "src_embedding.weight": "model.encoder.embed_tokens.weight",
    "tgt_embedding.weight": "model.decoder.embed_tokens.weight",
    "src_positions.table": "model.encoder.embed_positions.weight",
    "tgt_positions.table": "model.decoder.embed_positions.weight",
    "encoder_norm.weight": "model.encoder.layer_norm.weight",
    "encoder_norm.bias": "model.encoder.layer_norm.bias",
    "decoder_norm.weight": "model.decoder.layer_norm.weight",
    "decoder_norm.bias": "model.decoder.layer_norm.bias",
    "output.weight": "lm_head.weight",
    "output.bias": "final_logits_bias",
}
_IN_A_LAYER = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward_residual.norm": "final_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
}


def their_name(name: str) -> str:
    """Of a parameter of ours."""
    if name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[name]
    side, layer, rest = name.split(".", 2)
    for ours, theirs in _IN_A_LAYER.items():
        rest = rest.replace(ours, theirs)
    return f"model.{side}.layers.{layer}.{rest}"
