"""The commands and configurations of docs/distill.md run as written, on tiny models and corpora."""

import argparse
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from pages import blocks, commands_in, page
from test_translator import TEXTS, random_network, subwords

from seq2seq.apps.distill import add_arguments
from seq2seq.cli import main
from seq2seq.data.lines import read_lines
from seq2seq.model_folder import SavedModel, save_model

DOCUMENT = page("docs/distill.md")
COMMANDS = commands_in(DOCUMENT)
SMALL = (
    "--trainer.max_steps 2 --trainer.val_check_interval 2 --trainer.accelerator cpu "
    "--trainer.enable_progress_bar false --data.cache cache --data.subwords.src_vocab_size 300 "
    "--data.subwords.tgt_vocab_size 300"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the models and corpora that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("multi30k-en-de", "teacher", "second")):
        saved = SavedModel(random_network(seed), subwords(), subwords(), "en", "de")
        save_model(saved, tmp_path / "runs" / name / "model")
    text = "".join(f"{line}\n" for line in TEXTS[:6])
    (tmp_path / "data/multi30k").mkdir(parents=True)
    for name in ("train", "data/multi30k/train", "data/multi30k/val"):
        for lang in ("en", "de"):
            Path(f"{name}.{lang}").write_text(text)
    Path("more.en").write_text(text)
    for lang in ("en", "de"):
        Path(f"data/multi30k/test_2016_flickr.{lang}").write_text(text)
    Path("data/multi30k/SOURCE.md").write_text("**Licence**: CC0\n")
    Path("student.yaml").write_text(blocks(DOCUMENT, "yaml")[0])
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_every_command_runs_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = []
    for command in COMMANDS:
        program, *words = shlex.split(command)
        assert program == "seq2seq"
        extra = SMALL.split() if words[0] == "fit" else []
        monkeypatch.setattr(sys, "argv", ["seq2seq", *words, *extra])
        assert main() == 0
        if words[0] == "distill":
            outputs.append(words[words.index("--output") + 1])
            for row in read_lines(outputs[-1]):
                assert len(row.split("\t")) == 4
    assert set(outputs) == {"distilled.tsv", "more.tsv"}
    card = Path("runs/multi30k-en-de-student/model/README.md").read_text()
    assert "\n> > **Licence**: CC0\n" in card
    assert len(Path("out.de").read_text().splitlines()) == 6


@pytest.mark.usefixtures("folder")
def test_every_configuration_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in blocks(DOCUMENT, "yaml"):
        Path("x.yaml").write_text(block)
        monkeypatch.setattr(sys, "argv", ["seq2seq", "fit", "--config", "x.yaml", "--print_config"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        settings = yaml.safe_load(capsys.readouterr().out)
        assert "distilled.tsv" in str(settings["data"]["train"])


def test_every_flag_of_its_own_is_in_a_command() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    # The groups corpus, engine and search are shown by other pages.
    own = {flag for action in parser._optionals._group_actions for flag in action.option_strings}
    assert own - {"--mbr", "--candidates"} == {
        "--output",
        "--resume",
        "--teacher-only",
        "--closest",
    }
    for flag in own - {"--mbr", "--candidates"}:
        assert any(f" {flag} " in f"{command} " for command in COMMANDS), flag
