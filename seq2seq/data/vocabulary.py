"""The subword models of a corpus: trained once, found again by the corpus's content."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from seq2seq.config import SubwordConfig
from seq2seq.data.cache import build_once
from seq2seq.data.store import PairStore
from seq2seq.errors import ConfigError
from seq2seq.text.subwords import VERSION, Subwords, train_subwords

SAMPLE = 1_000_000
"""Most sentences of one side that a subword model is trained on, evenly spread over the corpora."""


def subwords_of(
    corpora: Sequence[PairStore], config: SubwordConfig, cache: Path
) -> tuple[Subwords, Subwords]:
    """Source and target subwords of the training corpora, the same object twice when joint.

    Trained if `cache` does not hold them yet. Another corpus, other settings or another
    SentencePiece are other models.
    """
    if config.joint:
        subwords = _cached(corpora, (0, 1), config, config.src_vocab_size, cache)
        return subwords, subwords
    return (
        _cached(corpora, (0,), config, config.src_vocab_size, cache),
        _cached(corpora, (1,), config, config.tgt_vocab_size, cache),
    )


def refuse_other_subwords(src: Subwords, tgt: Subwords, config: SubwordConfig, origin: str) -> None:
    """A setting that was changed, and does not fit the subwords of `origin`, is an error.

    Vocabulary sizes are upper bounds with unigram subwords.
    """
    stored = subword_settings(src, tgt)
    for field in fields(SubwordConfig):
        here, there = getattr(config, field.name), stored[field.name]
        bound = field.name.endswith("vocab_size") and stored["kind"] == "unigram"
        if here not in (there, field.default) and not (bound and here > there):
            raise ConfigError(
                f"data.subwords.{field.name}={here} differs from {there} in {origin}, whose "
                f"subwords are used; leave the setting out, or train a new model."
            )


def subword_settings(src: Subwords, tgt: Subwords) -> dict[str, object]:
    """The fields of the SubwordConfig that both were trained with, and the sizes that they have."""
    return {
        "joint": src.serialized == tgt.serialized,
        "src_vocab_size": len(src),
        "tgt_vocab_size": len(tgt),
        **src.settings,
    }


def _cached(
    corpora: Sequence[PairStore],
    sides: Sequence[int],
    config: SubwordConfig,
    size: int,
    cache: Path,
) -> Subwords:
    settings = [VERSION, config.kind, config.byte_fallback, config.normalization, size, SAMPLE]
    key = json.dumps([*settings, sides, [corpus.folder.name for corpus in corpora]])
    path = cache / "subwords" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.model"
    with build_once(path) as unfinished:
        if unfinished is not None:
            unfinished.write_bytes(train_subwords(_texts(corpora, sides), config, size))
    return Subwords.load(path)


def _texts(corpora: Sequence[PairStore], sides: Sequence[int]) -> Iterator[str]:
    """The sentences of all corpora in turn: SentencePiece 0.2.2 does not get through a text that is
    repeated as a whole, as where one corpus is another in the other direction."""
    every = max(1, -(-sum(map(len, corpora)) // SAMPLE))
    for index in range(0, max(map(len, corpora)), every):
        for corpus in corpora:
            if index < len(corpus):
                pair = corpus[index]
                yield from (pair[side] for side in sides)
