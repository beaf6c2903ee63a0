"""What a batch teaches does not depend on its padding."""

import pytest
import torch
from torch.nn import functional as F

from seq2seq.config import Dropout, ModelConfig, SearchConfig
from seq2seq.data.batch import make_batch
from seq2seq.nn.transformer import Transformer
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe

SRC = [[5, 6, 7, 8, 9], [6], [9, 4, 4]]
TGT = [[8, 7], [4, 5, 6, 7, 8, 9], [5]]


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_a_batch_costs_what_its_sentences_cost_alone(multiple: int, r_drop: float) -> None:
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
    start = module.network.config.start_id

    alone = []
    for src, tgt in zip(SRC, TGT, strict=True):
        batch = make_batch([src], [tgt], start)
        logits = module.network.project(module.network(batch.src, batch.src_lens, batch.tgt_in))
        said = batch.tgt_out[0]
        alone.append(F.cross_entropy(logits[0], said, label_smoothing=0.1, reduction="sum"))
    weights = list(module.network.parameters())
    expected = torch.autograd.grad(torch.stack(alone).sum(), weights)

    batch = make_batch(SRC, TGT, start, multiple)
    loss = module._training_loss(batch)
    torch.testing.assert_close(loss.detach(), torch.stack(alone).sum().detach())
    torch.testing.assert_close(torch.autograd.grad(loss, weights), expected)
    torch.testing.assert_close(module._validation_loss(batch), unsmoothed(module))


def unsmoothed(module: TranslationModule) -> torch.Tensor:
    total = torch.zeros(())
    for src, tgt in zip(SRC, TGT, strict=True):
        batch = make_batch([src], [tgt], module.network.config.start_id)
        hidden = module.network(batch.src, batch.src_lens, batch.tgt_in)
        log_p = module.network.project(hidden)[0].log_softmax(dim=-1)
        total = total - log_p.gather(1, batch.tgt_out[0][:, None]).sum()
    return total
