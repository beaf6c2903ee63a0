"""What the README says to type does what it says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import blocks, commands_in, page

from seq2seq.cli import main

ROOT = Path(__file__).parent.parent
README = page("README.md")
SMALL = (
    "--trainer.max_steps 2 --trainer.val_check_interval 2 --trainer.accelerator cpu "
    "--data.cache cache"
)


def commands() -> list[list[str]]:
    """Every shell command, split into words."""
    lines = commands_in(README)
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def fresh_clone(folder: Path) -> Path:
    """A copy of the files that git knows or would add, and nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def test_every_command_of_the_readme_is_tested() -> None:
    tested = [
        "scripts/demo",
        "scripts/check",
        "pip install",
        "seq2seq inspect",
        "seq2seq fit",
        "seq2seq translate",
        "seq2seq evaluate",
    ]
    assert [
        " ".join(words[: 2 if words[0] in ("pip", "seq2seq") else 1]) for words in commands()
    ] == tested


def test_training_translating_and_evaluating_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, en, de in (
        ("train", "house", "Haus"),
        ("dev", "boat", "Boot"),
        ("test", "town", "Dorf"),
    ):
        Path(f"{name}.en").write_text(f"this is a small {en}\nthat was the big {en}\n" * 4)
        Path(f"{name}.de").write_text(f"dies ist ein kleines {de}\ndas war das große {de}\n" * 4)
    for words in commands():
        if words[0] == "seq2seq":
            extra = SMALL.split() if words[1] == "fit" else []
            monkeypatch.setattr(sys, "argv", [*words, *extra])
            assert main() == 0
    assert len(Path("out.de").read_text().splitlines()) == 8
    assert "BLEU" in capsys.readouterr().out
    (python,) = blocks(README, "python")
    exec(compile(python, "README", "exec"), {})
    assert capsys.readouterr().out.startswith("[")


def test_every_file_that_the_readme_names_exists() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for name in re.findall(r"`((?:data|text|nn|training|decoding|evaluation)/\w+\.py)`", README):
        assert name == "decoding/x.py" or (ROOT / "seq2seq" / name).exists(), name


@pytest.mark.slow
def test_a_wheel_installs_and_works_outside_the_clone(tmp_path: Path) -> None:
    clone = fresh_clone(tmp_path / "clone")
    python = tmp_path / "venv/bin/python"

    def run(*words: str, cwd: Path) -> str:
        return subprocess.run(
            words, cwd=cwd, check=True, capture_output=True, text=True, timeout=900
        ).stdout

    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--outdir",
        str(tmp_path / "dist"),
        str(clone),
        cwd=tmp_path,
    )
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("seq2seq_lightning-*.whl")
    (install,) = (words for words in commands() if words[0] == "pip")
    assert install == ["pip", "install", "-c", "constraints.txt", "-e", "."]
    run(
        str(python),
        "-m",
        "pip",
        "install",
        "-c",
        str(clone / "constraints.txt"),
        str(wheel),
        cwd=tmp_path,
    )
    (tmp_path / "a").write_text("one line\n")
    assert run(str(tmp_path / "venv/bin/seq2seq"), "--version", cwd=tmp_path).startswith("seq2seq ")
    scored = run(str(tmp_path / "venv/bin/seq2seq"), "evaluate", "a", "a", cwd=tmp_path)
    assert "BLEU" in scored
    assert "--training.lr" in run(str(tmp_path / "venv/bin/seq2seq"), "fit", "--help", cwd=tmp_path)


@pytest.mark.slow
def test_the_demo_reaches_its_score_on_a_fresh_machine(tmp_path: Path) -> None:
    clone = fresh_clone(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment["PYTHON"] = sys.base_prefix + "/bin/python3"

    def demo() -> str:
        return subprocess.run(
            ["scripts/demo"],
            cwd=clone,
            check=True,
            capture_output=True,
            text=True,
            timeout=3000,
            env=environment,
        ).stdout

    said = demo()
    bleu = re.search(r"^tatoeba: BLEU (\d+\.\d+)  \S*\|tok:13a\|", said, re.MULTILINE)
    assert bleu is not None
    assert float(bleu[1]) >= 38
    assert said.count("  hyp  ") == 10
    assert "already trained" in demo()
