"""The whole trip: text, subwords, batches, search, text again."""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, AttentionForm, SearchConfig, one_of
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine, NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import load_model
from seq2seq.sentence import Sentence
from seq2seq.text.subwords import Subwords

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


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
        precision: str = "fp32",
        attention: AttentionForm = "auto",
        engine: str = "native",
        batch_tokens: int = 4096,
    ) -> "Translator":
        """From a model folder or a run folder; device "auto" is a CUDA GPU where there is one.

        Half precisions (bf16, fp16) are faster where the device multiplies in them; which
        translation is found may then depend on the sentences beside it. Another library's `engine`
        ("ctranslate2") takes folders that were exported to it, too.
        """
        one_of("precision", precision, PRECISIONS)
        if engine != "native":
            # By name: it stands on a higher floor, and few have its library.
            load = importlib.import_module("seq2seq.interop.targets").load
            return cls(*load(path, engine, device, precision), config, batch_tokens)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        saved = load_model(path, attention=attention)
        try:
            network = saved.network.to(torch.device(device), PRECISIONS[precision])
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"device={device} cannot be used: {reason}") from None
        native = NativeEngine(network)
        return cls(native, saved.src_subwords, saved.tgt_subwords, config, batch_tokens)

    def translate(
        self, sentences: Sequence[str | Sentence], progress: Callable[[int], object] | None = None
    ) -> list[str]:
        """The best translation of each sentence."""
        best = self.with_config(replace(self.config, n_best=1)).n_best(sentences, progress)
        return [translations[0].text for translations in best]

    def n_best(
        self, sentences: Sequence[str | Sentence], progress: Callable[[int], object] | None = None
    ) -> list[list[Translation]]:
        """`config.n_best` translations of each sentence or, if the search found fewer, those.

        `progress` is called with the number of sentences that have just been finished.
        """
        requests = self._requests(sentences)
        results = [[Translation("", 0.0)] for _ in sentences]
        tell = progress or (lambda _: None)
        tell(sum(not request.src for request in requests))
        for index, hypotheses in self._search(requests):
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
        requests = self._requests(sentences)
        src = [request.src for request in requests]
        if translations is None:
            tgt: list[list[int]] = [[] for _ in src]
            for index, hypotheses in self._search(requests):
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

    def _requests(self, sentences: Sequence[str | Sentence]) -> list[Request]:
        whole = [Sentence(each) if isinstance(each, str) else each for each in sentences]
        src = self.src_subwords.encode_all([each.text for each in whole])
        self._check_lengths(src, "sentence")
        prefixes = self.tgt_subwords.encode_all([each.prefix for each in whole])
        self._check_lengths(prefixes, "prefix")
        return [Request(ids, prefix) for ids, prefix in zip(src, prefixes, strict=True)]

    def _check_lengths(self, encoded: Sequence[Sequence[int]], what: str) -> None:
        longest = self.engine.max_length
        for number, ids in enumerate(encoded, start=1):
            if longest is not None and len(ids) + 1 > longest:
                raise SentenceError(
                    f"{what} {number} has {len(ids) + 1} subwords, the end token counted, but "
                    f"this model's positions end at {longest}; split the sentence."
                )

    def _search(self, requests: Sequence[Request]) -> Iterator[tuple[int, Sequence[Hypothesis]]]:
        """The index of each sentence with text and what was found for it, at least NOTHING."""
        for batch in self._batches([request.src for request in requests]):
            found = self.engine.search([requests[index] for index in batch], self.config)
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
