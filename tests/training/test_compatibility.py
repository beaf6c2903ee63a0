"""What a run must have in common with its data, asked of stand-ins."""

from types import SimpleNamespace
from typing import Any

import pytest

from seq2seq.config import ModelConfig
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.training.compatibility import check_lengths, check_tie, validates_all


def test_languages_share_a_matrix_only_where_they_share_subwords() -> None:
    """Of as many on both sides, which tells nothing."""
    own, other = (SimpleNamespace(serialized=content) for content in (b"own", b"other"))
    joint: Any = SimpleNamespace(src_subwords=own, tgt_subwords=own)
    apart: Any = SimpleNamespace(src_subwords=own, tgt_subwords=other)
    check_tie(ModelConfig(tie="all"), joint)
    check_tie(ModelConfig(tie="target-output"), apart)
    with pytest.raises(ConfigError, match=r"model\.tie=all .* each has subwords of its own"):
        check_tie(ModelConfig(tie="all"), apart)


@pytest.mark.parametrize(
    ("name", "instead"), [("train", "lower data.max_length"), ("test.a", "take that sentence out")]
)
def test_only_of_train_are_long_sentences_left_out_by_a_setting(name: str, instead: str) -> None:
    network: Any = SimpleNamespace(config=SimpleNamespace(max_length=7))
    data: Any = SimpleNamespace(longest=lambda: (name, 8))
    with pytest.raises(SentenceError, match=f"data.{name} has a sentence of 8 .*, or {instead}"):
        check_lengths(network, data)


def test_one_batch_is_no_whole_validation() -> None:
    limits: list[float] = [1.0, 0.5, 1, 0]
    trainers: list[Any] = [SimpleNamespace(limit_val_batches=limit) for limit in limits]
    assert [validates_all(trainer) for trainer in trainers] == [True, False, False, False]
