"""What a run must have in common with its data and the model or checkpoint it goes on from."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from typing import Any

import pytorch_lightning as pl

from seq2seq.config import ModelConfig, SearchConfig, cannot_share
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.model_folder import SavedModel
from seq2seq.nn.transformer import Transformer
from seq2seq.training.checkpoints import FORMAT, check_format, differing_setting, same_subwords
from seq2seq.training.datamodule import CorpusDataModule


def check_tie(config: ModelConfig, data: CorpusDataModule) -> None:
    """ConfigError where one matrix would have to serve two vocabularies."""
    if config.shares_languages and data.src_subwords.serialized != data.tgt_subwords.serialized:
        raise cannot_share(config.tie, "each has subwords of its own")


def check_lengths(network: Transformer, data: CorpusDataModule) -> None:
    """Every sentence of the corpora has positions in the network."""
    limit = network.config.max_length
    name, longest = data.longest()
    if limit is not None and longest > limit:
        instead = "lower data.max_length" if name == "train" else "take that sentence out"
        raise SentenceError(
            f"data.{name} has a sentence of {longest} subwords, the end token counted, but "
            f"model.max_positions={limit}; raise it, or {instead}."
        )


def check_architecture(asked: ModelConfig, stored: ModelConfig, origin: str) -> None:
    """A setting that was changed, and differs from the model's in `origin`, is an error."""
    for field in fields(ModelConfig):
        here, there = getattr(asked, field.name), getattr(stored, field.name)
        if here not in (there, field.default):
            raise ConfigError(
                f"model.{field.name}={here} differs from {there} in {origin}; an architecture "
                f"cannot change: leave the setting out, or train a new model."
            )


def identity(model: SavedModel) -> dict[str, Any]:
    """What a checkpoint says of itself and of its model, for `check_checkpoint`."""
    return {
        "format_version": FORMAT,
        "model_config": asdict(model.network.config),
        "subwords": model.fingerprints,
    }


def validates_all(trainer: pl.Trainer) -> bool:
    """Whether validation BLEU is of the whole corpus, not of some of its batches."""
    limit = trainer.limit_val_batches
    return not isinstance(limit, int) and limit == 1


def yardstick(trainer: pl.Trainer, data: CorpusDataModule, search: SearchConfig) -> dict[str, Any]:
    """What validation BLEU depends on besides the model, by setting; of the text a digest. Where
    only some batches are validated, their size and the number of processes that share them decide
    which sentences are in them."""
    shares = {
        "data.batch_tokens": data.batch_tokens,
        "the number of processes": trainer.world_size,
    }
    return {
        "trainer.limit_val_batches": trainer.limit_val_batches,
        **({} if validates_all(trainer) else shares),
        "data.validation": sha256(repr(data.texts.get("validation")).encode()).hexdigest(),
        "data.tgt_lang": data.tgt_lang,
        **{f"search.{name}": value for name, value in asdict(search).items()},
    }


def check_yardstick(now: Mapping[str, Any], checkpoint: Mapping[str, Any], path: str) -> None:
    """Validation BLEU before and after the checkpoint can be compared."""
    then = checkpoint["yardstick"]
    for setting, value in now.items():
        if then.get(setting, value) != value:
            raise ConfigError(
                f"{setting} is not what it was when the best validation BLEU of this run was "
                f"measured, so later ones cannot be compared with it; restore it, or begin another "
                f"--run with --ckpt_path {path}."
            )


def check_checkpoint(model: SavedModel, checkpoint: Mapping[str, Any], path: str) -> None:
    """The checkpoint is one of this model."""
    check_format(checkpoint, path)
    if not same_subwords(model, checkpoint):
        raise ConfigError(
            "the subwords differ from the checkpoint's: data.train, data.subwords or the version "
            "of SentencePiece has changed; restore it, or start a new run with --init_from."
        )
    if difference := differing_setting(model, checkpoint):
        raise ConfigError(
            f"{difference} in the checkpoint; an architecture cannot change: restore the setting, "
            f"or start a new run."
        )
