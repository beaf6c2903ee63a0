"""The commit on a card is that of this package's code, or there is none."""

import importlib.metadata
import shutil
import subprocess
from pathlib import Path

import pytest

from seq2seq.software import _commit, software

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package in a repository of one commit."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return folder


def test_the_commit_is_told_and_whether_files_differ_from_it(package: Path) -> None:
    head = git(package, "rev-parse", "HEAD")
    assert _commit(package) == head
    (package / "new.txt").write_text("not known to git")
    git(package, "tag", "v1")
    assert _commit(package) == head
    (package / "__init__.py").write_text("changed = 1\n")
    assert _commit(package) == f"{head}-dirty"


def test_a_repository_that_merely_surrounds_the_package_is_not_its_origin(package: Path) -> None:
    installed = package.parent / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").write_text("")
    assert _commit(installed) is None


def test_where_git_or_the_repository_is_missing_no_commit_is_told(
    package: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _commit(tmp_path_factory.mktemp("plain")) is None
    monkeypatch.setenv("PATH", "")
    assert _commit(package) is None
    assert "commit" not in software()


def test_a_repository_of_the_environment_is_not_asked(
    package: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    git(elsewhere, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
    assert _commit(package) is not None


def test_versions_are_those_of_the_installed_packages() -> None:
    found = software()
    for name in ("torch", "sacrebleu", "seq2seq-lightning"):
        assert found[name] == importlib.metadata.version(name)
