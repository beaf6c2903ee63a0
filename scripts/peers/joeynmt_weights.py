"""Our network as a checkpoint of JoeyNMT 2.3: the same function, other names.

JoeyNMT's sinusoids alternate sine and cosine where ours are two halves, so all axes of width D are
put into its order; its unknown token is row 0 and its padding row 1.
"""

import torch
from torch import Tensor, nn

from seq2seq.nn.attention import MultiHeadAttention
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.layers import DecoderLayer, EncoderLayer
from seq2seq.nn.transformer import Transformer


def checkpoint(network: Transformer) -> dict[str, dict[str, Tensor]]:
    """What JoeyNMT loads; only for pre-norm, relu, sinusoids, one tied matrix and biases."""
    width = network.config.d_model
    order = torch.arange(width).view(2, -1).T.flatten()  # theirs -> ours
    found: dict[str, Tensor] = {}

    def take(name: str, module: nn.Linear | nn.LayerNorm, *, reads: bool, writes: bool) -> None:
        """reads, writes: whether the module's input and its output have width D."""
        for kind, parameter in module.named_parameters():
            value = parameter.detach()
            if reads and value.dim() == 2:
                value = value[:, order]
            found[f"{name}.{kind}"] = (value[order] if writes else value).clone()

    def take_attention(name: str, attention: MultiHeadAttention) -> None:
        for letter, module in zip(
            "qkv", (attention.query, attention.key, attention.value), strict=True
        ):
            take(f"{name}.{letter}_layer", module, reads=True, writes=False)
        take(f"{name}.output_layer", attention.output, reads=False, writes=True)

    def take_norm(name: str, norm: nn.Module) -> None:
        assert isinstance(norm, nn.LayerNorm), "JoeyNMT's checkpoint is made of pre-norm networks"
        take(name, norm, reads=False, writes=True)

    def take_feed_forward(name: str, layer: EncoderLayer | DecoderLayer) -> None:
        take_norm(f"{name}.layer_norm", layer.feed_forward_residual.norm)
        take(f"{name}.pwff_layer.0", layer.feed_forward.inner, reads=True, writes=False)
        take(f"{name}.pwff_layer.3", layer.feed_forward.outer, reads=False, writes=True)

    for number, encoder in enumerate(network.encoder):
        assert isinstance(encoder, EncoderLayer)
        name = f"encoder.layers.{number}"
        take_attention(f"{name}.src_src_att", encoder.self_attention)
        take_norm(f"{name}.layer_norm", encoder.self_residual.norm)
        take_feed_forward(f"{name}.feed_forward", encoder)
    for number, decoder in enumerate(network.decoder):
        assert isinstance(decoder, DecoderLayer)
        name = f"decoder.layers.{number}"
        take_attention(f"{name}.trg_trg_att", decoder.self_attention)
        take_attention(f"{name}.src_trg_att", decoder.cross_attention)
        take_norm(f"{name}.x_layer_norm", decoder.self_residual.norm)
        take_norm(f"{name}.dec_layer_norm", decoder.cross_residual.norm)
        take_feed_forward(f"{name}.feed_forward", decoder)
    take_norm("encoder.layer_norm", network.encoder_norm)
    take_norm("decoder.layer_norm", network.decoder_norm)
    table = network.output.weight.detach()[:, order]
    table[:2] = table[[1, 0]]
    for name in ("src_embed.lut", "trg_embed.lut", "decoder.output_layer"):
        found[f"{name}.weight"] = table.clone()
    for side in ("encoder", "decoder"):
        found[f"{side}.pe.pe"] = sinusoids(5000, width)[:, order][None]
    return {"model_state": found}
