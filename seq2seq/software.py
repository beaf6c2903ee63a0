"""Which software runs: versions, and the commit where this package is a git checkout."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

OURS = "seq2seq-lightning"
OTHERS = ("torch", "pytorch-lightning", "sentencepiece", "sacrebleu", "numpy")


def software() -> dict[str, str]:
    """Name -> version of what decides the result; `commit` ends in -dirty if files are changed."""
    commit = _commit(Path(__file__).parent)
    found = {OURS: _version(OURS), "commit": commit, "python": platform.python_version()}
    found |= {name: _version(name) for name in OTHERS}
    return {name: each for name, each in found.items() if each is not None}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit(folder: Path) -> str | None:
    """Of the repository that has this folder's files, not of one that happens to be around it."""
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None
