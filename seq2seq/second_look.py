"""What a model thinks of finished translations.

It is asked when somebody wants to know, by one forced pass over sentence and translation, so that
no search has to keep it. Translations are texts, or what a search has found: then it is the very
subwords of the search that are looked at.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor

from seq2seq.config import EOS_ID
from seq2seq.data.batch import Ids, batches
from seq2seq.decoding.alignment import Links, align
from seq2seq.engine import Engine, asked
from seq2seq.errors import SentenceError
from seq2seq.memory import attempt
from seq2seq.pipeline import CallersThread, InFlight, OwnThreads, with_autocast_of_caller
from seq2seq.sentence import check_length, check_list, check_type
from seq2seq.text.normalize import shortened
from seq2seq.text.subwords import Subwords
from seq2seq.translation import BLANK, Translation

Look = Callable[[Sequence[Ids], Sequence[Ids]], list[Tensor]]


class TokenScores(NamedTuple):
    """How likely the model finds a translation, subword by subword."""

    tokens: list[str]
    """T subwords, the end token last."""
    log_probs: list[float]
    """Natural logarithms of their probabilities, given the sentence and the tokens before."""

    @property
    def total(self) -> float:
        """Log-probability of the whole."""
        return math.fsum(self.log_probs)


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


class SecondLook:
    """Asks an engine about sentences and their translations, line by line, blank ones too.

    It asks where searches do, in the threads of the pool: Ctrl-C, which stops the caller, must not
    come between a question and its answer.
    """

    def __init__(
        self,
        engine: Engine,
        pool: CallersThread | OwnThreads,
        src_subwords: Subwords,
        tgt_subwords: Subwords,
        batch_tokens: int,
    ) -> None:
        self.engine, self.pool, self.batch_tokens = engine, pool, batch_tokens
        self.src_subwords, self.tgt_subwords = src_subwords, tgt_subwords

    def score(
        self, sentences: Sequence[str], translations: Sequence[str | Translation], first: int
    ) -> list[TokenScores]:
        """`first` is the number of the first line in errors. A BLANK translation has no tokens."""
        src, tgt = self._encoded(sentences, translations, first)
        found: dict[int, TokenScores] = {}
        for index, log_probs in self._looks("log_probs", src, tgt):
            tokens = self.tgt_subwords.pieces([*tgt[index], EOS_ID])
            found[index] = TokenScores(tokens, log_probs.tolist())
        nothing = TokenScores([], [])
        return [
            nothing if said == BLANK else found[index] for index, said in enumerate(translations)
        ]

    def align(
        self, sentences: Sequence[str], translations: Sequence[str | Translation]
    ) -> list[Links]:
        """Words are what stands between spaces, in the texts as given."""
        src, tgt = self._encoded(sentences, translations)
        found: dict[int, Links] = {}
        for index, weights in self._looks("cross_attention", src, tgt):
            said = translations[index]
            src_words = self.src_subwords.written_words(sentences[index])
            tgt_words = (
                self.tgt_subwords.written_words(said)
                if isinstance(said, str)
                else self.tgt_subwords.words(tgt[index])
            )
            found[index] = align(weights, [*src_words, -1], [*tgt_words, -1])
        return [found[index] for index in range(len(src))]

    def attention(
        self, sentences: Sequence[str], translations: Sequence[str | Translation]
    ) -> list[AttentionMap]:
        """Where the model looks while it says these translations."""
        src, tgt = self._encoded(sentences, translations)
        found: dict[int, AttentionMap] = {}
        for index, weights in self._looks("cross_attention", src, tgt):
            found[index] = AttentionMap(
                self.tgt_subwords.decode(tgt[index]),
                self.src_subwords.pieces([*src[index], EOS_ID]),
                self.tgt_subwords.pieces([*tgt[index], EOS_ID]),
                weights,
            )
        return [found[index] for index in range(len(src))]

    def _encoded(
        self, sentences: Sequence[str], translations: Sequence[str | Translation], first: int = 1
    ) -> tuple[list[list[int]], list[Ids]]:
        check_list("sentences", sentences)
        check_list("translations", translations)
        if len(sentences) != len(translations):
            raise SentenceError(
                f"sentences: {len(sentences)}, but translations: {len(translations)}; translation "
                f"n must be one of sentence n."
            )
        for number, pair in enumerate(zip(sentences, translations, strict=True), start=first):
            check_type(f"sentence {number}", pair[0], str)
            check_type(f"translation {number}", pair[1], str, Translation)
        texts = [each if isinstance(each, str) else each.text for each in translations]
        src = self.src_subwords.encode_all(sentences)
        tgt: list[Ids] = [*self.tgt_subwords.encode_all(texts)]
        for index, each in enumerate(translations):
            if isinstance(each, Translation) and each.tokens is not None:
                tgt[index] = each.tokens
        for what, encoded in (("sentence", src), ("translation", tgt)):
            for number, ids in enumerate(encoded, start=first):
                check_length(ids, f"{what} {number}", self.engine.max_length)
        return src, tgt

    def _looks(
        self, question: str, src: Sequence[Ids], tgt: Sequence[Ids]
    ) -> Iterator[tuple[int, Tensor]]:
        """The index of each pair and what was seen, as soon as it is: attention maps are large."""
        look = with_autocast_of_caller(asked(self.engine, question))
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(src, tgt, strict=True)]
        see = partial(self._see, look, src, tgt)
        with InFlight[list[tuple[int, Tensor]]](self.pool) as running:
            for batch in batches(lengths, self.batch_tokens):
                for seen in running.ask(see, batch):
                    yield from seen
            for seen in running.rest():
                yield from seen

    def _see(
        self, look: Look, src: Sequence[Ids], tgt: Sequence[Ids], batch: Sequence[int]
    ) -> list[tuple[int, Tensor]]:
        """The same of one batch, in halves if memory does not suffice for the whole."""
        seen = attempt(partial(look, [src[i] for i in batch], [tgt[i] for i in batch]))
        if seen is not None:
            return list(zip(batch, seen, strict=True))
        if len(batch) == 1:
            (alone,) = batch
            raise SentenceError(
                f"{shortened(self.src_subwords.decode(src[alone]))!r}: its {len(src[alone]) + 1} "
                f"subwords and the {len(tgt[alone]) + 1} of its translation alone do not fit into "
                f"memory; shorten or split it."
            )
        middle = len(batch) // 2
        halves = batch[:middle], batch[middle:]
        return [each for half in halves for each in self._see(look, src, tgt, half)]
