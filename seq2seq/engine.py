"""Engines find translations of encoded sentences, a batch at a time.

The native one, over our own network, is here; engines of other libraries are objects that an app
hands to a Translator.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SearchConfig
from seq2seq.data.batch import Batch, make_batch, pad
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.constrained import ConstrainedSearch
from seq2seq.decoding.coverage import coverage
from seq2seq.decoding.diverse import diverse_search
from seq2seq.decoding.ensemble import Ensemble, mean_of_probabilities
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.request import Request
from seq2seq.decoding.rerank import find_and_rerank
from seq2seq.decoding.rules import rules_for
from seq2seq.decoding.sample import Sampler
from seq2seq.decoding.search import Hypothesis, Search, Stepper
from seq2seq.errors import ConfigError
from seq2seq.nn.state import DecoderState
from seq2seq.nn.transformer import Transformer

NEVER_SAID = [PAD_ID, BOS_ID, UNK_ID]
"""No translation should hold them: they get no probability, and the others keep theirs as it is."""
SLICE = 1024
"""Target positions whose logits are in memory at a time when a translation is scored."""


class Engine(Protocol):
    """Finds translations of encoded sentences."""

    @property
    def max_length(self) -> int | None:
        """Most source tokens, the end token counted; None for no bound."""

    @property
    def parallel(self) -> int:
        """How many searches may run at once, each in a thread of its own; with 0 the caller
        itself searches."""

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        """One batch -> the n best of each sentence."""


class ScoringEngine(Engine, Protocol):
    """An engine that can also tell what it thinks of given translations."""

    def log_probs(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[Tensor]:
        """One batch of sentences and their translations, ids without special tokens -> of each
        pair the log-probabilities (T,) of the translation's tokens, the end token last, in fp32."""


QUESTIONS = {
    "log_probs": "how likely each token is",
    "cross_attention": "where each layer and head looks",
}
"""What some engines can be asked besides to search."""


def asked(engine: Engine, question: str) -> Callable[..., Any]:
    """The method of an engine that answers; ConfigError where it has none."""
    answer: Callable[..., Any] | None = getattr(engine, question, None)
    if answer is None:
        raise ConfigError(
            f"{type(engine).__name__} does not tell {QUESTIONS[question]}; the native engine does."
        )
    return answer


def searches_beside_caller(device: torch.device) -> int:
    """What `Engine.parallel` is for searches with torch: a GPU's leave the caller time to prepare
    the next batch; a CPU's need all cores and are in the caller's thread.

    A second thread there would have a team of OpenMP threads of its own. Once the teams have more
    threads than there are cores, libgomp lets the threads of both teams sleep, not spin, at the end
    of every product: on two cores one of 320 x 128 and 128 x 128 takes 142 us instead of 63.
    """
    return 0 if device.type == "cpu" else 1


def search(
    stepper: Callable[[Tensor, Tensor], Stepper],
    batch: Sequence[Request],
    config: SearchConfig,
    start_id: int,
    max_length: int | None,
    *,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """One batch -> the n best of each sentence, by the search that these settings ask for.

    `stepper` makes the model's side of it, from sources (B, S) that end with the end token, and
    their lengths (B,), both on the host; the search itself is done on `device`.
    """
    found: list[list[Hypothesis]] = [[] for _ in batch]
    for free in (True, False):  # one sentence's constraint has no say in another's search
        rows = [row for row, each in enumerate(batch) if (each.constraint is None) == free]
        if not rows:
            continue
        alike = [batch[row] for row in rows]
        limits = torch.tensor(limits_of(alike, config, max_length), device=device)
        rules = rules_for(alike, config, limits)
        model = stepper(*pad([[*each.src, EOS_ID] for each in alike]))
        results = search_for(alike, config)(model, limits, start_id, config, rules)
        for row, hypotheses in zip(rows, results, strict=True):
            found[row] = hypotheses
    return found


def search_for(batch: Sequence[Request], config: SearchConfig) -> Search:
    """The search that these settings ask for; all sentences under a constraint, or none."""
    constraints = [each.constraint for each in batch if each.constraint is not None]
    if constraints and (config.sampling is not None or config.diversity.groups > 1):
        name = "sampling" if config.sampling is not None else "diversity"
        raise ConfigError(
            f"search.{name} knows no terms that a translation must hold; use plain beam search "
            f"with terms, or no terms."
        )
    if constraints:
        return ConstrainedSearch(constraints)
    if config.sampling is not None:
        return Sampler([each.place for each in batch])
    if config.diversity.groups > 1:
        return diverse_search
    return greedy_search if config.beam == 1 else beam_search


def limits_of(batch: Sequence[Request], config: SearchConfig, max_length: int | None) -> list[int]:
    """How many tokens each translation may have, the end token and all terms counted, where the
    model's own positions end at `max_length`."""

    def limit(request: Request) -> int:
        constraint = request.constraint
        most = config.max_length(len(request.src), len(request.prefix))
        most += 0 if constraint is None else constraint.standing(constraint.start).rest
        return most if max_length is None else min(most, max_length)

    return [limit(each) for each in batch]


class ModelStepper:
    """A Transformer as a search sees it: a `decoding.search.Stepper` over one batch."""

    def __init__(self, network: Transformer, src: Tensor, src_lens: Tensor) -> None:
        self.network, self.src_lens = network, src_lens
        self.memory = network.encode(src, src_lens)
        self.state: DecoderState | None = None
        self.never_said = torch.tensor(NEVER_SAID, device=src.device)

    def start(self, width: int) -> None:
        self.state = self.network.start(self.memory, self.src_lens, width, cached=True)

    def step(self, tokens: Tensor) -> Tensor:
        assert self.state is not None
        hidden, self.state = self.network.decode(tokens[:, None], self.state)  # (R, 1, D)
        log_probs = self.network.project(hidden[:, 0]).float().log_softmax(dim=-1)  # (R, V)
        return log_probs.index_fill_(1, self.never_said, -torch.inf)

    def select(self, sentences: Sequence[int], beams: Tensor) -> None:
        assert self.state is not None
        self.state = self.state.select(sentences, beams)


class NativeEngine:
    """Searches with our own network, on its device; with several, an ensemble of them.

    The others have the vocabularies of the first, whose attention is the ensemble's.
    """

    def __init__(self, network: Transformer, *others: Transformer) -> None:
        self.network, self.networks = network, (network, *others)

    @property
    def parallel(self) -> int:
        return searches_beside_caller(self._device)

    @property
    def _device(self) -> torch.device:
        return self.network.src_embedding.weight.device

    @property
    def max_length(self) -> int | None:
        bounds = [
            each.config.max_length for each in self.networks if each.config.max_length is not None
        ]
        return min(bounds, default=None)

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        if not config.coverage_penalty:
            return self._search(batch, config)
        return find_and_rerank(self._search, self._covered, config.coverage_penalty, batch, config)

    def _search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        device = self._device

        def stepper(src: Tensor, src_lens: Tensor) -> Stepper:
            src, src_lens = src.to(device), src_lens.to(device)
            steppers = [ModelStepper(network, src, src_lens) for network in self.networks]
            return Ensemble(steppers) if len(steppers) > 1 else steppers[0]

        with torch.inference_mode():
            return search(
                stepper, batch, config, self.network.config.start_id, self.max_length, device=device
            )

    def _covered(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[float]:
        return [coverage(weights) for weights in self.cross_attention(src, tgt)]

    def cross_attention(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """One batch of sentences and their translations, ids without special tokens -> of each
        pair the weights (L, H, T, S), end tokens counted."""
        network, batch = self.network, self._pairs(src, tgt)
        found: list[Tensor] = []
        with torch.inference_mode():
            memory = network.encode(batch.src, batch.src_lens)
            network.decode(batch.tgt_in, network.start(memory, batch.src_lens), found)
            weights = torch.stack(found, dim=1).cpu()  # (B, L, H, T, S)
        lens = zip(weights, batch.tgt_lens.tolist(), batch.src_lens.tolist(), strict=True)
        return [each[:, :, :t, :s] for each, t, s in lens]

    def log_probs(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[Tensor]:
        """The same batch -> of each pair the log-probabilities (T,) of its translation's tokens,
        the end token last, in fp32: what a search adds up."""
        batch = self._pairs(src, tgt)
        with torch.inference_mode():
            found = torch.stack([forced_log_probs(n, batch) for n in self.networks])  # (M, B, T)
            never = torch.isin(batch.tgt_out, batch.tgt_out.new_tensor(NEVER_SAID))
            rows = mean_of_probabilities(found).masked_fill(never, -torch.inf).cpu()  # (B, T)
        return [row[:t] for row, t in zip(rows, batch.tgt_lens.tolist(), strict=True)]

    def _pairs(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> Batch:
        return make_batch(src, tgt, self.network.config.start_id).to(self._device)


def forced_log_probs(network: Transformer, batch: Batch) -> Tensor:
    """Log-probabilities (B, T) of each token of `tgt_out`, given those before it, in fp32."""
    found = []
    hidden = network(*batch[:3]).flatten(0, 1)  # (B * T, D)
    said = batch.tgt_out.flatten()  # (B * T,)
    for states, tokens in zip(hidden.split(SLICE), said.split(SLICE), strict=True):
        logits = network.project(states).float()  # (SLICE, V)
        found.append(logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1))
    return torch.cat(found).view_as(batch.tgt_out)
