"""A model of the other direction has a say: would this translation be translated back?"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.config import RERANK_WEIGHT, UNK_ID, SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.decoding.rerank import find_and_rerank
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import Engine, ScoringEngine, asked
from seq2seq.text.pieces import language_tag
from seq2seq.text.subwords import Subwords

Sides = tuple[Subwords, Subwords]
"""Of the source and of the target of a model."""


class NoisyChannelEngine:
    """Finds translations y of x with one engine, and ranks all that its search keeps by

        score(y) + weight * log P(x | y) / |x|

    where another engine, of the other direction, knows P, and |x| counts its subwords and the end
    (Yee et al. 2019, without their language model). Between the two stands text: their subwords may
    differ. A language tag that x begins with, positions beyond the ends of the other one's, and
    characters that one of them cannot write have no say.
    """

    def __init__(
        self,
        engine: Engine,
        subwords: Sides,
        backward: ScoringEngine,
        backward_subwords: Sides,
        weight: float = RERANK_WEIGHT,
    ) -> None:
        self.engine, self.backward, self.weight = engine, backward, weight
        self.subwords, self.backward_subwords = subwords, backward_subwords

    @property
    def max_length(self) -> int | None:
        return self.engine.max_length

    @property
    def parallel(self) -> int:
        return self.engine.parallel

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        return find_and_rerank(self.engine.search, self.channel, self.weight, batch, config)

    def channel(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[float]:
        """Of each sentence, given its translation, log P(x | y) / |x|."""
        (src_side, tgt_side), (from_side, to_side) = self.subwords, self.backward_subwords
        given = from_side.encode_all([tgt_side.decode(ids) for ids in tgt])
        wanted = to_side.encode_all([untagged(src_side.decode(known(ids))) for ids in src])
        longest = self.backward.max_length
        if longest is not None:
            given, wanted = ([ids[: longest - 1] for ids in each] for each in (given, wanted))
        found = self.backward.log_probs(given, wanted)
        means = [float(each[each != -torch.inf].sum()) / len(each) for each in found]
        return [-math.inf if math.isnan(mean) else mean for mean in means]

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        found: list[Tensor] = asked(self.engine, "log_probs")(src, tgt)
        return found

    def cross_attention(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        found: list[Tensor] = asked(self.engine, "cross_attention")(src, tgt)
        return found


def known(ids: Ids) -> list[int]:
    """Without what stands for a character that has no subwords."""
    return [each for each in ids if each != UNK_ID]


def untagged(text: str) -> str:
    """Without its language tag."""
    return text[len(language_tag(text)) :]
