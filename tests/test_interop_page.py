"""What docs/interop.md says to type does what it says."""

import re
import shlex
from pathlib import Path

import pytest
from command_flags import flags_of
from pages import blocks, commands_in, page
from test_translator import TEXTS, random_network, subwords

from seq2seq.cli import main
from seq2seq.config import ModelConfig
from seq2seq.interop.formats import TARGETS
from seq2seq.interop.targets import reach, target
from seq2seq.model_folder import SavedModel, save_model

PAGE = page("docs/interop.md")


@pytest.mark.export
def test_the_commands_and_the_python_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    network = random_network(tie="all", norm="post")
    save_model(SavedModel(network, subwords(), subwords()), Path("runs/mine/model"))
    for name, texts in (("dev", TEXTS[:12]), ("test", TEXTS[12:18])):
        for side in ("en", "de"):
            Path(f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts))
    commands = list(map(shlex.split, commands_in(PAGE)))
    assert [words[1] for words in commands] == ["export", "export", "translate", "translate"]
    for words in commands:
        assert main(words[1:]) == 0, capsys.readouterr().err
    assert Path("out.de").read_text() == Path("same.de").read_text()
    assert len(Path("out.de").read_text().splitlines()) == 6
    listed = re.findall(r"`([\w.]+\.(?:json|bin|model|md))`", PAGE)
    assert {path.name for path in Path("exported").iterdir()} <= set(listed)
    capsys.readouterr()
    for python in blocks(PAGE, "py"):
        exec(compile(python, "docs/interop.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_every_flag_target_and_type_is_on_the_page() -> None:
    assert all(flag in PAGE for flag in flags_of("export"))
    for name in TARGETS:
        assert f"pip install 'seq2seq-lightning[{name}]'" in PAGE
        assert all(f"`{each}`" in PAGE for each in target(name).QUANTIZATIONS)
    assert f"model {reach(ModelConfig())}\n" in PAGE
