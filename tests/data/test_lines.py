"""Reading must keep the lines whatever is in them; Python's bytes are the oracle."""

import bz2
import gzip
import io
import lzma
import os
import random
import zipfile
from pathlib import Path

import pytest
import zstandard
from corpora import written

from seq2seq.data.lines import (
    UNPACKERS,
    Errors,
    check_aligned,
    decode_lines,
    read_lines,
    refuse_pipe,
)
from seq2seq.data.store import digest_of
from seq2seq.errors import CorpusError

# str.splitlines() would split at each of these.
SEPARATORS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
TEXT = "".join(f"line {n}\n" for n in range(300)).encode()


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_a_separator_inside_a_line_does_not_end_it(tmp_path: Path, separator: str) -> None:
    lines = [f"one{separator}two", separator, "three"]
    assert list(read_lines(written(tmp_path / "a.en", *lines))) == lines


def test_reading_gives_back_whatever_lines_were_written_but_a_mark_of_byte_order_before_them(
    tmp_path: Path,
) -> None:
    rng = random.Random(0)
    alphabet = [*SEPARATORS, "a", " ", "\t", "\x00", "\ufeff", "é", "字", "👩"]
    for _ in range(100):
        lines = [
            "".join(rng.choices(alphabet, k=rng.randrange(5))) for _ in range(rng.randrange(9))
        ]
        marked = [f"\ufeff{lines[0]}", *lines[1:]] if lines else []
        assert list(read_lines(written(tmp_path / "a.en", *marked))) == lines


def test_the_last_line_counts_with_or_without_its_end(tmp_path: Path) -> None:
    with_end = written(tmp_path / "with.en", "one", "two", end="\n")
    without = written(tmp_path / "without.en", "one", "two", end="")
    assert list(read_lines(with_end)) == list(read_lines(without)) == ["one", "two"]
    assert list(read_lines(written(tmp_path / "blank.en", "one", "", end="\n"))) == ["one", ""]


def test_a_carriage_return_before_the_end_stays_for_cleaning_to_remove() -> None:
    assert list(decode_lines([b"one\r\n", b"two\r\n"], "a.en")) == ["one\r", "two\r"]


def test_a_gz_file_reads_as_what_was_packed_in_one_part_or_several(tmp_path: Path) -> None:
    path = tmp_path / "a.en.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress("ö\n".encode()))
    assert list(read_lines(path)) == ["one", "twö"]


def test_a_zst_file_reads_as_what_was_packed_in_one_frame_or_several(tmp_path: Path) -> None:
    path = tmp_path / "a.en.zst"
    big = [f"line {n}" for n in range(50_000)]
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00xyz"
    frames = ["one\ntw", "ö\n", "", "\n".join(big)]
    packed = [zstandard.compress(frame.encode()) for frame in frames]
    path.write_bytes(b"".join(packed[:2]) + skippable + b"".join(packed[2:]))
    assert list(read_lines(path)) == ["one", "twö", *big]


def test_a_file_without_a_byte_has_no_lines(tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path / "a.en"))) == []


@pytest.mark.parametrize("bad", [b"\xff", b"\xe4\xb8", b"\xed\xa0\x80", b"\xc0\x80"], ids=repr)
def test_undecodable_bytes_are_told_with_file_line_byte_and_column(
    tmp_path: Path, bad: bytes
) -> None:
    path = tmp_path / "a.en"
    path.write_bytes("ä\nzwölf ".encode() + bad + b" more\nrest\n")
    # Columns count bytes, from 1: "zwölf " is seven.
    expected = rf"{path} line 2: byte 0x{bad[:1].hex()} at column 8 is not UTF-8"
    with pytest.raises(CorpusError, match=expected):
        list(read_lines(path))
    with pytest.raises(CorpusError, match=r"^standard input line 1: byte 0x"):
        list(decode_lines([bad], "standard input"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for missing in (tmp_path / f"none.en{packing}" for packing in ("", ".gz", ".zst")):
        with pytest.raises(CorpusError, match=f"{missing} does not exist"):
            list(read_lines(missing))


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    for name in ("folder", "folder.gz", "folder.zst"):
        (tmp_path / name).mkdir()
        with pytest.raises(CorpusError, match=f"{tmp_path / name} is a folder"):
            list(read_lines(tmp_path / name))


def test_a_file_in_place_of_a_folder_and_a_name_that_is_too_long_are_named(tmp_path: Path) -> None:
    inside = Path(written(tmp_path / "a.en", "one")) / "b.en"
    with pytest.raises(CorpusError, match=str(inside)):
        list(read_lines(inside))
    with pytest.raises(CorpusError, match="xxx"):
        list(read_lines("x" * 5000))
    refuse_pipe("x" * 5000)  # leaves it to whoever opens it


def test_a_zst_file_packed_with_a_long_window_is_read(tmp_path: Path) -> None:
    """RFC 8878: a frame that asks for a window of 256 MiB, and its last block, two bytes as they
    are; what unpacks takes no more than 128 MiB unless told."""
    window, block = bytes([0, 28 - 10 << 3]), (2 << 3 | 1).to_bytes(3, "little") + b"a\n"
    path = tmp_path / "a.en.zst"
    path.write_bytes(bytes.fromhex("28b52ffd") + window + block)
    assert list(read_lines(path)) == ["a"]


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize(
    "damage", ["cut", "cut to the header", "cut to nothing", "not packed", "flipped"]
)
def test_a_damaged_packed_file_is_named(tmp_path: Path, packing: str, damage: str) -> None:
    checked = zstandard.ZstdCompressor(write_checksum=True)
    packed = gzip.compress(TEXT) if packing == "gzip" else checked.compress(TEXT)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    contents = {
        "cut": packed[:-20],
        "cut to the header": packed[:5],
        "cut to nothing": b"",
        "not packed": b"line 1\n",
        "flipped": bytes(flipped),
    }
    path = tmp_path / f"a.en.{'gz' if packing == 'gzip' else 'zst'}"
    path.write_bytes(contents[damage])
    with pytest.raises(CorpusError, match=rf"{path} is not a complete {packing} file"):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".zip"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_file_that_is_packed_otherwise_is_told_what_is_unpacked(
    tmp_path: Path, suffix: str, errors: Errors
) -> None:
    path = tmp_path / f"a.en{suffix}"
    with pytest.raises(CorpusError, match=f"{path} does not exist"):
        list(read_lines(path, errors=errors))
    path.write_bytes(b"\xfd7zXZ\n")
    with pytest.raises(CorpusError, match=rf"^{path} is packed, but only \.gz and \.zst are "):
        list(read_lines(path, errors=errors))


@pytest.mark.parametrize("command", ["gzip", "zstd", "xz", "bzip2", "funzip"])
def test_what_is_packed_and_not_named_so_is_told_what_unpacks_it(command: str) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("text", TEXT)
    packed = {
        "gzip": gzip.compress(TEXT),
        "zstd": zstandard.compress(TEXT),
        "xz": lzma.compress(TEXT),
        "bzip2": bz2.compress(TEXT),
        "funzip": zipped.getvalue(),
    }[command]
    with pytest.raises(CorpusError, match=f"^standard input looks packed, .*`{command}( -dc)?`"):
        list(decode_lines(io.BytesIO(packed), "standard input"))
    begins = next(each for each in UNPACKERS if packed.startswith(each))
    if begins.isascii():  # a text may begin so, too
        assert list(decode_lines([begins], "standard input")) == [begins.decode()]


def test_undecodable_bytes_that_are_escaped_come_back_when_written(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    content = b"\xff one\n\xe4\xb8\n" + "zwölf\n".encode()
    path.write_bytes(content)
    lines = list(read_lines(path, errors="surrogateescape"))
    assert lines == ["\udcff one", "\udce4\udcb8", "zwölf"]
    assert "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape") == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_where_a_file_is_read_twice_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorpusError, match="pipe is a pipe; it is read twice"):
        digest_of(tmp_path / "pipe", tmp_path / "cache")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_files_that_must_be_aligned_have_as_many_lines_and_a_pipe_is_not_opened(
    tmp_path: Path,
) -> None:
    one = written(tmp_path / "one.en", "a", "", "b")
    other = written(tmp_path / "other.de", "x", "y", "z", end="")
    check_aligned(one, other)
    for name, lines in (("fewer", ["a", "b"]), ("more", ["a"] * 4)):
        path = written(tmp_path / name, *lines)
        told = rf"{name} has {len(lines)} lines but \S+one\.en has 3; line n of one must belong"
        with pytest.raises(CorpusError, match=told):
            check_aligned(path, one)
    os.mkfifo(tmp_path / "pipe")
    check_aligned(str(tmp_path / "pipe"), one)
    check_aligned(one, str(tmp_path / "pipe"))
