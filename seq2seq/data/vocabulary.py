"""The subword models of a corpus: trained once, found again by the corpus's content."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from seq2seq.config import SubwordConfig
from seq2seq.data.corpus import Pair
from seq2seq.text.subwords import VERSION, Subwords, train_subwords


def subwords_of(
    pairs: Sequence[Pair], config: SubwordConfig, cache: Path
) -> tuple[Subwords, Subwords]:
    """Source and target subwords of a training corpus, the same object twice when joint.

    Trained if `cache` does not hold them yet. Another corpus, other settings or another
    SentencePiece are other models.
    """
    src, tgt = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    if config.joint:
        subwords = _cached([*src, *tgt], config, config.src_vocab_size, cache)
        return subwords, subwords
    return (
        _cached(src, config, config.src_vocab_size, cache),
        _cached(tgt, config, config.tgt_vocab_size, cache),
    )


def _cached(texts: Sequence[str], config: SubwordConfig, size: int, cache: Path) -> Subwords:
    key = [VERSION, config.kind, config.byte_fallback, config.normalization, size]
    digest = hashlib.sha256(json.dumps(key).encode())
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    path = cache / "subwords" / f"{digest.hexdigest()[:32]}.model"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        serialized = train_subwords(texts, config, size)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            new = Path(scratch) / path.name
            new.write_bytes(serialized)
            os.replace(new, path)  # a killed or parallel run leaves no half model
    return Subwords.load(path)
