"""Every command of docs/translate.md runs; with those of the other guides they show every flag."""

import gzip
import re
import shlex
from pathlib import Path

import pytest
from command_flags import flags_of
from pages import commands_in, page
from test_translator import TEXTS, random_network, subwords

from seq2seq.cli import main
from seq2seq.model_folder import SavedModel, save_model

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = page("docs/translate.md")
COMMANDS = commands_in(GUIDE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With runs/mine/model, test.en and test.en.gz."""
    folder = tmp_path_factory.mktemp("guide")
    save_model(SavedModel(random_network(), subwords(), subwords()), folder / "runs/mine/model")
    text = "".join(f"{line}\n" for line in TEXTS[:6])
    (folder / "test.en").write_text(text)
    (folder / "test.en.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_a_translation_of_every_line(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    words = shlex.split(command)
    assert words[:2] == ["seq2seq", "translate"]
    if "<" in words:
        with Path(words[words.index("<") + 1]).open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert main(words[1 : words.index("<")]) == 0
        written = capfd.readouterr().out
    else:
        assert main(words[1:]) == 0
        written = Path(words[words.index("--output") + 1]).read_text()
    n_best = int(words[words.index("--n-best") + 1]) if "--n-best" in words else 1
    assert written.count("\n") == 6 * n_best


def test_the_example_in_python_reads_the_lines_that_the_command_reads(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").symlink_to(folder / "runs")
    Path("test.en").write_bytes("ka re\rno\nto\u2028mi\x0bsu\r\n\n".encode())
    (example,) = re.findall(r"^```text\n(from seq2seq import S.*?)^```", GUIDE, re.DOTALL | re.M)
    exec(example.replace("Noch", "ka"), {})
    assert capsys.readouterr().out.count("\n") == 1 + 3


def test_the_guides_show_every_flag() -> None:
    guides = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    commands = re.findall(r"^seq2seq translate (.*)$", guides.replace("\\\n", " "), re.MULTILINE)
    shown = {word for command in commands for word in shlex.split(command) if word[:2] == "--"}
    assert shown == flags_of("translate")
