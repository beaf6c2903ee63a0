"""The whole trip: text, subwords, batches, search, text again.

An Engine turns encoded sentences into hypotheses. The native one is here; engines of other
libraries are objects that an app hands over.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, AttentionForm, SearchConfig
from seq2seq.data.batch import Batch, make_batch, pad
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.greedy import greedy_search
from seq2seq.decoding.search import Hypothesis, Search
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import load_model
from seq2seq.nn.state import DecoderState
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords

SEARCHES: dict[str, Search] = {"greedy": greedy_search, "beam": beam_search}


class Engine(Protocol):
    """Finds translations of encoded sentences."""

    @property
    def max_length(self) -> int | None:
        """Most source tokens, the end token counted; None for no bound."""

    def search(self, src: Sequence[Sequence[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        """One batch of sentences, ids without special tokens -> n best of each."""


class Translation(NamedTuple):
    """One way to say it."""

    text: str
    score: float
    """Log-probability over the length penalty."""


class AttentionMap(NamedTuple):
    """Where the decoder looked while it said a translation."""

    translation: str
    src: list[str]
    """S subwords, the end token last."""
    tgt: list[str]
    """T subwords, the end token last."""
    weights: Tensor
    """(L, H, T, S) in fp32, of each layer and head: when it chose tgt[t], how much it looked at
    src[s]; sums to 1 over s."""


NOTHING = Hypothesis([], -math.inf)
"""What is found with a network that has diverged: every score is NaN."""


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

    def search(self, src: Sequence[Sequence[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        device = self.network.output.weight.device
        with torch.inference_mode():
            tokens, src_lens = pad([[*ids, EOS_ID] for ids in src])
            limits = torch.tensor([config.max_length(len(ids)) for ids in src])
            if self.network.max_length is not None:
                limits = limits.clamp(max=self.network.max_length)
            stepper = ModelStepper(self.network, tokens.to(device), src_lens.to(device))
            search = SEARCHES["greedy" if config.beam == 1 else "beam"]
            return search(stepper, limits.to(device), self.network.start_id, config)

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


class Translator:
    """Translates lists of sentences, in order, blank ones to blank ones.

    translator = Translator.load("runs/demo/model")
    translator.translate(["A sentence.", "Another one."])
    """

    def __init__(
        self,
        engine: Engine,
        src_subwords: Subwords,
        tgt_subwords: Subwords,
        config: SearchConfig | None = None,
        batch_tokens: int = 4096,
    ) -> None:
        self.engine, self.config = engine, config or SearchConfig()
        self.src_subwords, self.tgt_subwords = src_subwords, tgt_subwords
        self.batch_tokens = batch_tokens

    @classmethod
    def load(
        cls,
        path: str | Path,
        config: SearchConfig | None = None,
        *,
        device: str = "auto",
        attention: AttentionForm = "auto",
        batch_tokens: int = 4096,
    ) -> "Translator":
        """From a model folder or a run folder; device "auto" is a CUDA GPU where there is one."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        saved = load_model(path, attention=attention)
        try:
            network = saved.network.to(torch.device(device))
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"device={device} cannot be used: {reason}") from None
        engine = NativeEngine(network)
        return cls(engine, saved.src_subwords, saved.tgt_subwords, config, batch_tokens)

    def translate(
        self, sentences: Sequence[str], progress: Callable[[int], object] | None = None
    ) -> list[str]:
        """The best translation of each sentence."""
        best = self.with_config(replace(self.config, n_best=1)).n_best(sentences, progress)
        return [translations[0].text for translations in best]

    def n_best(
        self, sentences: Sequence[str], progress: Callable[[int], object] | None = None
    ) -> list[list[Translation]]:
        """`config.n_best` translations of each sentence or, if the search found fewer, those.

        `progress` is called with the number of sentences that have just been finished.
        """
        encoded = self.src_subwords.encode_all(sentences)
        self._check_lengths(encoded, "sentence")
        results = [[Translation("", 0.0)] for _ in sentences]
        tell = progress or (lambda _: None)
        tell(sum(not ids for ids in encoded))
        for index, hypotheses in self._search(encoded):
            results[index] = [
                Translation(self.tgt_subwords.decode(each.tokens), each.score)
                for each in hypotheses
            ]
            tell(1)
        return results

    def attention(
        self, sentences: Sequence[str], translations: Sequence[str] | None = None
    ) -> list[AttentionMap]:
        """Where the model looks while it says these translations, or else its own best ones."""
        assert isinstance(self.engine, NativeEngine), "another engine keeps its weights to itself"
        src = self.src_subwords.encode_all(sentences)
        self._check_lengths(src, "sentence")
        if translations is None:
            tgt: list[list[int]] = [[] for _ in src]
            for index, hypotheses in self._search(src):
                tgt[index] = hypotheses[0].tokens
        else:
            tgt = self.tgt_subwords.encode_all(translations)
            self._check_lengths(tgt, "translation")
        weights: dict[int, Tensor] = {}
        for batch in self._batches([[*ids, EOS_ID] for ids in src]):  # blank ones, too
            told = self.engine.cross_attention([src[i] for i in batch], [tgt[i] for i in batch])
            weights.update(zip(batch, told, strict=True))
        return [
            AttentionMap(
                self.tgt_subwords.decode(tgt[index]),
                self.src_subwords.pieces([*src[index], EOS_ID]),
                self.tgt_subwords.pieces([*tgt[index], EOS_ID]),
                weights[index],
            )
            for index in range(len(src))
        ]

    def with_config(self, config: SearchConfig) -> "Translator":
        """The same model, searched in another way."""
        return Translator(
            self.engine, self.src_subwords, self.tgt_subwords, config, self.batch_tokens
        )

    def _check_lengths(self, encoded: Sequence[Sequence[int]], what: str) -> None:
        longest = self.engine.max_length
        for number, ids in enumerate(encoded, start=1):
            if longest is not None and len(ids) + 1 > longest:
                raise SentenceError(
                    f"{what} {number} has {len(ids) + 1} subwords, the end token counted, but "
                    f"this model's positions end at {longest}; split the sentence."
                )

    def _search(
        self, encoded: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, Sequence[Hypothesis]]]:
        """The index of each sentence with text and what was found for it, at least NOTHING."""
        for batch in self._batches(encoded):
            found = self.engine.search([encoded[index] for index in batch], self.config)
            for index, hypotheses in zip(batch, found, strict=True):
                yield index, hypotheses or [NOTHING]

    def _batches(self, encoded: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Indices of sentences with text, longest first, padded source tokens within budget."""
        order = [index for index, ids in enumerate(encoded) if ids]
        order.sort(key=lambda index: len(encoded[index]), reverse=True)
        start = 0
        while start < len(order):
            size = max(1, self.batch_tokens // (len(encoded[order[start]]) + 1))
            yield order[start : start + size]
            start += size
