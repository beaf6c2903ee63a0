"""The whole trip: text, subwords, batches, search, text again."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from seq2seq.config import AttentionForm, SearchConfig, one_of
from seq2seq.data.batch import batches
from seq2seq.decoding.alignment import Links
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine, NativeEngine, check_lengths
from seq2seq.errors import ConfigError
from seq2seq.model_folder import load_model
from seq2seq.second_look import AttentionMap, SecondLook, TokenScores
from seq2seq.sentence import Sentence
from seq2seq.text.subwords import Subwords
from seq2seq.translation import BLANK
from seq2seq.translation import Translation as Translation  # what n_best gives

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
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
        batch_tokens: int = 4096,
    ) -> "Translator":
        """From a model folder or a run folder; device "auto" is a CUDA GPU where there is one.

        Half precisions (bf16, fp16) are faster where the device multiplies in them; which
        translation is found may then depend on the sentences beside it.
        """
        one_of("precision", precision, PRECISIONS)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        saved = load_model(path, attention=attention)
        try:
            network = saved.network.to(torch.device(device), PRECISIONS[precision])
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"device={device} cannot be used: {reason}") from None
        engine = NativeEngine(network)
        return cls(engine, saved.src_subwords, saved.tgt_subwords, config, batch_tokens)

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
        results = [[BLANK] for _ in sentences]
        tell = progress or (lambda _: None)
        tell(sum(not request.src for request in requests))
        for index, hypotheses in self._search(requests):
            results[index] = [
                Translation(self.tgt_subwords.decode(each.tokens), each.score, each.tokens)
                for each in hypotheses
            ]
            tell(1)
        return results

    def attention(
        self, sentences: Sequence[str], translations: Sequence[str | Translation] | None = None
    ) -> list[AttentionMap]:
        """Where the model looks while it says these translations, or else its own best ones."""
        if translations is None:
            translations = [found[0] for found in self.n_best(sentences)]
        return self._second_look.attention(sentences, translations)

    def score(
        self, sentences: Sequence[str], translations: Sequence[str | Translation], first: int = 1
    ) -> list[TokenScores]:
        """How likely these translations are; `first` is the number of the first line in errors."""
        return self._second_look.score(sentences, translations, first)

    def align(
        self, sentences: Sequence[str], translations: Sequence[str | Translation]
    ) -> list[Links]:
        """Which words of these translations stand for which words of the sentences."""
        return self._second_look.align(sentences, translations)

    def with_config(self, config: SearchConfig) -> "Translator":
        """The same model, searched in another way."""
        return Translator(
            self.engine, self.src_subwords, self.tgt_subwords, config, self.batch_tokens
        )

    @property
    def _second_look(self) -> SecondLook:
        return SecondLook(self.engine, self.src_subwords, self.tgt_subwords, self.batch_tokens)

    def _requests(self, sentences: Sequence[str | Sentence]) -> list[Request]:
        whole = [Sentence(each) if isinstance(each, str) else each for each in sentences]
        src = self.src_subwords.encode_all([each.text for each in whole])
        check_lengths(self.engine, src, "sentence", first=1)
        prefixes = self.tgt_subwords.encode_all([each.prefix for each in whole])
        check_lengths(self.engine, prefixes, "prefix", first=1)
        return [Request(ids, prefix) for ids, prefix in zip(src, prefixes, strict=True)]

    def _search(self, requests: Sequence[Request]) -> Iterator[tuple[int, Sequence[Hypothesis]]]:
        """The index of each sentence with text and what was found for it, at least NOTHING."""
        for batch in self._batches([request.src for request in requests]):
            found = self.engine.search([requests[index] for index in batch], self.config)
            for index, hypotheses in zip(batch, found, strict=True):
                yield index, hypotheses or [NOTHING]

    def _batches(self, encoded: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Indices of sentences with text, longest first, padded source tokens within budget."""
        there = [index for index, ids in enumerate(encoded) if ids]
        for batch in batches([len(encoded[index]) + 1 for index in there], self.batch_tokens):
            yield [there[place] for place in batch]
