"""What docs/scores.md says to type does what it says."""

import json
import re
import shlex
from pathlib import Path

import pytest
from pages import blocks, commands_in, page
from test_translator import TEXTS, random_network, subwords

from seq2seq.cli import main
from seq2seq.model_folder import SavedModel, save_model

PAGE = page("docs/scores.md")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in runs/mine and the files that the page names."""
    monkeypatch.chdir(tmp_path)
    save_model(SavedModel(random_network(), subwords(), subwords()), Path("runs/mine/model"))
    for name, texts in (("test.en", TEXTS[:6]), ("test.de", TEXTS[6:12]), ("few.en", TEXTS[:2])):
        Path(name).write_text("".join(f"{text}\n" for text in texts))
    example = json.loads(next(block for block in blocks(PAGE, "text") if block.startswith('{"id"')))
    given = {name: example[name] for name in ("id", "text")}
    Path("memory.jsonl").write_text(json.dumps(given | {"text": "kare"}) + "\n")
    return tmp_path


def test_the_commands_run_as_written_and_write_what_they_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = list(map(shlex.split, commands_in(PAGE)))
    assert [" ".join(words[:2]) for words in commands] == [
        *["seq2seq translate"] * 3,
        *["seq2seq score"] * 3,
        *["seq2seq translate"] * 3,
    ]
    for words in commands:
        assert main(words[1:]) == 0
    columns = [row.split("\t") for row in Path("out.tsv").read_text().splitlines()]
    assert [len(each) for each in columns] == [4] * 6
    ((row),) = Path("out.jsonl").read_text().splitlines()
    assert list(json.loads(row)) == ["id", "text", "translation", "score", "alignment"]
    assert len(Path("scores.jsonl").read_text().splitlines()) == 6
    assert len(Path("mbr.de").read_text().splitlines()) == 6
    assert Path("maps.html").read_text().count("<h2>") == 2


def test_the_python_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    (python,) = blocks(PAGE, "py")
    exec(compile(python, "docs/scores.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_every_field_and_column_is_on_the_page() -> None:
    for name in ("alignment", "tokens", "token_scores", "translations", "score", "prefix", "src"):
        assert f'"{name}"' in PAGE
    for link in re.findall(r"\]\((\S+?)(?:#\S+)?\)", PAGE):
        assert (Path(__file__).parents[1] / "docs" / link).exists(), link
