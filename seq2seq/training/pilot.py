"""The memory pilot: what fits is found out before the first step."""

import torch
from torch.optim import Optimizer

from seq2seq.data.batch import uniform
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.learner import Learner


def try_longest(learner: Learner, data: CorpusDataModule, optimizer: Optimizer) -> None:
    """Compute gradients of a batch of the longest sentences, with what else a step needs in memory:
    the optimizer's moments, and the gradients of recorded steps. Forget them."""
    if learner.recipe.compile:
        _compile(learner, min(data.batch_pairs, data.batch_tokens // 37))
    made = optimizer.state
    moments = [torch.empty_like(p) for p in learner.parameters if p not in made for _ in range(2)]
    rows, longest = data.largest_part
    batch = uniform(rows, longest, longest).to(learner.parameters[0].device)
    learner.learn([batch])
    if learner.parts.limit is not None:
        # It did not fit in the shape of a recording. From now on none are made: try its own shape.
        learner.learn([batch])
    learner.begin()
    del moments


def _compile(learner: Learner, usual: int) -> None:
    """Have torch compile two graphs: one for a single pair, and one, with a batch of about `usual`
    pairs, for all batches of several pairs but small ones, whose sums a GPU computes differently.

    torch takes sizes that are equal in the first batch to be equal always, so none of this one's
    may be a network's number of heads: lengths of 31 and 37, and an odd multiple of 23 pairs."""
    for pairs in (23 + max(0, usual - 23) // 46 * 46, 1):
        learner.learn_unrecorded([uniform(pairs, 31, 37).to(learner.parameters[0].device)])
        learner.begin()
