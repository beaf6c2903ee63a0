"""Recipes for public corpora: each fetches, checks and writes line-aligned UTF-8 text.

A recipe is `recipe(folder, local, say)`: it fills the empty `folder`, takes the original files
from the folder `local` instead of the network when one is given, and calls `say` with one line
for every step. Whatever the origin, each file must have the SHA-256 sum written down here. A new
corpus is one recipe and one line in RECIPES. Standard library only.
"""

import gzip
import hashlib
import http.client
import io
import os
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from seq2seq.errors import CorpusError, UserError
from seq2seq.provenance import TERMS
from seq2seq.text.normalize import fold

Say = Callable[[str], None]
Split = Literal["train", "valid", "test"]

NMT_ARCHIVE = "nmt-0.0.6.tar.gz"
NMT_SHA256 = "65db964c0afd5b0dbc4baecdce736f53222f63b791958176b5771db78a005096"

MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
MULTI30K_SHA256 = {
    "train.cs.gz": "9d44b64f7f14101916abd2031b784e70c5889004eeba44b46a3e48af7c1d974b",
    "train.de.gz": "b4a41ba46e8ae25b6762e1bc76c91a7bc95f92306a4cdd108e48ad3e08913b9e",
    "train.en.gz": "ffdb848427a3fccff4f5c9c848dff8b8b5745e8f464f44341b6c5c5288f265db",
    "train.fr.gz": "6ac8c267542d49ffcc9074bf37b7ea71c543296c66e0930338f450c47c871642",
    "val.cs.gz": "43bf2239ac946974b89e2b5d09447578bf8d994b1bd02c976ac2ce373ef7a57d",
    "val.de.gz": "9c3697bf5d18908e41df6a94b8a006ab64dbc66f38790865d6694136428a524d",
    "val.en.gz": "459836b7adfe4fd130d0a8c680e2860d6099fbea0fd1bdbbc7442bbc5afce59b",
    "val.fr.gz": "c5657baae50a28e91665e0219b001d8bd5ad617012262c5b0de22b0d449f1f21",
    "test_2016_flickr.cs.gz": "6e51dd17349171640c3ce62e38a5dc2e90dd4a145d308a954fef60f76b835d64",
    "test_2016_flickr.de.gz": "26ef35775a5540d27fc04e66063d59a180388beeede5121c0806dee0c79949e0",
    "test_2016_flickr.en.gz": "7771063a5bca8712e4c60941bcb128301aab5a3eecc66abbb5d150aa3133a55d",
    "test_2016_flickr.fr.gz": "8ce339faa650ae004d4d836ef1ed3115c0389ec8593a269fb023a57e1308d441",
    "test_2017_flickr.de.gz": "cee3c74f83eca5df9aed37314d6d4cf6b7d1d81de0c91c13439335c3c2f83870",
    "test_2017_flickr.en.gz": "26fd42c245fcf8c27e5e86d8f3ade771c5e923a63b81515e4f7f76edf158812a",
    "test_2017_flickr.fr.gz": "b07b53b2a08d29802c4e9281ac7a0ae18222a5b8e211b7dacb3814f15707bb6f",
    "test_2017_mscoco.de.gz": "6d7fd9b6ad1831e484de02560e91ddbaa0131e80ff54fc25623c78049851dcba",
    "test_2017_mscoco.en.gz": "15adf507f95403a366cb1de56c0fca008cd8e8cad086f3872c530b90fe6e363d",
    "test_2017_mscoco.fr.gz": "4e93898522eac030445bbac042d7474765359ba41b5c3188b5128fc23e3d9108",
    "test_2018_flickr.cs.gz": "325b6c2c25fe5034471d13699249bd071b5c6e591181ef4f73f14cbcfb39f6d0",
    "test_2018_flickr.de.gz": "4219a0d35c83b2d3f64544bdc764dc067ce97cff993179f2eb6cfa33cf459317",
    "test_2018_flickr.en.gz": "5af671f810a6f8ceddf8d29dee5eedfe48ac0204a5dca47fcef3e42dc5283e33",
    "test_2018_flickr.fr.gz": "2fb9a6be93f2c14fdded1a06735853921808ac3765be43252f6f0ff8c50f399a",
}


def tatoeba_eng_fra(folder: Path, local: Path | None, say: Say) -> None:
    """Short English-French sentences of Tatoeba, as packed into the archive of `nmt` 0.0.6."""
    if local is None:
        say(f"downloading {NMT_ARCHIVE} (16 MB) from the package registry")
        archive = _pip_download(folder)
    else:
        archive = _read_local(local, NMT_ARCHIVE)
    _check_sha256(NMT_ARCHIVE, archive, NMT_SHA256)
    say("splitting the sentences")
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        packed = outer.extractfile("nmt-0.0.6/data/fra-eng.zip")
        assert packed is not None
        with zipfile.ZipFile(io.BytesIO(packed.read())) as inner:
            text = inner.read("fra.txt").decode("utf-8")
    counts = write_splits(text, folder)
    say(", ".join(f"{count} pairs in {split}" for split, count in counts.items()))
    source = TATOEBA_SOURCE.format(**counts)
    (folder / TERMS).write_text(source, encoding="utf-8", newline="\n")


def write_splits(text: str, folder: Path) -> dict[Split, int]:
    """Write {train,valid,test}.{en,fr,attribution} from lines of English TAB French TAB credit.

    Kept are pairs of 3 to 8 English words, an exact duplicate once; returns the pairs per split.
    """
    credit_of: dict[tuple[str, str], str] = {}
    for line in text.removesuffix("\n").split("\n"):
        english, french, credit = line.split("\t")
        if 3 <= len(english.split()) <= 8:
            credit_of.setdefault((english, french), credit)
    rows: dict[Split, list[tuple[str, str, str]]] = {"train": [], "valid": [], "test": []}
    for (english, french), credit in credit_of.items():
        rows[split_of(english)].append((english, french, credit))
    for split, split_rows in rows.items():
        for column, name in enumerate(("en", "fr", "attribution")):
            _write_lines(folder / f"{split}.{name}", (row[column] for row in split_rows))
    return {split: len(split_rows) for split, split_rows in rows.items()}


def split_of(sentence: str) -> Split:
    """The split of a source sentence: SHA-256 of its folded form, out of 1000 equal parts.

    Sentences that fold alike, and so all translations of one sentence, share a split.
    """
    part = int(hashlib.sha256(fold(sentence).encode("utf-8")).hexdigest(), 16) % 1000
    return "valid" if part < 10 else "test" if part < 21 else "train"


def multi30k(folder: Path, local: Path | None, say: Say) -> None:
    """Image captions in English, German, French and Czech, as published: nothing is changed."""
    for number, (name, expected) in enumerate(MULTI30K_SHA256.items(), start=1):
        step = f"{name} ({number} of {len(MULTI30K_SHA256)})"
        say(f"downloading {step}" if local is None else f"unpacking {step}")
        packed = _download(MULTI30K_URL + name) if local is None else _read_local(local, name)
        _check_sha256(name, packed, expected)
        (folder / name.removesuffix(".gz")).write_bytes(gzip.decompress(packed))
    (folder / TERMS).write_text(MULTI30K_SOURCE, encoding="utf-8", newline="\n")


RECIPES: dict[str, Callable[[Path, Path | None, Say], None]] = {
    "tatoeba-eng-fra": tatoeba_eng_fra,
    "multi30k": multi30k,
}


def _pip_download(folder: Path) -> bytes:
    """The archive's bytes; pip checks the hash before it runs the archive's own setup script.

    pip runs that script to read the archive's metadata, in an isolated environment, which pip
    before 23.1 makes only if asked. The setuptools there must be old enough for the script; what
    else it needs may come as a wheel. Nothing is installed, and `folder` is left empty.
    """
    requirements, constraints = folder / "requirements.txt", folder / "constraints.txt"
    requirements.write_text(f"nmt==0.0.6 --hash=sha256:{NMT_SHA256}\n", encoding="utf-8")
    constraints.write_text("setuptools<70\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", "nmt", "--use-pep517"]
    command += ["--require-hashes", "-r", requirements.name]
    # Which variable reaches the isolated environment depends on pip's age. The bare name is
    # because pip splits these at spaces, which the folder's own path may contain.
    limits = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), constraints.name)
    environment = {**os.environ, **limits}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().split("\n")
        errors = [line for line in lines if line.startswith("ERROR: ")] or lines
        why = errors[-1].removeprefix("ERROR: ")
        raise _unreachable(f"{NMT_ARCHIVE} through pip", why, NMT_ARCHIVE)
    archive = folder / NMT_ARCHIVE
    content = archive.read_bytes()
    for path in (requirements, constraints, archive):
        path.unlink()
    return content


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return bytes(reply.read())
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: a redirection
        raise _unreachable(url, str(error), "all of the .gz files") from error


def _unreachable(what: str, why: str, files: str) -> UserError:
    return UserError(
        f"could not download {what}: {' '.join(why.split())}; where there is no network, copy "
        f"{files} to a folder DIR and add --from DIR."
    )


def _read_local(local: Path, name: str) -> bytes:
    try:
        return (local / name).read_bytes()
    except OSError as error:
        raise CorpusError(f"--from={local} has no readable {name}: {error.strerror}.") from error


def _check_sha256(name: str, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise CorpusError(
            f"{name} is not the published file: its SHA-256 is {found}, expected {expected}; "
            f"it may be damaged, download it again."
        )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")


TATOEBA_SOURCE = """\
# tatoeba-eng-fra

English sentences of 3 to 8 words with their French translations, written by the contributors of
[Tatoeba](https://tatoeba.org) and paired by [manythings.org/anki](https://www.manythings.org/anki/)
(the collection of 2020-08-23).

**Licence**: CC BY 2.0 FR (https://creativecommons.org/licenses/by/2.0/fr/). Whoever passes the
text on names its authors: line n of `SPLIT.attribution` credits line n of `SPLIT.en` and
`SPLIT.fr`.

**Files**: `{{train,valid,test}}.{{en,fr,attribution}}`, UTF-8, one sentence a line, line n of one
aligned with line n of the others. The text is exactly as published, no-break spaces included.

| split | pairs |
|---|---|
| train | {train} |
| valid | {valid} |
| test | {test} |

**Split**: an English sentence is folded (case folded, Unicode form NFKC, everything but letters
and digits dropped). The SHA-256 of the result, read as a number, modulo 1000, decides: 0-9 valid,
10-20 test, the rest train. So all translations of a sentence stand in one split, and no sentence
of valid or test occurs in train, not even in another case or punctuation. Only English decides: a
French sentence that translates two English ones may occur on both sides, and a test sentence with
several translations stands there several times.
"""

MULTI30K_SOURCE = """\
# multi30k

Captions of Flickr images in English, German, French and Czech: task 1 of Multi30k, raw text, from
https://github.com/multi30k/dataset at commit a3d2e0d26b56f3846f66a952536ffed4e401d05a, directory
`data/task1/raw`. Unpacked, otherwise unchanged.

| split | lines | languages |
|---|---|---|
| train | 29000 | en de fr cs |
| val | 1014 | en de fr cs |
| test_2016_flickr | 1000 | en de fr cs |
| test_2017_flickr | 1000 | en de fr |
| test_2017_mscoco | 461 | en de fr |
| test_2018_flickr | 1071 | en de fr cs |

Line n of `SPLIT.de` translates line n of `SPLIT.en`, and so for every language of a split.

**Terms**: for researchers and educators, for non-commercial research and teaching only. The
captions derive from Flickr30K. Do not publish the text again.

**Cite** the papers behind the parts that you use:

- Elliott, Frank, Sima'an and Specia (2016), "Multi30K: Multilingual English-German Image
  Descriptions": English and German.
- Elliott, Frank, Barrault, Bougares and Specia (2017), "Findings of the Second Shared Task on
  Multimodal Machine Translation and Multilingual Image Description": French, the sets of 2017.
- Barrault, Bougares, Specia, Lala, Elliott and Frank (2018), "Findings of the Third Shared Task
  on Multimodal Machine Translation": Czech, the set of 2018.
"""
