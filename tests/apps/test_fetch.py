"""Fetching from local copies and file URLs of made-up corpora; one slow test uses the registry."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from seq2seq.cli import main
from seq2seq.data import fetch
from seq2seq.data.fetch import split_of
from seq2seq.text.normalize import fold

NUMBERS = ["nobody", "somebody", "everybody", "a neighbour", "my uncle"]
VERBS = ["paints", "sells", "hides", "admires", "borrows", "repairs", "forgets", "wants"]
THINGS = [f"{what} {number}" for number in range(20) for what in ("boat", "violin")]
TATOEBA = ["fetch", "tatoeba-eng-fra", "--from", "origin"]
MULTI30K = ["fetch", "multi30k", "--from", "origin"]


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `origin` of the current folder: small files, whose sums the recipes now expect."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "origin"
    folder.mkdir()
    archive = nmt_archive("".join(f"{row}\n" for row in tatoeba_rows()))
    (folder / fetch.NMT_ARCHIVE).write_bytes(archive)
    monkeypatch.setattr(fetch, "NMT_SHA256", hashlib.sha256(archive).hexdigest())
    sums = {}
    for name, text in (
        ("train.en.gz", "A dog\x85runs.\n"),
        ("train.de.gz", "Ein Hund\x85läuft.\n"),
    ):
        packed = gzip.compress(text.encode())
        (folder / name).write_bytes(packed)
        sums[name] = hashlib.sha256(packed).hexdigest()
    monkeypatch.setattr(fetch, "MULTI30K_SHA256", sums)
    return folder


def tatoeba_rows() -> list[str]:
    """About 1,600 sentences, each said again in another case, punctuation and translation."""
    rows = []
    for who in NUMBERS:
        for verb in VERBS:
            for thing in THINGS:
                english = f"{who.capitalize()} {verb} the {thing}."
                rows.append(f"{english}\tQuelqu’un\u202f: {thing}\tcredit A")
                rows.append(f"{english.upper()[:-1]}!\tÇa alors\u00a0! {thing}\tcredit B")
    return rows


def nmt_archive(text: str) -> bytes:
    """What the registry serves: a zip file inside a gzipped tar file."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as packed:
        packed.writestr("fra.txt", text.encode())
    with tarfile.open(fileobj=outer, mode="w:gz") as archive:
        member = tarfile.TarInfo("nmt-0.0.6/data/fra-eng.zip")
        member.size = len(inner.getvalue())
        archive.addfile(member, io.BytesIO(inner.getvalue()))
    return outer.getvalue()


def lines(path: Path | str) -> list[str]:
    *whole, rest = Path(path).read_bytes().decode().split("\n")
    assert not rest
    return whole


def rows_of(split: str, folder: str = "data/tatoeba-eng-fra") -> list[tuple[str, ...]]:
    columns = [lines(f"{folder}/{split}.{name}") for name in ("en", "fr", "attribution")]
    return list(zip(*columns, strict=True))


def test_the_splits_hold_every_pair_once_and_unchanged(origin: Path) -> None:
    assert main(TATOEBA) == 0
    written = [row for split in ("train", "valid", "test") for row in rows_of(split)]
    assert sorted("\t".join(row) for row in written) == sorted(tatoeba_rows())


def test_no_valid_or_test_sentence_is_in_train_in_any_case_or_punctuation(origin: Path) -> None:
    assert main(TATOEBA) == 0
    keys = {s: {fold(row[0]) for row in rows_of(s)} for s in ("train", "valid", "test")}
    assert all(keys.values())
    assert not keys["train"] & keys["valid"]
    assert not keys["train"] & keys["test"]
    assert not keys["valid"] & keys["test"]
    assert len(rows_of("test")) == 2 * len(keys["test"])  # both spellings moved together


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It's late, Tom.", "ITS LATE TOM"),
        ("Wait here!", "“Wait\u00a0here…”"),
        ("The \ufb01rst café", "the first cafe\u0301"),
        ("Room \uff12 is free.", "room 2 is free"),
    ],
)
def test_sentences_that_differ_in_case_punctuation_or_spelling_fold_alike(
    one: str, other: str
) -> None:
    assert fold(one) == fold(other)
    assert split_of(one) == split_of(other)


def test_the_split_is_the_hash_of_the_folded_sentence_modulo_1000() -> None:
    splits = set()
    for number in range(2000):
        part = int(hashlib.sha256(f"row{number}".encode()).hexdigest(), 16) % 1000
        expected = "valid" if part < 10 else "test" if part < 21 else "train"
        assert split_of(f"Row {number}!") == expected
        splits.add(expected)
    assert splits == {"train", "valid", "test"}


def test_only_pairs_of_3_to_8_english_words_are_kept_and_duplicates_once(tmp_path: Path) -> None:
    sentences = [" ".join("abcdefghi"[:count]) for count in range(2, 10)]
    rows = [f"{sentence}\tun deux\tfirst credit" for sentence in sentences]
    again = f"{sentences[3]}\tun deux\tsecond credit\n{sentences[3]}\ttrois\tthird credit\n"
    counts = fetch.write_splits("\n".join([*rows, again]), tmp_path)
    written = [row for split in counts for row in rows_of(split, str(tmp_path))]
    kept = [(sentence, "un deux", "first credit") for sentence in sentences[1:-1]]
    assert sorted(written) == sorted([*kept, (sentences[3], "trois", "third credit")])


def test_source_md_tells_licence_and_counts(origin: Path) -> None:
    assert main(TATOEBA) == 0
    source = Path("data/tatoeba-eng-fra/SOURCE.md").read_text(encoding="utf-8")
    assert source.startswith("# tatoeba-eng-fra\n")
    assert "CC BY 2.0 FR" in source
    assert "`{train,valid,test}.{en,fr,attribution}`" in source
    for split in ("train", "valid", "test"):
        assert f"| {split} | {len(rows_of(split))} |\n" in source


def test_multi30k_is_unpacked_byte_for_byte(origin: Path) -> None:
    assert main(MULTI30K) == 0
    names = sorted(path.name for path in Path("data/multi30k").iterdir())
    assert names == ["SOURCE.md", "train.de", "train.en"]
    for name in names[1:]:
        packed = (origin / f"{name}.gz").read_bytes()
        assert Path(f"data/multi30k/{name}").read_bytes() == gzip.decompress(packed)


def test_multi30k_is_downloaded_file_by_file_with_a_line_for_each(
    origin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch, "MULTI30K_URL", f"{origin.as_uri()}/")
    assert main(["fetch", "multi30k", "--output", "elsewhere"]) == 0
    assert lines("elsewhere/train.de") == ["Ein Hund\x85läuft."]
    assert capsys.readouterr().err.splitlines() == [
        "multi30k: downloading train.en.gz (1 of 2)",
        "multi30k: downloading train.de.gz (2 of 2)",
        "elsewhere is ready; its SOURCE.md has the terms of use",
    ]


def test_the_table_of_multi30k_has_every_file_of_its_source_md() -> None:
    table = [row.strip("| ").split(" | ") for row in fetch.MULTI30K_SOURCE.split("\n")]
    rows = [row for row in table if len(row) == 3 and row[1].isdigit()]
    expected = {f"{split}.{lang}.gz" for split, _, langs in rows for lang in langs.split()}
    assert set(fetch.MULTI30K_SHA256) == expected
    assert len(set(fetch.MULTI30K_SHA256.values())) == len(expected) == 22


@pytest.mark.parametrize(
    ("command", "name"), [(TATOEBA, fetch.NMT_ARCHIVE), (MULTI30K, "train.de.gz")]
)
def test_a_wrong_sum_names_the_file_and_both_sums_and_leaves_nothing(
    origin: Path, capsys: pytest.CaptureFixture[str], command: list[str], name: str
) -> None:
    right = hashlib.sha256((origin / name).read_bytes()).hexdigest()
    (origin / name).write_bytes(b"something else")
    wrong = hashlib.sha256(b"something else").hexdigest()
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {name} is not the published file: its SHA-256 is {wrong}")
    assert f"expected {right}" in error
    assert list(Path("data").iterdir()) == []


@pytest.mark.parametrize("command", [TATOEBA, MULTI30K])
def test_a_missing_local_file_is_named(
    origin: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    for path in origin.iterdir():
        path.unlink()
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: --from=origin has no readable ")


def test_an_interrupted_fetch_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path, local: Path | None, say: fetch.Say) -> None:
        (folder / "SOURCE.md").write_text("# multi30k\n", encoding="utf-8")
        assert not Path("data/multi30k").exists()
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(fetch.RECIPES, "multi30k", interrupted)
    assert main(["fetch", "multi30k"]) == 130
    assert list(Path("data").iterdir()) == []


def test_a_fetched_corpus_is_reused(origin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(MULTI30K) == 0
    Path("data/multi30k/train.en").write_text("kept\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["fetch", "multi30k"]) == 0
    assert capsys.readouterr().err == f"{Path('data/multi30k')} is already there\n"
    assert lines("data/multi30k/train.en") == ["kept"]


def test_another_folder_is_never_overwritten(
    origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(MULTI30K) == 0
    assert main([*TATOEBA, "--output", "data/multi30k"]) == 2
    expected = f"error: {Path('data/multi30k')} exists but does not hold tatoeba-eng-fra"
    assert expected in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_refused_before_the_work(
    origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link").symlink_to("nowhere")
    assert main([*MULTI30K, "--output", "link"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: link exists but does not hold multi30k; remove it")


def test_a_source_md_in_another_encoding_is_none_of_ours(
    origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other").mkdir()
    Path("other/SOURCE.md").write_bytes("# Französisch\n".encode("latin-1"))
    assert main([*MULTI30K, "--output", "other"]) == 2
    assert "error: other exists but does not hold multi30k" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(
    origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data").write_text("a file", encoding="utf-8")
    assert main(MULTI30K) == 2
    assert f"error: {Path('data/multi30k')} cannot be written" in capsys.readouterr().err


def test_without_a_network_one_line_names_the_url_and_the_way_out(
    origin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{(origin / 'absent').as_uri()}/"
    monkeypatch.setattr(fetch, "MULTI30K_URL", url)
    assert main(["fetch", "multi30k"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: could not download {url}train.en.gz: ")
    assert error.endswith("add --from DIR.")


@pytest.mark.parametrize("location", ["http://[nowhere/", "/round/"])
def test_a_redirection_that_leads_nowhere_is_one_line(
    origin: Path, location: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Redirection(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirection) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(fetch, "MULTI30K_URL", url)
        assert main(["fetch", "multi30k"]) == 2
        server.shutdown()
    _, error = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: could not download {url}train.en.gz: ")
    assert list(Path("data").iterdir()) == []


def test_without_a_registry_pips_own_error_is_told_in_one_line(
    origin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert main(["fetch", "tatoeba-eng-fra"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: could not download nmt-0.0.6.tar.gz through pip: No matching")
    assert error.endswith("add --from DIR.")
    assert list(Path("data").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("pip", [None, "23.0.1"], ids=["own", "Debian-12"])
def test_the_registry_still_serves_the_archive_even_into_a_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str | None
) -> None:
    """Setuptools since 82 lacks what the archive's setup script reads."""
    if pip is not None:
        venv.create(tmp_path / "venv", with_pip=True)
        python = str(tmp_path / "venv/bin/python")
        install = [python, "-m", "pip", "install", f"pip=={pip}", "setuptools>=82"]
        subprocess.run(install, check=True)
        monkeypatch.setattr(sys, "executable", python)
    output = tmp_path / "two words" / "corpus"
    assert main(["fetch", "tatoeba-eng-fra", "--output", str(output)]) == 0
    sizes = {s: len(rows_of(s, str(output))) for s in ("train", "valid", "test")}
    assert sizes == {"train": 145038, "valid": 1490, "test": 1723}
