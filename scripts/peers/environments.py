"""Other toolkits: each in an environment of its own, which is made on the first call, and their
processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

SCRIPTS = Path(__file__).parents[1]
CACHE = Path("~/.cache/seq2seq").expanduser()

REQUIREMENTS = {
    # JoeyNMT imports importlib_metadata without asking for it, and asks for any SentencePiece.
    "joeynmt": ["joeynmt==2.3.0", "importlib_metadata==10.2.0", "sentencepiece==0.2.0"],
    "huggingface": ["transformers==5.17.0"],
}


class NotMeasured(Exception):
    """Why there is no number, in one line."""


def environment(name: str, folder: Path) -> Path:
    """The Python of a toolkit's environment, which is made if it is not complete.

    Its torch is exactly ours, or there is none: another build would be no fair comparison, and
    perhaps gigabytes of CUDA.
    """
    home, requirements = folder / name, [f"torch=={version('torch')}", *REQUIREMENTS[name]]
    complete, wanted = home / "complete.txt", "\n".join(requirements) + "\n"
    python = home / "bin/python"
    if complete.is_file() and complete.read_text() == wanted:
        return python
    say(f"{name}: installing {', '.join(requirements)} into {home}")
    shutil.rmtree(home, ignore_errors=True)
    output_of([sys.executable, "-m", "venv", home])
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    output_of([*pip, *requirements])
    complete.write_text(wanted)
    return python


def output_of(
    command: Sequence[object], folder: Path | None = None, threads: int | None = None
) -> str:
    """What a process without a GPU prints."""
    variables = {"CUDA_VISIBLE_DEVICES": ""}
    if threads is not None:
        variables["OMP_NUM_THREADS"] = str(threads)
    return ended(command, variables, folder).stdout


def ended(
    command: Sequence[object],
    variables: dict[str, str],
    folder: Path | None = None,
    stdin: TextIO | None = None,
) -> "subprocess.CompletedProcess[str]":
    """A process that did its work; NotMeasured tells the last line of one that failed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            stdin=stdin,
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | variables,
        )
    except OSError as error:
        raise NotMeasured(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotMeasured(f"{' '.join(words[:4])} ... failed: {lines[-1] if lines else 'silently'}")
    return done


def attempt(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives, or None when it was said why there is no number."""
    try:
        return function(*arguments)
    except NotMeasured as error:
        say(f"{name}: not measured: {error}")
        return None


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
