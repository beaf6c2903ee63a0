"""Every experiment in configs/ parses, builds, and says what it gave."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from seq2seq.cli import main
from seq2seq.config import ModelConfig, SubwordConfig
from seq2seq.nn.transformer import Transformer

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))


def test_there_are_configs() -> None:
    assert {path.stem for path in CONFIGS} >= {"demo", "reverse", "multi30k-en-de"}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_parses_and_builds(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["seq2seq", "fit", "--config", str(path), "--print_config"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    settings = yaml.safe_load(capsys.readouterr().out)
    subwords = SubwordConfig(**settings["data"]["subwords"])
    config = replace(
        ModelConfig(**settings["model"]),
        src_vocab_size=subwords.src_vocab_size,
        tgt_vocab_size=subwords.tgt_vocab_size,
    )
    assert sum(p.numel() for p in Transformer(config).parameters()) > 0


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_opens_with_command_hardware_time_and_score(path: Path) -> None:
    header = "\n".join(line for line in path.read_text().splitlines() if line[:1] == "#")
    for entry in ("COMMAND", "HARDWARE", "TIME", "SCORE"):
        assert re.search(rf"^# {entry} +\S", header, re.MULTILINE), entry
    assert "|tok:" in header, "a score without its signature"
