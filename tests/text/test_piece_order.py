"""A reordered SentencePiece model cuts text as before, and has the ids of another vocabulary."""

import random
from typing import Any, Literal

import pytest
from sentencepiece import sentencepiece_model_pb2

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SubwordConfig
from seq2seq.text.piece_order import (
    SPECIAL,
    UNUSED,
    as_entry,
    as_piece,
    pieces_in,
    reordered,
    restricted,
    text_pieces,
)
from seq2seq.text.subwords import Subwords, train_subwords

WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 7)) for n in range(90)]
KINDS = [SubwordConfig(byte_fallback=False), SubwordConfig(kind="bpe"), SubwordConfig()]


def trained(config: SubwordConfig) -> bytes:
    return train_subwords(TEXTS, config, 300 if config.byte_fallback else 40)


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_text_has_the_same_pieces_under_the_new_ids(config: SubwordConfig) -> None:
    model = trained(config)
    own = list(text_pieces(model))
    spelled_in_bytes = ["今"] * config.byte_fallback
    own += [">>x<<", *spelled_in_bytes]
    order = [*SPECIAL, *random.Random(1).sample(own, len(own)), "karekare", "süß"]
    old, new = Subwords(model), Subwords(reordered(model, order))
    assert new.pieces(range(len(new))) == order
    for text in [*TEXTS[:30], "karekare süß 今", "", "mi mi\u2581mi"]:
        assert new.pieces(new.encode(text)) == old.pieces(old.encode(text))
        assert new.decode(new.encode(text)) == old.decode(old.encode(text))
        sampled = new.sample(text, 0.5, random.Random(text))
        assert not {"karekare", "süß", *spelled_in_bytes} & set(new.pieces(sampled))
    assert new.decode([len(order) - 2, len(order) - 1]) == "karekaresüß"
    assert new.settings == old.settings


def test_an_order_that_is_the_own_one_changes_nothing() -> None:
    model = trained(KINDS[0])
    assert reordered(model, [piece.text for piece in pieces_in(model)]) == model


def test_others_read_the_same_pieces_of_any_length_and_our_ids() -> None:
    model: Any = sentencepiece_model_pb2.ModelProto.FromString(trained(KINDS[0]))  # type: ignore[attr-defined]
    spec = model.trainer_spec
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = 0, 1, 2, -1
    serialized = model.SerializeToString()
    order = [*SPECIAL, *text_pieces(serialized), *("x" * size for size in range(100, 300))]
    found = reordered(serialized, order)
    assert [piece.text for piece in pieces_in(found)] == order
    model.ParseFromString(found)
    assert [piece.piece for piece in model.pieces] == order
    spec = model.trainer_spec
    assert (spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id) == (UNK_ID, BOS_ID, EOS_ID, PAD_ID)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_tag_and_a_character_that_only_the_order_has_are_found_in_text(
    kind: Literal["unigram", "bpe"],
) -> None:
    model = trained(SubwordConfig(kind=kind, byte_fallback=False))
    order = [*SPECIAL, *text_pieces(model), as_piece(">>fra<<"), "ß"]
    found = Subwords(reordered(model, order))
    tag, letter = len(order) - 2, len(order) - 1
    assert found.encode(">>fra<< kare") == [tag, *found.encode("kare")]
    assert [i for i in found.encode("kareß") if i >= tag] == [letter]
    assert UNK_ID in found.encode("今")
    assert as_entry(order[tag]) == ">>fra<<"
    assert as_entry("\u2581kare") == as_piece("\u2581kare") == "\u2581kare"


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_a_restricted_model_uses_pieces_of_the_vocabulary_single_characters_and_bytes(
    config: SubwordConfig,
) -> None:
    model = trained(config)
    longer = [text for text in text_pieces(model) if len(text) > 1 and text[:1] != "<"]
    vocabulary = set(longer[::2])
    less = restricted(model, vocabulary)
    unused = {piece.text for piece in pieces_in(less) if piece.kind == UNUSED}
    assert unused == set(longer) - vocabulary == text_pieces(model).keys() - text_pieces(less)
    assert [piece.text for piece in pieces_in(less)] == [piece.text for piece in pieces_in(model)]
    order = [*SPECIAL, *reversed(text_pieces(model))]
    for subwords in (Subwords(less), Subwords(reordered(less, order))):
        found = {piece for text in TEXTS for piece in subwords.pieces(subwords.encode(text))}
        assert len(found & vocabulary) > 4
        assert not found & unused
    old, new = Subwords(less), Subwords(reordered(less, order))
    assert all(new.pieces(new.encode(text)) == old.pieces(old.encode(text)) for text in TEXTS)
    assert restricted(model, set(longer)) == model


@pytest.mark.parametrize(
    "broken",
    [
        b"\x01",
        b"\n\x05abc",
        b"no model",
        trained(KINDS[0])[:-3],
        b"\x20\x05",  # a number where messages are
        b"\n\x05\n\x01a\x10\x03",  # an integer as a score
        b"\xa2" + b"\x80" * 10 + b"\0\0",  # a number of more than 64 bits
    ],
)
def test_bytes_that_are_no_model_are_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        pieces_in(broken)
