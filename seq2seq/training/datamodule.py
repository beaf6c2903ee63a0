"""Corpora in, batches out, for every stage of a run."""

from collections.abc import Sequence
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_info
from torch.utils.data import DataLoader

from seq2seq.config import SubwordConfig, SubwordSampling, at_least
from seq2seq.cores import cores
from seq2seq.data.corpus import CorpusFiles, Languages, Pair, read_sentences, stream_pairs
from seq2seq.data.dataset import (
    TextBatch,
    TextBatches,
    TrainingBatches,
    batches_together,
    most_pairs,
    most_tokens,
)
from seq2seq.data.loader import ResumableLoader
from seq2seq.data.mixture import Mixture, check_weights
from seq2seq.data.origin import origin, terms_beside
from seq2seq.data.sampler import TokenBatchSampler
from seq2seq.data.store import Lengths, PairStore, lengths_of, store_of
from seq2seq.data.vocabulary import refuse_other_subwords, subwords_of
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.evaluation.metrics import check_tokenizer
from seq2seq.model_folder import find_subwords
from seq2seq.provenance import Corpus, Role
from seq2seq.text.subwords import Subwords


class CorpusDataModule(pl.LightningDataModule):
    """The settings `data.*`.

    Args:
        train: the corpus to learn from: --data.train.src and --data.train.tgt, or --data.train.path
            with --data.train.src_field, --data.train.tgt_field and --data.train.split, which
            `--data.train.help CorpusFiles` explains; or several by name, each with a `weight` if
            any has one.
        validation: the corpus whose BLEU chooses the best checkpoint.
        test: named corpora; each gets its own score lines.
        predict: a file of source sentences for `predict`.
        src_lang: language code of the source, stored with the model.
        tgt_lang: language code of the target; it also chooses BLEU's tokenizer.
        subwords: how the subword models are trained.
        batch_tokens: most tokens of a batch on its longer side, padding counted; with
            subword_sampling some take up to half more.
        max_length: longest sentence to train on, in subwords; longer pairs are dropped and counted.
        batch_pairs: most pairs of a batch, however short they are; by default a quarter of
            batch_tokens, 1024 at least.
        temperature: share of a corpus in training, where none has a weight: its size to the power
            of 1 / temperature; 1 takes all as they are, above it small corpora come more often.
        subword_sampling: other segmentations of the training sentences in every epoch.
        workers: processes that prepare batches; 0 prepares them in the training process. Not set,
            it is 0 on a CPU, and for a GPU half of its share of the cores, 8 at most.
        cache: folder of stored corpora and trained subword models, found again by content.
        seed: of the order of batches and of subword sampling; follows seed_everything.
        subwords_from: model or run folder whose subwords are used instead of trained ones, or
            SentencePiece models: a file of both languages, or a folder with source.spm and
            target.spm; those of init_from win.
    """

    src_subwords: Subwords
    tgt_subwords: Subwords
    start_id: int
    """What the decoder reads first: set by the model, which knows."""

    def __init__(
        self,
        train: CorpusFiles | dict[str, CorpusFiles] | None = None,
        validation: CorpusFiles | None = None,
        test: dict[str, CorpusFiles] | None = None,
        predict: str | None = None,
        src_lang: str = "",
        tgt_lang: str = "",
        subwords: SubwordConfig = SubwordConfig(),  # noqa: B008 (frozen)
        batch_tokens: int = 4096,
        batch_pairs: int | None = None,
        max_length: int = 256,
        temperature: float = 1.0,
        subword_sampling: SubwordSampling = SubwordSampling(),  # noqa: B008 (frozen)
        workers: int | None = None,
        cache: str = "~/.cache/seq2seq",
        seed: int = 1,
        subwords_from: str | None = None,
    ) -> None:
        super().__init__()
        at_least("data.batch_tokens", batch_tokens, 1)
        at_least("data.max_length", max_length, 1)
        batch_pairs = most_pairs(batch_tokens) if batch_pairs is None else batch_pairs
        at_least("data.batch_pairs", batch_pairs, 1)
        at_least("data.temperature", temperature, 1)
        at_least("data.workers", workers or 0, 0)
        self.train = {"": train} if isinstance(train, CorpusFiles) else train or {}
        self.weights = [files.weight for files in self.train.values()]
        check_weights(self.weights)
        self.validation, self.test = validation, test or {}
        self.predict = predict
        self.src_lang, self.tgt_lang = src_lang, tgt_lang
        self.subwords, self.subword_sampling = subwords, subword_sampling
        self.batch_tokens, self.batch_pairs, self.max_length = batch_tokens, batch_pairs, max_length
        self.temperature = temperature
        self.workers, self.seed = workers, seed
        try:
            self.cache = Path(cache).expanduser()
        except RuntimeError:  # a container's user may have none
            raise ConfigError(
                f"data.cache={cache} is in a home directory, which is not known; set HOME, or "
                f"choose another folder."
            ) from None
        self.subwords_from = subwords_from
        self.stores: list[PairStore] = []
        """The training corpora."""
        self.samplers: list[TokenBatchSampler] = []
        """Of the training corpora."""
        self.texts: dict[str, list[Pair]] = {}
        """Corpora for evaluation, by name: validation, predict, or test/NAME."""

    def prepare_data(self) -> None:
        """Store the training corpora and train the subword models, on one process; the others find
        them in the cache. What is wrong with the validation set, or with BLEU's tokenizer, is
        reported before that work, not after it."""
        if self.train and self.trainer is not None and self.trainer.state.fn == "fit":
            check_tokenizer(self.tgt_lang)
            self._read_validation()
        self._load_subwords()

    def setup(self, stage: str) -> None:
        """Open or read what the stage needs: fit, validate, test or predict."""
        self._load_subwords()
        if stage == "fit" and self.subwords_from is not None:
            both = self.src_subwords, self.tgt_subwords
            refuse_other_subwords(*both, self.subwords, self.subwords_from)
        if stage == "fit" and not self.samplers:
            self._open_stores()
            self.samplers = [self._training_sampler(*each) for each in enumerate(self.stores)]
        if stage in ("fit", "validate"):
            self._read_validation()
        if stage == "test":
            if not self.test:
                raise ConfigError(
                    "data.test is not set; name a test set: "
                    "--data.test '{NAME: {src: FILE, tgt: FILE}}'."
                )
            for name, files in self.test.items():
                self._read(f"test/{name}", files)
        if stage == "predict":
            if self.predict is None:
                raise ConfigError(
                    "data.predict is not set; give --data.predict FILE, a file of source sentences."
                )
            lines, _ = read_sentences(self.predict)
            if not lines:
                raise CorpusError(f"{self.predict} is empty; there is nothing to translate.")
            self.texts["predict"] = [Pair(line, "") for line in lines]

    def train_dataloader(self) -> ResumableLoader:
        dataset = TrainingBatches(
            self.stores,
            self.src_subwords,
            self.tgt_subwords,
            start_id=self.start_id,
            batch_tokens=self.batch_tokens,
            batch_pairs=self.batch_pairs,
            max_length=self.max_length,
            sampling=self.subword_sampling,
            seed=self.seed,
        )
        order = Mixture(
            self.samplers,
            weights=self.weights,
            temperature=self.temperature,
            accumulated=self._accumulated,
            together=batches_together(self.batch_tokens, self.subword_sampling),
            seed=self.seed,
        )
        if self.trainer is not None:
            limit = self.trainer.limit_train_batches
            order.limit = limit if isinstance(limit, int) else int(len(order) * limit)
        workers = self.workers if self.workers is not None else self._usual_workers
        return ResumableLoader(dataset, order, workers, pin_memory=self._on_gpu)

    @property
    def _usual_workers(self) -> int:
        """Workers of a process: half of its share of the cores that it may use, but no more than
        keep a GPU busy."""
        if not self._on_gpu:
            return 0
        assert self.trainer is not None
        return max(1, min(8, cores() // (2 * self.trainer.num_devices)))

    def val_dataloader(self) -> DataLoader[TextBatch]:
        return self._text_loader("validation")

    def test_dataloader(self) -> list[DataLoader[TextBatch]]:
        return [self._text_loader(f"test/{name}") for name in self.test]

    def predict_dataloader(self) -> DataLoader[TextBatch]:
        return self._text_loader("predict")

    def longest(self) -> tuple[str, int]:
        """Of the corpora whose pairs a network reads as they are: the one with the longest
        sentence, and the positions that this takes; 0 positions where all are only translated."""
        found = {"": 0}
        if "validation" in self.texts:
            found["validation"] = int(self._lengths(self.texts["validation"]).max()) + 1
        if self.samplers:
            found["train"] = self.longest_training_side
        return max(found.items(), key=lambda each: each[1])

    def origins(self, *roles: Role) -> tuple[list[Corpus], dict[str, str]]:
        """The corpora of these roles, which were read, as facts; the terms that stand beside them,
        by path."""
        read = self.validation if "validation" in self.texts else None
        validation = {} if read is None else {"": read}
        named = {"train": self.train, "validation": validation, "test": self.test}
        found = []
        for role in roles:
            for place, (name, files) in enumerate(named[role].items()):
                text = f"{role}/{name}" if name else role
                pairs = self.stores[place] if role == "train" else self.texts[text]
                facts = origin(role, name, files, len(pairs), self.cache, self._languages)
                found.append(facts)
        return found, terms_beside(Path(file["path"]) for each in found for file in each["files"])

    @property
    def longest_training_side(self) -> int:
        """Positions of the longest sentence to train on, with the end token."""
        sampled = self.subword_sampling != SubwordSampling()
        longest = max(sampler.longest for sampler in self.samplers)
        return self.max_length + 1 if sampled else longest

    @property
    def largest_part(self) -> tuple[int, int]:
        """Rows and positions of a training batch of the longest sentences."""
        longest = self.longest_training_side
        rows = most_tokens(self.batch_tokens, self.subword_sampling) // longest
        return max(1, min(self.batch_pairs, rows)), longest

    @property
    def _validates(self) -> bool:
        return self.trainer is None or self.trainer.limit_val_batches != 0

    @property
    def _on_gpu(self) -> bool:
        return self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"

    def _text_loader(self, name: str) -> DataLoader[TextBatch]:
        pairs = self.texts[name]
        rank, world = self._rank_and_world()
        return DataLoader(
            TextBatches(pairs, self.src_subwords, self.tgt_subwords, start_id=self.start_id),
            sampler=TokenBatchSampler(
                self._lengths(pairs), self.batch_tokens, shuffle=False, rank=rank, world=world
            ),
            batch_size=None,
        )

    def _training_sampler(self, corpus: int, store: PairStore) -> TokenBatchSampler:
        """Says how many pairs cannot be learned from."""
        rank, world = self._rank_and_world()
        sampler = TokenBatchSampler(
            store.lengths(self.src_subwords, self.tgt_subwords, rank_zero_info),
            self.batch_tokens,
            batch_pairs=self.batch_pairs,
            max_length=self.max_length,
            seed=self.seed,
            rank=rank,
            world=world,
            accumulated=self._accumulated,
            corpus=corpus,
        )
        name = list(self.train)[corpus]
        long = len(store) - sampler.empty - sampler.pairs
        rank_zero_info(
            f"training corpus{name and ' ' + name}: {sampler.pairs} of {len(store)} pairs; dropped "
            f"{sampler.empty} with an empty side and {long} longer than "
            f"data.max_length={self.max_length} subwords"
        )
        if not sampler.pairs:
            raise CorpusError(
                f"{self.train[name]}: no pair is left to train on: {sampler.empty} of {len(store)} "
                f"have an empty side, the others are longer than data.max_length={self.max_length} "
                f"subwords."
            )
        return sampler

    @property
    def _accumulated(self) -> int:
        return self.trainer.accumulate_grad_batches if self.trainer is not None else 1

    def _rank_and_world(self) -> tuple[int, int]:
        trainer = self.trainer
        return (trainer.global_rank, trainer.world_size) if trainer is not None else (0, 1)

    def _lengths(self, pairs: Sequence[Pair]) -> Lengths:
        return lengths_of(pairs, self.src_subwords, self.tgt_subwords)

    def _load_subwords(self) -> None:
        if hasattr(self, "src_subwords"):
            return
        if self.subwords_from is not None:
            loaded = find_subwords(self.subwords_from)
        else:
            self._open_stores()
            loaded = subwords_of(self.stores, self.subwords, self.cache)
        self.src_subwords, self.tgt_subwords = loaded

    def _open_stores(self) -> None:
        if not self.train:
            raise _not_set("train")
        if not self.stores:
            self.stores = [
                store_of(files, self.cache, rank_zero_info, self._languages)
                for files in self.train.values()
            ]

    def _read_validation(self) -> None:
        if self._validates:
            if self.validation is None:
                raise _not_set("validation")
            self._read("validation", self.validation)

    def _read(self, name: str, files: CorpusFiles) -> None:
        if name not in self.texts:
            self.texts[name] = list(stream_pairs(files, self._languages))

    @property
    def _languages(self) -> Languages:
        return self.src_lang, self.tgt_lang


def _not_set(name: str) -> ConfigError:
    return ConfigError(
        f"data.{name} is not set; give --data.{name}.src FILE --data.{name}.tgt FILE, "
        f"or --data.{name}.path FILE."
    )
