"""Gradients of micro-batches, added up."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from seq2seq.data.batch import Batch, twice
from seq2seq.nn.layers import product_type
from seq2seq.nn.transformer import Transformer
from seq2seq.sentence import MAX_LENGTH
from seq2seq.training.loss import cross_entropy_sum, joins_sentences, slice_loss, token_logits
from seq2seq.training.parts import Parts
from seq2seq.training.recipe import Recipe
from seq2seq.training.recorded import CudaGraphs, Recorded, shaped


class Learner:
    """Adds gradients to those that a network's parameters have: in parts where a micro-batch does
    not fit into memory, from recordings where there are any.

    Losses are sums over target tokens divided by `unit`; `backward` adds the gradients of one.
    """

    def __init__(
        self,
        network: Transformer,
        recipe: Recipe,
        unit: int,
        backward: Callable[[Tensor], None],
    ) -> None:
        self.network, self.recipe, self.unit, self.backward = network, recipe, unit, backward
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        """Kept, as finding them takes as long as starting a hundred kernels."""
        self.parts = Parts(lambda: self.recorded is not None and self.recorded.forget())
        self.recorded: Recorded | None = None
        self._gradients: list[Tensor] = []
        """The tensors that recorded steps add gradients to, one for each of `parameters`."""
        self._slice_loss = torch.compile(slice_loss, dynamic=True) if recipe.compile else None

    @property
    def can_record(self) -> bool:
        """Whether steps can be recorded: those of joined sentences, without a loss scale.

        Recorded batches count more tokens than they have, see `recorded.shaped`: R-Drop's two
        passes have no room for those, and an output bias would learn from them. torch's detection
        of anomalies waits for the device, which a recording may not.
        """
        return (
            joins_sentences(self.network)
            and product_type(self.network.output.weight) != torch.float16
            and not self.recipe.r_drop
            and not self.network.config.output_bias
            and not torch.is_anomaly_enabled()
        )

    def record(self) -> None:
        """From now on, record what is learned, as long as every micro-batch fits into memory."""
        self.recorded = Recorded(self._work, CudaGraphs(self.network).record)
        self._gradients = [torch.zeros_like(p) for p in self.parameters]

    def begin(self) -> None:
        """Forget all gradients."""
        if self.recorded is None:
            for parameter in self.parameters:
                parameter.grad = None
            return
        for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
            parameter.grad = gradient  # which Lightning takes away before a validation
        torch._foreach_zero_(self._gradients)

    def learn(self, parts: list[Batch]) -> Tensor:
        """-> the loss of a micro-batch, which may come in parts, detached."""
        if self.parts.limit is not None:
            self.recorded = None
            self._gradients.clear()
        if self.recorded is None:
            return self.learn_unrecorded(parts)
        losses = []
        for part in parts:
            part = shaped(part, self.network.config.max_length or MAX_LENGTH)
            loss = self.recorded.learn(part)
            losses.append(self.learn_unrecorded([part]) if loss is None else loss)
        return torch.stack(losses).sum()

    def learn_unrecorded(self, parts: list[Batch]) -> Tensor:
        """The same, of one part after the other, without recordings."""
        return self.parts.learn(parts, self.parameters, self._work)

    def _work(self, batch: Batch) -> Tensor:
        """Add the gradients of one batch -> its loss, detached."""
        loss = self.loss(batch)
        self.backward(loss)
        return loss.detach()

    def loss(self, batch: Batch) -> Tensor:
        """What is minimised, of one batch."""
        recipe = self.recipe
        logits, said = token_logits(self.network, twice(batch) if recipe.r_drop else batch)
        wanted = said[: batch.tokens]  # (N,)
        rates = recipe.label_smoothing, recipe.r_drop
        loss = cross_entropy_sum(logits, wanted, *rates, self.unit, self._slice_loss)
        if self.recorded is None:
            return loss
        # Tokens that are counted but not there have logits of zeros: each adds log V.
        surplus = batch.tokens - batch.tgt_lens.sum()
        return loss - surplus * (math.log(logits.shape[1]) / self.unit)
