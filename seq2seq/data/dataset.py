"""What a loader makes batches of."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple

from torch.utils.data import Dataset

from seq2seq.config import SubwordSampling
from seq2seq.data.batch import Batch, Ids, make_batch
from seq2seq.data.corpus import Pair
from seq2seq.data.parcel import Parcel
from seq2seq.data.sampler import Draw
from seq2seq.text.subwords import Subwords

EncodedPair = tuple[Ids, Ids]
EXCESS = 1.5
"""A batch of sampled subwords is cut if it takes more than this many times its budget: two parts
cost a sixth more time than one with more padding (docs/results.md)."""
POOL = 1 << 17
"""Tokens of sampled subwords, on the longer side, that are sorted together: half a second of one
core, and 3 MB."""


def most_tokens(batch_tokens: int, sampling: SubwordSampling) -> int:
    """Most tokens of a part of a training batch on its longer side, padding counted."""
    return batch_tokens if sampling == SubwordSampling() else int(EXCESS * batch_tokens)


def most_pairs(batch_tokens: int) -> int:
    """Most pairs of a batch where no setting says, however short they are."""
    return max(1024, batch_tokens // 4)


def batches_together(batch_tokens: int, sampling: SubwordSampling) -> int:
    """How many draws are pooled before their pairs are shared out anew, see `TrainingBatches`."""
    return 1 if sampling == SubwordSampling() else max(1, POOL // batch_tokens)


class TrainingBatches(Dataset[Parcel]):
    """dataset[draws] -> as many batches, each in parts of `most_tokens` at most.

    Usually one draw makes one batch of one part. Where subwords are sampled (Kudo 2018; Provilkov
    et al. 2020), sentences come out in other lengths than they were planned with. So the pairs of
    many draws are sorted by those lengths, and shared out anew among as many batches of like size,
    none of more than `batch_pairs`. A batch that exceeds `batch_tokens` by more than half is cut
    into its shorter and its longer sentences, until no part does. The segmentation of a sentence
    follows from (seed, corpus, epoch, index).
    """

    def __init__(
        self,
        corpora: Sequence[Sequence[Pair]],
        src: Subwords,
        tgt: Subwords,
        *,
        start_id: int,
        batch_tokens: int,
        batch_pairs: int,
        max_length: int,
        sampling: SubwordSampling = SubwordSampling(),  # noqa: B008 (frozen)
        seed: int = 0,
    ) -> None:
        self.corpora, self.sampling, self.seed = corpora, sampling, seed
        self.sides = (src, sampling.src), (tgt, sampling.tgt)
        self.start_id, self.batch_pairs = start_id, batch_pairs
        self.most_tokens, self.max_length = most_tokens(batch_tokens, sampling), max_length

    def __getitem__(self, draws: Sequence[Draw]) -> Parcel:
        pairs = [pair for draw in draws for pair in self._encoded(draw)]
        pairs.sort(key=_size)
        batches = [self._parts(each) for each in self._shared_out(pairs, len(draws))]
        Random(f"{self.seed}/{draws[0]}").shuffle(batches)
        return Parcel.of(batches)

    def _encoded(self, draw: Draw) -> Iterator[EncodedPair]:
        pairs = [self.corpora[draw.corpus][index] for index in draw.indices]
        src, tgt = (self._encode(draw, side, pairs) for side in range(2))
        return zip(src, tgt, strict=True)

    def _encode(self, draw: Draw, side: int, pairs: Sequence[Pair]) -> list[list[int]]:
        subwords, strength = self.sides[side]
        texts = [pair[side] for pair in pairs]
        if strength is None:
            return subwords.encode_all(texts, threads=1)
        encoded = []
        for index, text in zip(draw.indices, texts, strict=True):
            random = Random(f"{self.seed}/{draw.corpus}/{draw.epoch}/{index}/{side}")
            sampled = subwords.sample(text, strength, random)
            encoded.append(sampled if len(sampled) <= self.max_length else subwords.encode(text))
        return encoded

    def _shared_out(
        self, pairs: Sequence[EncodedPair], number: int
    ) -> Iterator[Sequence[EncodedPair]]:
        """The sorted pairs, cut into batches whose longer sides add up to about the same."""
        sums = list(accumulate(_longer(pair) for pair in pairs))
        begin = done = 0
        for others in range(number - 1, -1, -1):
            end = bisect(sums, done + (sums[-1] - done) / (others + 1))
            # The shortest come first: this batch gets no fewer pairs than later ones on average, so
            # they can hold the rest. One pair is left for each of them.
            end = min(end, begin + self.batch_pairs, len(pairs) - others)
            yield pairs[begin:end]
            begin, done = end, sums[end - 1]

    def _parts(self, pairs: Sequence[EncodedPair]) -> list[Batch]:
        if len(pairs) > 1 and len(pairs) * _longer(pairs[-1]) > self.most_tokens:
            half = len(pairs) // 2
            return self._parts(pairs[:half]) + self._parts(pairs[half:])
        src, tgt = zip(*pairs, strict=True)
        return [make_batch(src, tgt, self.start_id)]


def _size(pair: EncodedPair) -> tuple[int, int]:
    """Pairs whose longer sides are equal are sorted by how much longer the source is."""
    src, tgt = pair
    return _longer(pair), len(src) - len(tgt)


def _longer(pair: EncodedPair) -> int:
    """The longer side, its end token counted."""
    return max(map(len, pair)) + 1


class TextBatch(NamedTuple):
    """A batch for evaluation, with the text it came from."""

    batch: Batch
    indices: list[int]
    """Line numbers in the corpus, from 0."""
    pairs: list[Pair]


class TextBatches(Dataset[TextBatch]):
    """dataset[draw] -> TextBatch."""

    def __init__(
        self, pairs: Sequence[Pair], src: Subwords, tgt: Subwords, *, start_id: int
    ) -> None:
        self.pairs, self.src, self.tgt, self.start_id = pairs, src, tgt, start_id

    def __getitem__(self, draw: Draw) -> TextBatch:
        pairs = [self.pairs[index] for index in draw.indices]
        src = self.src.encode_all(pair.src for pair in pairs)
        tgt = self.tgt.encode_all(pair.tgt for pair in pairs)
        return TextBatch(make_batch(src, tgt, self.start_id), draw.indices, pairs)
