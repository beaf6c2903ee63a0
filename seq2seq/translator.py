"""The whole trip: text, subwords, batches, search, text again."""

import copy
import importlib
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TypeVar, get_args

import torch
from torch import nn

from seq2seq.config import RERANK_WEIGHT, UNK_ID, AttentionForm, SearchConfig, at_least, one_of
from seq2seq.decoding.alignment import Links
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis, length_penalty
from seq2seq.engine import Engine, NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import (
    find_model,
    load_subwords,
    load_together,
    read_description,
    warn_of_other_languages,
)
from seq2seq.nn.attention import avoid_cudnn_attention
from seq2seq.nn.packed import pack
from seq2seq.noisy_channel import NoisyChannelEngine
from seq2seq.pipeline import Line, Pipeline, searchers
from seq2seq.second_look import AttentionMap, SecondLook, TokenScores
from seq2seq.sentence import Sentence, TooLong, check_length, check_list, check_type
from seq2seq.text.normalize import clean
from seq2seq.text.pieces import join, split
from seq2seq.text.subwords import Subwords
from seq2seq.text.terms import Terms, shared
from seq2seq.translation import BLANK
from seq2seq.translation import Translation as Translation  # what n_best gives
from seq2seq.workers import WorkersEngine

AnyModule = TypeVar("AnyModule", bound=nn.Module)
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WIDE = 16
"""Up to so many hypotheses of a sentence, batches are as large as `batch_tokens` says. Each of W
looks at the slots of all W: a step's memory grows with W squared, and batches shrink as much."""
NOTHING = Hypothesis([], -math.inf)
"""What is found with a network that has diverged: every score is NaN."""


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
        one_of("too_long", too_long, get_args(TooLong))
        at_least("batch_tokens", batch_tokens, 1)
        if max_length is not None:
            at_least("max_length", max_length, 2)
        self.engine, self.config = engine, config or SearchConfig()
        self.src_subwords, self.tgt_subwords = src_subwords, tgt_subwords
        self.batch_tokens, self.too_long = batch_tokens, too_long
        bounds = [each for each in (max_length, engine.max_length) if each is not None]
        self.max_length = min(bounds, default=None)
        self._pool = searchers(engine.parallel)

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
        max_length: int | None = None,
        too_long: TooLong = "split",
        workers: int = 1,
        ensemble: Sequence[str | Path] = (),
        rerank: str | Path | None = None,
        rerank_weight: float = RERANK_WEIGHT,
        engine: str = "native",
    ) -> "Translator":
        """From a model folder or a run folder; device "auto" is a CUDA GPU where there is one, and
        more than one worker are processes that search side by side (see `WorkersEngine`). Models of
        an `ensemble` decide together with it; they must have its subwords. With `rerank` a model of
        the other direction has a say, of this weight (see `NoisyChannelEngine`).

        Half precisions (bf16, fp16) are faster where the device multiplies in them; which
        translation is found may then depend on the sentences beside it. The precision, not
        autocast, decides in which type large matrices multiply. Another library as `engine`
        ("ctranslate2") takes folders that were exported to it, too.
        """
        one_of("precision", precision, PRECISIONS)
        if isinstance(ensemble, str | Path):
            raise ConfigError(f"ensemble={ensemble} is one model; give a list of models.")
        at_least("workers", workers, 1)
        at_least("rerank_weight", rerank_weight, 0)
        native = partial(load_engine, device=device, precision=precision, attention=attention)
        make: Callable[[], Engine]
        if engine == "native":
            folder, make = find_model(path), partial(native, [path, *ensemble])
            _, *languages = read_description(folder)
        else:  # imported by name: it is in a layer above this one, and few have its library
            if ensemble:
                raise ConfigError(f"ensemble: engine={engine} has none; use the native engine.")
            interop = importlib.import_module("seq2seq.interop.targets")
            folder = interop.find(path, engine)
            make = partial(interop.load, path, engine, device=device, precision=precision)
            languages = interop.languages(folder)
        warn_of_other_languages(languages, ensemble, rerank)
        if rerank is not None:
            folders = folder, find_model(rerank)
            backward = partial(native, [rerank])
            make = partial(make_noisy_channel, make, backward, folders, rerank_weight)
        src, tgt = load_subwords(folder)
        made = make() if workers == 1 else WorkersEngine(make, workers)
        return cls(made, src, tgt, config, batch_tokens, max_length=max_length, too_long=too_long)

    def translate(self, sentences: Sequence[str | Sentence]) -> list[str]:
        """The first of the `n_best` of each sentence; one str as `sentences` is a SentenceError."""
        return [translations[0].text for translations in self.n_best(sentences)]

    def n_best(self, sentences: Sequence[str | Sentence]) -> list[list[Translation]]:
        """`config.n_best` translations of each sentence, best first, or, if the search found fewer,
        those. The n-th of a sentence that was split joins the n-th best of its pieces, whose score
        as a whole may be above that of the one before.
        """
        return list(self.stream(sentences))

    def stream(
        self, sentences: Iterable[str | Sentence], first: int = 1
    ) -> Generator[list[Translation], None, None]:
        """The same one after the other, in memory that does not grow, for any number of sentences.

        `first` is the number of the first one in errors. An error of one sentence, or of
        `sentences` itself, comes after the translations of all before it.
        """
        check_list("sentences", sentences)
        lines = (self._line(each, number) for number, each in enumerate(sentences, start=first))
        for line in self._pipeline().run(lines):
            yield self._translations(line)

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
        other = copy.copy(self)
        other.config = config
        return other

    def _pipeline(self) -> Pipeline:
        config = self.config
        width = config.beam if config.sampling is None else config.n_best
        tokens = max(1, self.batch_tokens * WIDE**2 // max(width, WIDE) ** 2)
        return Pipeline(lambda batch: self.engine.search(batch, config), self._pool, tokens)

    @property
    def _second_look(self) -> SecondLook:
        return SecondLook(
            self.engine, self._pool, self.src_subwords, self.tgt_subwords, self.batch_tokens
        )

    def _line(self, sentence: str | Sentence, number: int) -> Line:
        check_type(f"sentence {number}", sentence, str, Sentence)
        whole = Sentence(sentence) if isinstance(sentence, str) else sentence
        check_list("terms", whole.terms)
        place = number - 1 if whole.number is None else whole.number
        request = self._request(whole, place)
        check_length(request.prefix, f"prefix {number}", self.engine.max_length)
        if UNK_ID in request.prefix:
            raise SentenceError(
                f"prefix {number} {whole.prefix!r} has a character that this model cannot write; "
                f"leave it out, or train with data.subwords.byte_fallback=true."
            )
        if not self._fits(request.src) and self.too_long == "split":
            pieces = self._pieces(whole, place)
            if all(self._fits(piece.src) for piece in pieces):
                return Line(number, pieces)
        if self.max_length == self.engine.max_length:
            check_length(request.src, f"sentence {number}", self.max_length)
        check_length(request.src, f"sentence {number}", self.max_length, "max_length is")
        return Line(number, [request] if request.src else [])

    def _pieces(self, whole: Sentence, place: int) -> list[Request]:
        """The pieces of a sentence that is too long, without those that are blank to the model."""
        encode = self.src_subwords.encode
        parts = split(clean(whole.text), lambda text: self._fits(encode(text)))
        parts = [part for part in parts if encode(part.text)]
        prefixes = [whole.prefix, *repeat("", len(parts) - 1)]
        shares = shared(whole.terms, whole.origins, parts)
        return [
            self._request(Sentence(part.text, prefix, terms), place, piece)
            for piece, (part, prefix, terms) in enumerate(zip(parts, prefixes, shares, strict=True))
        ]

    def _request(self, sentence: Sentence, line: int, piece: int = 0) -> Request:
        src = self.src_subwords.encode(sentence.text)
        prefix = self.tgt_subwords.encode(sentence.prefix)
        constraint = Terms(sentence.terms, self.tgt_subwords) if sentence.terms else None
        return Request(src, prefix, constraint, (line, piece))

    def _translations(self, line: Line) -> list[Translation]:
        """One piece after the other: the best of each, the second best of each ..."""
        if not line.pieces:
            return [BLANK]
        found = [line.found[place] or [NOTHING] for place in range(len(line.pieces))]
        ranks = range(max(map(len, found)))
        return [self._joined([each[min(rank, len(each) - 1)] for each in found]) for rank in ranks]

    def _joined(self, hypotheses: Sequence[Hypothesis]) -> Translation:
        text = join([self.tgt_subwords.decode(each.tokens) for each in hypotheses])
        if len(hypotheses) == 1:
            return Translation(text, hypotheses[0].score, hypotheses[0].tokens)
        # As if it had been said at once: where scores are log-probabilities over the penalty, their
        # sum over one penalty.
        lengths = [len(each.tokens) + 1 for each in hypotheses]
        penalties = [length_penalty(length, self.config) for length in lengths]
        total = sum(each.score * p for each, p in zip(hypotheses, penalties, strict=True))
        score = total / length_penalty(sum(lengths), self.config)
        return Translation(text, score, pieces=len(hypotheses))

    def _fits(self, ids: Sequence[int]) -> bool:
        return self.max_length is None or len(ids) < self.max_length


def make_noisy_channel(
    make: Callable[[], Engine],
    backward: Callable[[], NativeEngine],
    folders: tuple[Path, Path],
    weight: float,
) -> NoisyChannelEngine:
    """An engine of two, with the subwords of these folders, one for each."""
    sides, other_sides = map(load_subwords, folders)
    return NoisyChannelEngine(make(), sides, backward(), other_sides, weight)


def load_engine(
    paths: Sequence[str | Path], *, device: str, precision: str, attention: AttentionForm
) -> NativeEngine:
    """The networks of model folders, on a device: an ensemble, if they are several."""
    models = load_together(paths, attention=attention)
    networks = [moved(model.network, device, PRECISIONS[precision]) for model in models]
    if networks[0].src_embedding.weight.is_cuda:
        avoid_cudnn_attention()
    for network in networks:
        pack(network)
    return NativeEngine(*networks)


def moved(network: AnyModule, device: str, dtype: torch.dtype | None = None) -> AnyModule:
    """On a device, "auto" being a CUDA GPU where there is one; ConfigError if it cannot be used."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return network.to(torch.device(device), dtype)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device={device} cannot be used: {reason}") from None
