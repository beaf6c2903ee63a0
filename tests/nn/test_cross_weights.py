"""What the decoder tells of its cross-attention is what its cross-attention did."""

from typing import Any

import torch
from networks import B, S, T, W, begin, build, every_form, every_variant, sentences, targets
from oracle import head_by_head
from torch import Tensor, nn

from seq2seq.config import AttentionForm
from seq2seq.nn.attention import MultiHeadAttention
from seq2seq.nn.layers import DecoderLayer
from seq2seq.nn.transformer import Transformer


def recorded(
    network: Transformer, src: Tensor, lens: Tensor, tgt: Tensor, width: int = 1
) -> list[Tensor]:
    """(B, H, W * T, S) of each layer."""
    found: list[Tensor] = []
    network.decode(tgt, begin(network, src, lens, width), found)
    return found


def cross_attentions(network: Transformer) -> list[MultiHeadAttention]:
    layers = [layer for layer in network.decoder if isinstance(layer, DecoderLayer)]
    return [layer.cross_attention for layer in layers]


def overhear(modules: list[nn.Linear], *inputs: Tensor, network: Transformer) -> list[Tensor]:
    """What goes into the modules while the network runs, seen from outside."""
    heard: list[Tensor] = []
    handles = [
        module.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
        for module in modules
    ]
    network(*inputs)
    for handle in handles:
        handle.remove()
    return heard


@every_form
@every_variant
def test_recorded_weights_are_those_of_each_query_over_the_keys_that_exist(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets()
    found = recorded(network, src, lens, tgt)
    attentions, memory = cross_attentions(network), network.encode(src, lens)
    heard = overhear([each.query for each in attentions], src, lens, tgt, network=network)
    assert len(found) == len(heard) == len(network.decoder)
    for attention, weights, query in zip(attentions, found, heard, strict=True):
        q, k = (
            projection(x).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for projection, x in ((attention.query, query), (attention.key, memory))
        )  # (B, H, ., E)
        torch.testing.assert_close(weights, head_by_head(q, k, k, lens)[1])


@every_form
@every_variant
def test_recorded_weights_mixed_the_values_that_the_decoder_went_on_with(
    settings: dict[str, Any], form: AttentionForm
) -> None:
    network = build(settings, form)
    (src, lens), tgt = sentences(), targets()
    found = recorded(network, src, lens, tgt)
    attentions, state = cross_attentions(network), begin(network, src, lens)
    heard = overhear([each.output for each in attentions], src, lens, tgt, network=network)
    for layer, weights, mixed in zip(state.layers, found, heard, strict=True):
        expected = weights @ layer.memory_values  # (B, H, T, E)
        torch.testing.assert_close(mixed, expected.transpose(1, 2).flatten(2))


@every_variant
def test_every_token_spreads_1_over_the_words_of_its_sentence_and_0_over_padding(
    settings: dict[str, Any],
) -> None:
    (src, lens), tgt = sentences(), targets()
    for weights in recorded(build(settings), src, lens, tgt):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:3]))
        exists = (torch.arange(S) < lens[:, None])[:, None, None]  # (B, 1, 1, S)
        assert (weights > 0).equal(exists.expand_as(weights))


@every_form
def test_recording_changes_nothing_and_steps_record_what_the_whole_does(
    form: AttentionForm,
) -> None:
    network = build({}, form)
    (src, lens), tgt = sentences(), targets()
    whole: list[Tensor] = []
    hidden, _ = network.decode(tgt, begin(network, src, lens), whole)
    assert hidden.equal(network.decode(tgt, begin(network, src, lens))[0])
    state = begin(network, src, lens)
    for t in range(T):
        step: list[Tensor] = []
        _, state = network.decode(tgt[:, t : t + 1], state, step)
        for weights, expected in zip(step, whole, strict=True):
            torch.testing.assert_close(weights, expected[:, :, t : t + 1])


def test_the_beams_of_a_sentence_are_recorded_one_after_the_other() -> None:
    network = build({})
    (src, lens), tgt = sentences(), targets(B * W)
    copies = src.repeat_interleave(W, dim=0), lens.repeat_interleave(W)
    together, alone = recorded(network, src, lens, tgt, W), recorded(network, *copies, tgt)
    for beams, rows in zip(together, alone, strict=True):
        by_row = beams.unflatten(2, (W, T)).transpose(1, 2).flatten(0, 1)  # (B * W, H, T, S)
        torch.testing.assert_close(by_row, rows)
