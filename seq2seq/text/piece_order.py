"""A SentencePiece model whose ids are those of another vocabulary: the same pieces, in its order.

A model is a protocol buffer: a message of fields, of which number 1, repeated, is a piece with its
score and its type. The other fields (how text is normalised, how it was trained) stay as they are.
"""

import re
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from seq2seq.text.sampling import UNKNOWN_PENALTY

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
"""The first pieces of every vocabulary."""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_TAG = re.compile(">>[^<>]+<<")


class Piece(NamedTuple):
    """One entry of a model."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


def as_piece(entry: str) -> str:
    """An entry of a vocabulary as a piece: a language tag such as >>fra<< begins a text, and the
    first word of a text has the mark of a space before it."""
    return f"\u2581{entry}" if _TAG.fullmatch(entry) else entry


def as_entry(piece: str) -> str:
    """The other way round."""
    return piece[1:] if piece[:1] == "\u2581" and _TAG.fullmatch(piece[1:]) else piece


def pieces_in(serialized: bytes) -> list[Piece]:
    """The pieces of a model by their ids; ValueError if it is none."""
    try:
        found = []
        for number, content in _fields(serialized):
            if not isinstance(content, bytes):
                raise ValueError("all fields of a model are messages")
            if number == 1:
                found.append(_piece(content))
        return found
    except (LookupError, ValueError, struct.error):
        raise ValueError("not a SentencePiece model") from None


def _piece(message: bytes) -> Piece:
    fields = dict(_fields(message))
    text, score, kind = fields[1], fields.get(2, 0.0), fields.get(3, NORMAL)
    if (type(text), type(score), type(kind)) != (bytes, float, int):
        raise ValueError("no piece")
    return Piece(text.decode(), score, kind)


def text_pieces(serialized: bytes) -> dict[str, Piece]:
    """What text can become: all pieces but the special ones."""
    silent = (UNKNOWN, CONTROL, UNUSED)
    return {piece.text: piece for piece in pieces_in(serialized) if piece.kind not in silent}


def our_order(serialized: bytes) -> list[str]:
    """The pieces as we number them: SPECIAL, then the others as they stand. Their own special ones,
    and control symbols, which no text becomes, have no place in it."""
    others = (piece for piece in pieces_in(serialized) if piece.kind not in (UNKNOWN, CONTROL))
    return [*SPECIAL, *(piece.text for piece in others if piece.text not in SPECIAL)]


def reordered(serialized: bytes, order: Sequence[str]) -> bytes:
    """A model that segments text as this one, and where the piece order[i] has the id i.

    order: SPECIAL first, and all text pieces of the model among the others. An entry that the model
    lacks decodes to itself, and no text becomes it, except language tags and single characters that
    would be unknown.
    """
    theirs = pieces_in(serialized)
    if [piece.text for piece in theirs] == list(order):
        return serialized
    kept = {piece.text: piece for piece in theirs if piece.kind not in (UNKNOWN, CONTROL)}
    known = {text: piece for text, piece in kept.items() if piece.kind != UNUSED}
    assert list(order[:4]) == SPECIAL, order[:4]
    assert known.keys() <= set(order), "a text piece without an id"
    rarest = min((piece.score for piece in known.values() if piece.kind == NORMAL), default=0.0)
    spells_bytes = any(piece.kind == BYTE for piece in known.values())

    def described(text: str) -> Piece:
        if text in SPECIAL:
            return Piece(text, kind=UNKNOWN if text == SPECIAL[UNK_ID] else CONTROL)
        if text in kept:
            return kept[text]
        if as_entry(text) != text:
            return Piece(text, kind=USER_DEFINED)
        if len(text) == 1 and not spells_bytes:
            return Piece(text, rarest - UNKNOWN_PENALTY)
        return Piece(text, rarest, UNUSED)

    fields = [_field(1, _packed(described(text))) for text in order]
    fields += [_field(number, content) for number, content in _fields(serialized) if number != 1]
    # Of numbers that are said twice the last one counts: the ids of unk, bos, eos and pad.
    ids = ((40, UNK_ID), (41, BOS_ID), (42, EOS_ID), (43, PAD_ID))
    fields.append(_field(2, b"".join(_varint(key << 3) + _varint(value) for key, value in ids)))
    return b"".join(fields)


def restricted(serialized: bytes, vocabulary: Collection[str]) -> bytes:
    """A model that cuts text into pieces of the vocabulary, single characters and bytes only, as
    SentencePiece's `SetVocabulary` has it. Pieces keep their ids."""
    fields = []
    for number, content in _fields(serialized):
        if number == 1:
            (piece,) = pieces_in(_field(1, content))
            if piece.kind == NORMAL and len(piece.text) > 1 and piece.text not in vocabulary:
                content = _packed(piece._replace(kind=UNUSED))
        fields.append((number, content))
    return b"".join(_field(number, content) for number, content in fields)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field: a message or text as bytes, an integer, a float."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        if key & 7 == 0:
            value, place = _read_varint(message, place)
            yield key >> 3, value
        elif key & 7 == 2:
            length, place = _read_varint(message, place)
            if place + length > len(message):
                raise ValueError("cut off")
            yield key >> 3, message[place : place + length]
            place += length
        elif key & 7 == 5:
            yield key >> 3, struct.unpack_from("<f", message, place)[0]
            place += 4
        else:
            raise ValueError("no field of a SentencePiece model")


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that begins there, and the place behind it; it has 64 bits."""
    value, shift = 0, 0
    while True:
        if shift > 63:
            raise ValueError("no number")
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that another follows."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _packed(piece: Piece) -> bytes:
    score = _varint(2 << 3 | 5) + struct.pack("<f", piece.score)
    return _field(1, piece.text.encode()) + score + _varint(3 << 3) + _varint(piece.kind)
