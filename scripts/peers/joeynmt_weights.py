"""Our network as a checkpoint of JoeyNMT 2.3: the same function, other names."""

from torch import Tensor

from seq2seq.interop.joeynmt_names import alternating, their_name, with_features
from seq2seq.nn.embedding import sinusoids
from seq2seq.nn.transformer import Transformer


def checkpoint(network: Transformer) -> dict[str, dict[str, Tensor]]:
    """What JoeyNMT loads; not for swiglu, learned positions, an output bias or no biases.

    Its vocabulary is ours but for its first two rows, the unknown token and the padding.
    """
    order = alternating(network.config.d_model)
    found: dict[str, Tensor] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        value = with_features(name, parameter.detach(), order).clone()
        if name in ("src_embedding.weight", "tgt_embedding.weight", "output.weight"):
            value[:2] = value[[1, 0]]
        found[their_name(name)] = value
    for side in ("encoder", "decoder"):
        found[f"{side}.pe.pe"] = sinusoids(5000, network.config.d_model)[:, order][None]
    return {"model_state": found}
