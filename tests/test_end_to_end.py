"""From text files to a score, with the documented commands."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_reverse_task_reaches_a_bleu_above_95(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    header = (ROOT / "configs/reverse.yaml").read_text()
    commands = re.findall(r"^#\s+(?:COMMAND\s+)?((?:python|seq2seq) .+)$", header, re.MULTILINE)
    assert [command.split()[1] for command in commands] == [
        "scripts/make_reverse.py",
        "fit",
        "test",
    ]
    said = ""
    for command in commands:
        words = command.split()
        if words[0] == "python":
            words = [sys.executable, str(ROOT / words[1])]
        else:
            words = [sys.executable, "-m", *words]
        said = subprocess.run(
            words, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=900
        ).stdout
    bleu = re.search(r"^reverse: BLEU (\d+\.\d+)", said, re.MULTILINE)
    assert bleu is not None
    assert float(bleu[1]) > 95
