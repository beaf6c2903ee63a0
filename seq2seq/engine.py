"""Engines find translations of encoded sentences, a batch at a time.

The native one, over our own network, is here; engines of other libraries are objects that an app
hands to a Translator.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SearchConfig
from seq2seq.data.batch import Batch, make_batch, pad
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constrained import ConstrainedSearch
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.rules import rules_for
from seq2seq.decoding.search import Hypothesis, Search
from seq2seq.errors import ConfigError
from seq2seq.nn.state import DecoderState
from seq2seq.nn.transformer import Transformer

SEARCHES: dict[str, Search] = {"greedy": greedy_search, "beam": beam_search}


class Engine(Protocol):
    """Finds translations of encoded sentences."""

    @property
    def max_length(self) -> int | None:
        """Most source tokens, the end token counted; None for no bound."""

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        """One batch -> the n best of each sentence."""


class ModelStepper:
    """A Transformer as a search sees it: a `decoding.search.Stepper` over one batch.

    Padding, start and unknown tokens get no probability: no translation should hold them.
    """

    def __init__(self, network: Transformer, src: Tensor, src_lens: Tensor) -> None:
        self.network, self.src_lens = network, src_lens
        self.memory = network.encode(src, src_lens)
        self.state: DecoderState | None = None

    def start(self, width: int, capacity: int) -> None:
        self.state = self.network.start(self.memory, self.src_lens, width, capacity)

    def step(self, tokens: Tensor) -> Tensor:
        assert self.state is not None
        hidden, self.state = self.network.decode(tokens[:, None], self.state)  # (R, 1, D)
        log_probs = self.network.project(hidden[:, 0]).float().log_softmax(dim=-1)  # (R, V)
        log_probs[:, [PAD_ID, BOS_ID, UNK_ID]] = -torch.inf
        return log_probs

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        assert self.state is not None
        if len(sentences) < len(self.state.memory_lens):
            self.state = self.state.keep(sentences)
        if self.state.width > 1:
            self.state = self.state.reorder(beams)


class NativeEngine:
    """Searches with our own network, on its device."""

    def __init__(self, network: Transformer) -> None:
        self.network = network

    @property
    def max_length(self) -> int | None:
        return self.network.max_length

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in batch]
        for free in (True, False):  # one sentence's constraint has no say in another's search
            rows = [row for row, each in enumerate(batch) if (each.constraint is None) == free]
            if rows:
                for row, hypotheses in zip(
                    rows, self._search([batch[row] for row in rows], config), strict=True
                ):
                    found[row] = hypotheses
        return found

    def _search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        """All under a constraint, or none."""
        constraints = [each.constraint for each in batch if each.constraint is not None]
        device = self.network.output.weight.device
        with torch.inference_mode():
            tokens, src_lens = pad([[*each.src, EOS_ID] for each in batch])
            lengths = [config.max_length(len(each.src)) + len(each.prefix) for each in batch]
            limits = torch.tensor(lengths)
            if constraints:
                rests = [each.standing(each.start).rest for each in constraints]
                limits += torch.tensor(rests)
            if self.network.max_length is not None:
                limits = limits.clamp(max=self.network.max_length)
            stepper = ModelStepper(self.network, tokens.to(device), src_lens.to(device))
            search = SEARCHES["greedy" if config.beam == 1 else "beam"]
            if constraints:
                search = ConstrainedSearch(constraints)
            rules = rules_for(batch, config)
            return search(stepper, limits.to(device), self.network.start_id, config, rules)

    def cross_attention(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """One batch of sentences and their translations, ids without special tokens -> of each
        pair the weights (L, H, T, S), end tokens counted."""
        network = self.network
        batch = make_batch(src, tgt, network.start_id)
        batch = Batch(*(tensor.to(network.output.weight.device) for tensor in batch))
        found: list[Tensor] = []
        with torch.inference_mode():
            memory = network.encode(batch.src, batch.src_lens)
            network.decode(batch.tgt_in, network.start(memory, batch.src_lens), found)
            if not found:
                raise ConfigError("model.decoder_layers=0: this model looks at no source.")
            weights = torch.stack(found, dim=1).cpu()  # (B, L, H, T, S)
        lens = zip(weights, batch.tgt_lens.tolist(), batch.src_lens.tolist(), strict=True)
        return [each[:, :, :t, :s] for each, t, s in lens]
