"""Corpora in, batches out, for every stage of a run."""

from collections.abc import Sequence
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_info
from torch.utils.data import DataLoader

from seq2seq.config import SubwordConfig, at_least
from seq2seq.data.corpus import CorpusFiles, Pair, stream_pairs
from seq2seq.data.dataset import (
    EncodedCorpus,
    ResumableLoader,
    TextBatch,
    TextBatches,
    TrainingBatches,
)
from seq2seq.data.lines import read_lines
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.vocabulary import subwords_of
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.model_folder import find_model, load_subwords
from seq2seq.text.subwords import Subwords


class CorpusDataModule(pl.LightningDataModule):
    """The settings `data.*`.

    Args:
        train: the corpus to learn from.
        validation: the corpus whose BLEU chooses the best checkpoint.
        test: named corpora; each gets its own score lines.
        predict: a file of source sentences for `predict`.
        src_lang: language code of the source, stored with the model.
        tgt_lang: language code of the target; it also chooses BLEU's tokenizer.
        subwords: how the subword models are trained.
        batch_tokens: most tokens of a batch on its longer side, padding counted.
        max_length: longest sentence to train on, in subwords; longer pairs are dropped and counted.
        workers: processes that prepare batches; 0 prepares them in the training process.
        cache: folder of trained subword models, found again by the content of the corpus.
        seed: of the order of batches; follows seed_everything.
        subwords_from: model or run folder whose subwords are used instead of trained ones; follows
            init_from.
    """

    src_subwords: Subwords
    tgt_subwords: Subwords
    start_id: int
    """What the decoder reads first: set by the model, which knows."""

    def __init__(
        self,
        train: CorpusFiles | None = None,
        validation: CorpusFiles | None = None,
        test: dict[str, CorpusFiles] | None = None,
        predict: str | None = None,
        src_lang: str = "",
        tgt_lang: str = "",
        subwords: SubwordConfig = SubwordConfig(),  # noqa: B008 (frozen)
        batch_tokens: int = 4096,
        max_length: int = 256,
        workers: int = 0,
        cache: str = "~/.cache/seq2seq",
        seed: int = 1,
        subwords_from: str | None = None,
    ) -> None:
        super().__init__()
        at_least("data.batch_tokens", batch_tokens, 1)
        at_least("data.max_length", max_length, 1)
        at_least("data.workers", workers, 0)
        self.train, self.validation, self.test = train, validation, test or {}
        self.predict = predict
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        self.subwords, self.batch_tokens, self.max_length = subwords, batch_tokens, max_length
        self.workers, self.cache, self.seed = workers, Path(cache).expanduser(), seed
        self.subwords_from = subwords_from
        self.encoded: dict[str, EncodedCorpus] = {}
        """By name: train, validation, predict, or test/NAME."""

    def prepare_data(self) -> None:
        """Train the subword models, on one process; the others find them in the cache."""
        self._load_subwords()

    def setup(self, stage: str) -> None:
        """Read and encode what the stage needs: fit, validate, test or predict."""
        self._load_subwords()
        if stage == "fit" and "train" not in self.encoded:
            pairs = self._required("train", self.train)
            self.encoded["train"] = self._trainable(EncodedCorpus.encode(pairs, *self._subwords()))
        if stage in ("fit", "validate"):
            self._encode("validation", self._required("validation", self.validation))
        if stage == "test":
            if not self.test:
                raise ConfigError(
                    "data.test is not set; name a test set: "
                    "--data.test '{NAME: {src: FILE, tgt: FILE}}'."
                )
            for name, files in self.test.items():
                self._encode(f"test/{name}", self._read(files))
        if stage == "predict":
            if self.predict is None:
                raise ConfigError("data.predict is not set; give a file of source sentences.")
            lines = list(read_lines(self.predict))
            if not lines:
                raise CorpusError(f"{self.predict} is empty; there is nothing to translate.")
            self._encode("predict", [Pair(line, "") for line in lines])

    def train_dataloader(self) -> ResumableLoader:
        dataset = TrainingBatches(self.encoded["train"], self.start_id)
        return ResumableLoader(
            dataset,
            sampler=self._sampler(self.encoded["train"], shuffle=True),
            batch_size=None,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
        )

    def val_dataloader(self) -> DataLoader[TextBatch]:
        return self._text_loader("validation")

    def test_dataloader(self) -> list[DataLoader[TextBatch]]:
        return [self._text_loader(f"test/{name}") for name in self.test]

    def predict_dataloader(self) -> DataLoader[TextBatch]:
        return self._text_loader("predict")

    def longest(self) -> tuple[str, int]:
        """The corpus with the longest sentence, and its subwords with the end token."""
        return max(
            ((name, max(map(max, corpus.lengths()))) for name, corpus in self.encoded.items()),
            key=lambda found: found[1],
        )

    def _text_loader(self, name: str) -> DataLoader[TextBatch]:
        corpus = self.encoded[name]
        return DataLoader(
            TextBatches(corpus, self.start_id),
            sampler=self._sampler(corpus, shuffle=False),
            batch_size=None,
        )

    def _sampler(self, corpus: EncodedCorpus, *, shuffle: bool) -> TokenBatchSampler:
        trainer = self.trainer
        rank, world = (trainer.global_rank, trainer.world_size) if trainer is not None else (0, 1)
        return TokenBatchSampler(
            corpus.lengths(),
            self.batch_tokens,
            seed=self.seed,
            shuffle=shuffle,
            rank=rank,
            world=world,
        )

    def _subwords(self) -> tuple[Subwords, Subwords]:
        return self.src_subwords, self.tgt_subwords

    def _load_subwords(self) -> None:
        if hasattr(self, "src_subwords"):
            return
        if self.subwords_from is not None:
            loaded = load_subwords(find_model(self.subwords_from))
        else:
            pairs = self._required("train", self.train)
            loaded = subwords_of(pairs, self.subwords, self.cache)
        self.src_subwords, self.tgt_subwords = loaded

    def _required(self, name: str, files: CorpusFiles | None) -> Sequence[Pair]:
        if files is None:
            raise ConfigError(
                f"data.{name} is not set; give --data.{name}.src FILE --data.{name}.tgt FILE, "
                f"or --data.{name}.path FILE."
            )
        return self._read(files)

    def _read(self, files: CorpusFiles) -> Sequence[Pair]:
        return list(stream_pairs(files, src_lang=self.src_lang, tgt_lang=self.tgt_lang))

    def _encode(self, name: str, pairs: Sequence[Pair]) -> None:
        if name not in self.encoded:
            self.encoded[name] = EncodedCorpus.encode(pairs, *self._subwords())

    def _trainable(self, corpus: EncodedCorpus) -> EncodedCorpus:
        """Without the pairs that cannot be learned from; says how many they were."""
        lengths = corpus.lengths()
        empty = {i for i, sides in enumerate(lengths) if min(sides) == 1}
        long = {i for i, sides in enumerate(lengths) if max(sides) - 1 > self.max_length}
        kept = [i for i in range(len(lengths)) if i not in empty and i not in long]
        rank_zero_info(
            f"training corpus: {len(kept)} of {len(lengths)} pairs; dropped {len(empty)} with an "
            f"empty side and {len(long - empty)} longer than data.max_length={self.max_length} "
            f"subwords"
        )
        if not kept:
            raise CorpusError(
                f"no pair is left to train on: {len(empty)} of {len(lengths)} have an empty side, "
                f"the others are longer than data.max_length={self.max_length} subwords."
            )
        return corpus.subset(kept)
