"""What docs/convert.md says to type does what it says."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
import yaml
from pages import blocks, page
from peers.joeynmt_weights import checkpoint
from test_translator import TEXTS, random_network, subwords

from seq2seq.cli import main
from seq2seq.interop.formats import SOURCES
from seq2seq.model_folder import load_model

PAGE = page("docs/convert.md")


def write_their_model(folder: Path) -> None:
    """JoeyNMT's, which needs no other package."""
    network = random_network(tie="all")
    config, model = network.config, subwords()
    pieces = model.pieces(range(len(model)))
    folder.mkdir()
    torch.save(checkpoint(network), folder / "best.ckpt")
    (folder / "subwords.model").write_bytes(model.serialized)
    for side in ("src", "trg"):
        entries = [pieces[1], pieces[0], *pieces[2:]]
        (folder / f"{side}_vocab.txt").write_text("".join(f"{each}\n" for each in entries))
    language = {"level": "bpe", "tokenizer_cfg": {"model_file": "subwords.model"}}
    stack = {
        "type": "transformer",
        "num_heads": config.heads,
        "hidden_size": config.d_model,
        "ff_size": config.ff_dim,
        "layer_norm": config.norm,
        "embeddings": {"embedding_dim": config.d_model, "scale": True},
    }
    depths = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    stacks = {name: stack | {"num_layers": depth} for name, depth in depths.items()}
    described = {"data": {"src": language, "trg": language}, "model": stacks}
    (folder / "config.yaml").write_text(yaml.dump(described))


@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_the_commands_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_their_model(Path("opus-mt-en-de"))
    for side in ("en", "de"):
        Path(f"test.{side}").write_text("".join(f"{text}\n" for text in TEXTS[:12]))
    both = {"src": "test.en", "tgt": "test.de"}
    trainer = {"max_steps": 2, "val_check_interval": 2, "accelerator": "cpu"}
    data = {"train": both, "validation": both, "cache": "cache"}
    Path("mine.yaml").write_text(yaml.dump({"trainer": trainer, "data": data}))
    (block,) = blocks(PAGE, "bash")
    for line in block.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        assert main() == 0, capsys.readouterr().err
    assert len(Path("out.de").read_text().splitlines()) == 12
    assert load_model("runs/tuned").fingerprints == load_model("models/en-de").fingerprints


def test_every_format_is_on_the_page_and_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert f"{', '.join(SOURCES)}; default" in told
    assert re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE) == list(SOURCES)
