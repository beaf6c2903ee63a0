"""The memory pilot: what fits is found out before the first step."""

import torch
from torch.optim import Optimizer

from seq2seq.data.batch import Batch, uniform
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.learner import Learner


def try_longest(learner: Learner, data: CorpusDataModule, optimizer: Optimizer) -> None:
    """Compute gradients of a batch of the longest sentences, with the optimizer's moments in
    memory, and forget them."""
    if learner.recipe.compile:
        _compile(learner, min(data.batch_pairs, data.batch_tokens // 37))
    made = optimizer.state
    moments = [torch.empty_like(p) for p in learner.parameters if p not in made for _ in range(2)]
    rows, longest = data.largest_part
    _try(learner, uniform(rows, longest, longest))
    del moments


def _compile(learner: Learner, usual: int) -> None:
    """One graph for all batches of several pairs, of which there are `usual` ones, and one for
    those of one pair. torch takes for always equal what is equal in the first batch, so its numbers
    are numbers of heads that no network has: an odd multiple of 23."""
    _try(learner, uniform(23 + max(0, usual - 23) // 46 * 46, 31, 37))
    _try(learner, uniform(1, 31, 37))


def _try(learner: Learner, batch: Batch) -> None:
    learner.learn([batch.to(learner.parameters[0].device)])
    learner.begin()
