"""What docs/models.md says to type does what it says."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from command_flags import flags_of
from pages import commands_in, page

from seq2seq.cli import main

PAGE = page("docs/models.md")
COMMANDS = commands_in(PAGE)
CONFIG = """
data:
  train: {src: train.en, tgt: train.de}
  validation: {src: train.en, tgt: train.de}
  test: {news: {src: train.en, tgt: train.de}}
  subwords: {src_vocab_size: 40, tgt_vocab_size: 40, byte_fallback: false}
  cache: cache
model: {d_model: 8, heads: 2, ff_dim: 12, encoder_layers: 1, decoder_layers: 1}
trainer: {max_steps: 2, val_check_interval: 1, accelerator: cpu, enable_progress_bar: false}
"""


def test_the_commands_run_as_written_and_the_folder_holds_what_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.en").write_text("this is a small house\nthat was the big boat\n" * 9)
    Path("train.de").write_text("dies ist ein kleines Haus\ndas war das große Boot\n" * 9)
    Path("mine.yaml").write_text(CONFIG)
    fit = "seq2seq fit --run runs/mine --config mine.yaml"
    for command in [fit, *COMMANDS]:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        assert main() == 0, command
    card = capsys.readouterr().out.rpartition("\n---\n\n")[2]
    assert "- The weights began as those of `runs/mine` (seq2seq).\n" in card
    assert "license: cc-by-4.0\n" in Path("runs/tuned/model/README.md").read_text()
    assert (
        Path("runs/mine/model/README.md").read_text().count("- test news (18 sentences, beam 10)")
    )
    listed = {name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.M) for name in row.split(", ")}
    assert listed == {f"`{path.name}`" for path in Path("runs/mine/model").iterdir()}


def test_every_flag_is_on_the_page() -> None:
    assert flags_of("info") <= {word for command in COMMANDS for word in command.split()}
