"""The whole trip: text, subwords, batches, search, text again."""

import copy
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seq2seq.config import EOS_ID, AttentionForm, SearchConfig, at_least, one_of
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis, length_penalty
from seq2seq.engine import Engine, NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import find_model, load_model, load_subwords
from seq2seq.pipeline import Line, Pipeline, batches
from seq2seq.sentence import Sentence
from seq2seq.text.pieces import join, split
from seq2seq.text.subwords import Subwords
from seq2seq.workers import WorkersEngine


class Translation(NamedTuple):
    """One way to say it."""

    text: str
    score: float
    """Log-probability over the length penalty."""
    pieces: int = 1
    """How many the sentence was split into because it was too long."""


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

TooLong = Literal["split", "error"]


class Translator:
    """Translates sentences, in order, blank ones to blank ones.

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
        *,
        max_length: int | None = None,
        too_long: TooLong = "split",
    ) -> None:
        """`max_length`: most source subwords of a sentence, the end token counted; never more than
        the engine takes. A longer one is split, each piece translated alone, or an error."""
        one_of("too_long", too_long, ("split", "error"))
        self.engine, self.config = engine, config or SearchConfig()
        self.src_subwords, self.tgt_subwords = src_subwords, tgt_subwords
        self.batch_tokens, self.too_long = batch_tokens, too_long
        self.max_length = min(filter(None, (max_length, engine.max_length)), default=None)

    @classmethod
    def load(
        cls,
        path: str | Path,
        config: SearchConfig | None = None,
        *,
        device: str = "auto",
        attention: AttentionForm = "auto",
        batch_tokens: int = 4096,
        max_length: int | None = None,
        too_long: TooLong = "split",
        workers: int = 1,
    ) -> "Translator":
        """From a model folder or a run folder; device "auto" is a CUDA GPU where there is one, and
        more than one worker are processes that search side by side (see `WorkersEngine`)."""
        at_least("workers", workers, 1)
        make = partial(load_engine, path, device=device, attention=attention)
        src, tgt = load_subwords(find_model(path))
        engine = make() if workers == 1 else WorkersEngine(make, workers)
        return cls(engine, src, tgt, config, batch_tokens, max_length=max_length, too_long=too_long)

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
        results = []
        for translations in self.stream(sentences):
            results.append(translations)
            if progress is not None:
                progress(1)
        return results

    def stream(
        self, sentences: Iterable[str | Sentence], first: int = 1
    ) -> Generator[list[Translation], None, None]:
        """The same one after the other, in memory that does not grow, for any number of sentences.

        `first` is the number of the first one in errors. An error of one sentence, or of
        `sentences` itself, comes after the translations of all before it.
        """
        lines = (self._line(each, number) for number, each in enumerate(sentences, start=first))
        for line in self._pipeline().run(lines):
            yield self._translations(line)

    def attention(
        self, sentences: Sequence[str], translations: Sequence[str] | None = None
    ) -> list[AttentionMap]:
        """Where the model looks while it says these translations, or else its own best ones."""
        assert isinstance(self.engine, NativeEngine), "another engine keeps its weights to itself"
        src = self.src_subwords.encode_all(sentences)
        for number, ids in enumerate(src, start=1):
            self._check_positions(ids, f"sentence {number}")
        if translations is None:
            lines = [Line(n, [Request(ids)] if ids else []) for n, ids in enumerate(src, start=1)]
            found = (line.found.get(0) for line in self._pipeline().run(lines))
            tgt = [hypotheses[0].tokens if hypotheses else [] for hypotheses in found]
        else:
            tgt = self.tgt_subwords.encode_all(translations)
            for number, ids in enumerate(tgt, start=1):
                self._check_positions(ids, f"translation {number}")
        weights: dict[int, Tensor] = {}
        for batch in batches([len(ids) + 1 for ids in src], self.batch_tokens):
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
        other = copy.copy(self)
        other.config = config
        return other

    def _pipeline(self) -> Pipeline:
        return Pipeline(
            lambda batch: self.engine.search(batch, self.config),
            parallel=self.engine.parallel,
            batch_tokens=self.batch_tokens,
        )

    def _line(self, sentence: str | Sentence, number: int) -> Line:
        whole = Sentence(sentence) if isinstance(sentence, str) else sentence
        request = self._request(whole)
        self._check_positions(request.prefix, f"prefix {number}")
        if self._fits(request.src):
            return Line(number, [request] if request.src else [])
        if self.too_long == "split":
            texts = split(whole.text, lambda text: self._fits(self.src_subwords.encode(text)))
            sentences = [replace(whole, text=texts[0])]
            sentences += [replace(whole, text=text, prefix="") for text in texts[1:]]
            pieces = [piece for piece in map(self._request, sentences) if piece.src]
            if all(self._fits(piece.src) for piece in pieces):
                return Line(number, pieces)
        self._check_positions(request.src, f"sentence {number}")
        raise _too_long(request.src, f"sentence {number}", f"max_length is {self.max_length}")

    def _request(self, sentence: Sentence) -> Request:
        src = self.src_subwords.encode(sentence.text)
        return Request(src, self.tgt_subwords.encode(sentence.prefix))

    def _translations(self, line: Line) -> list[Translation]:
        """One piece after the other: the best of each, the second best of each ..."""
        if not line.pieces:
            return [Translation("", 0.0)]
        found = [line.found[place] or [NOTHING] for place in range(len(line.pieces))]
        ranks = range(max(map(len, found)))
        return [self._joined([each[min(rank, len(each) - 1)] for each in found]) for rank in ranks]

    def _joined(self, hypotheses: Sequence[Hypothesis]) -> Translation:
        text = join([self.tgt_subwords.decode(each.tokens) for each in hypotheses])
        if len(hypotheses) == 1:
            return Translation(text, hypotheses[0].score)
        # As if it had been said at once: the sum of all log-probabilities over one penalty.
        lengths = [len(each.tokens) + 1 for each in hypotheses]
        penalties = [length_penalty(length, self.config) for length in lengths]
        total = sum(each.score * p for each, p in zip(hypotheses, penalties, strict=True))
        score = total / length_penalty(sum(lengths), self.config)
        return Translation(text, score, len(hypotheses))

    def _fits(self, ids: Sequence[int]) -> bool:
        return self.max_length is None or len(ids) < self.max_length

    def _check_positions(self, ids: Sequence[int], what: str) -> None:
        longest = self.engine.max_length
        if longest is not None and len(ids) >= longest:
            raise _too_long(ids, what, f"this model's positions end at {longest}")


def _too_long(ids: Sequence[int], what: str, limit: str) -> SentenceError:
    return SentenceError(
        f"{what} has {len(ids) + 1} subwords, the end token counted, but {limit}; split it."
    )


def load_engine(path: str | Path, *, device: str, attention: AttentionForm) -> NativeEngine:
    """The network of a model folder, on a device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    network = load_model(path, attention=attention).network
    try:
        return NativeEngine(network.to(torch.device(device)))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device={device} cannot be used: {reason}") from None
