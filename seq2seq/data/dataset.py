"""Encoded corpora, and what a loader makes batches of."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch.utils.data import DataLoader, Dataset

from seq2seq.data.batch import Batch, make_batch
from seq2seq.data.corpus import Pair
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.store import TokenStore
from seq2seq.text.subwords import Subwords


class EncodedCorpus:
    """Pairs and their subwords."""

    def __init__(self, pairs: Sequence[Pair], src: TokenStore, tgt: TokenStore) -> None:
        self.pairs, self.src, self.tgt = pairs, src, tgt

    @classmethod
    def encode(cls, pairs: Sequence[Pair], src: Subwords, tgt: Subwords) -> "EncodedCorpus":
        """Segment both sides."""
        src_ids = TokenStore(src.encode_all(pair.src for pair in pairs))
        return cls(pairs, src_ids, TokenStore(tgt.encode_all(pair.tgt for pair in pairs)))

    def subset(self, kept: Sequence[int]) -> "EncodedCorpus":
        """Only these pairs, in this order."""
        pairs = [self.pairs[i] for i in kept]
        return EncodedCorpus(pairs, self.src.subset(kept), self.tgt.subset(kept))

    def lengths(self) -> list[tuple[int, int]]:
        """Of both sides of each pair, the end token counted."""
        sides = zip(self.src.lengths(), self.tgt.lengths(), strict=True)
        return [(src + 1, tgt + 1) for src, tgt in sides]


class TrainingBatches(Dataset[Batch]):
    """dataset[indices of pairs] -> Batch."""

    def __init__(self, corpus: EncodedCorpus, start_id: int) -> None:
        self.corpus, self.start_id = corpus, start_id

    def __getitem__(self, indices: list[int]) -> Batch:
        return make_batch(self.corpus.src, self.corpus.tgt, indices, self.start_id)


class TextBatch(NamedTuple):
    """A batch for evaluation, with the text it came from."""

    batch: Batch
    indices: list[int]
    """Line numbers in the corpus, from 0."""
    pairs: list[Pair]


class TextBatches(Dataset[TextBatch]):
    """dataset[indices of pairs] -> TextBatch."""

    def __init__(self, corpus: EncodedCorpus, start_id: int) -> None:
        self.pairs, self.batches = corpus.pairs, TrainingBatches(corpus, start_id)

    def __getitem__(self, indices: list[int]) -> TextBatch:
        return TextBatch(self.batches[indices], indices, [self.pairs[i] for i in indices])


class ResumableLoader(DataLoader[Batch]):
    """A DataLoader that counts its own epochs and can go on in the middle of one.

    Lightning saves and restores its `state_dict`. The epoch is counted here because Lightning's
    own count jumps by one after some resumes.
    """

    sampler: TokenBatchSampler
    _seen = 0
    """Batches of this epoch that were handed out."""
    _begun = False

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        sampler = self.sampler
        if self._seen >= len(sampler):
            sampler.epoch, sampler.start = sampler.epoch + 1, 0
        elif self._begun:
            sampler.start = 0
        self._seen, self._begun = sampler.start, True
        for batch in super().__iter__():
            self._seen += 1
            yield batch

    def __len__(self) -> int:
        return len(self.sampler)

    def state_dict(self) -> dict[str, int]:
        if self._seen >= len(self):
            return {"epoch": self.sampler.epoch + 1, "batches": 0}
        return {"epoch": self.sampler.epoch, "batches": self._seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.sampler.epoch = state["epoch"]
        self.sampler.start = self._seen = state["batches"]
        self._begun = False
