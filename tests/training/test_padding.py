"""What a batch teaches does not depend on its padding."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import Dropout, ModelConfig, SearchConfig
from seq2seq.data.batch import make_batch
from seq2seq.nn.transformer import Transformer
from seq2seq.training.learner import Learner
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe

SRC = [[5, 6, 7, 8, 9], [6], [9, 4, 4]]
TGT = [[8, 7], [4, 5, 6, 7, 8, 9], [5]]


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_a_batch_costs_what_its_sentences_cost_alone(r_drop: float) -> None:
    config = ModelConfig(
        src_vocab_size=10,
        tgt_vocab_size=10,
        d_model=8,
        heads=2,
        ff_dim=16,
        encoder_layers=1,
        decoder_layers=1,
    )
    rates = Dropout(residual=0.0)  # so the two passes of R-Drop agree
    module = TranslationModule(config, Recipe(r_drop=r_drop, dropout=rates), SearchConfig())
    torch.manual_seed(1)
    module.network = Transformer(config, rates=rates).train()
    whole = alone(module, label_smoothing=0.1)
    weights = list(module.network.parameters())
    expected = torch.autograd.grad(whole, weights)

    batch = make_batch(SRC, TGT, module.network.config.start_id)
    loss = Learner(module.network, module.recipe, 1, Tensor.backward).loss(batch)
    torch.testing.assert_close(loss.detach(), whole.detach())
    torch.testing.assert_close(torch.autograd.grad(loss, weights), expected)
    validated = module.loss_of(module.network, batch)
    torch.testing.assert_close(validated, alone(module, label_smoothing=0.0))


def alone(module: TranslationModule, label_smoothing: float) -> torch.Tensor:
    """The losses of all sentences, one after the other."""
    network, total = module.network, torch.zeros(())
    for src, tgt in zip(SRC, TGT, strict=True):
        batch = make_batch([src], [tgt], network.config.start_id)
        logits = network.project(network(batch.src, batch.src_lens, batch.tgt_in))[0]
        said = batch.tgt_out[0]
        total = total + F.cross_entropy(
            logits, said, label_smoothing=label_smoothing, reduction="sum"
        )
    return total
