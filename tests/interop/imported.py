"""What an imported model must do like one of ours, from the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from seq2seq.cli import main
from seq2seq.interop.formats import TARGETS
from seq2seq.interop.targets import target
from seq2seq.model_folder import load_model
from seq2seq.nn.transformer import Transformer


def write(path: Path, texts: Sequence[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def live_like_ours(
    source: Path,
    folder: Path,
    src: Sequence[str],
    tgt: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Convert, translate, score, fine-tune, and export wherever possible, to the same texts."""

    def run(words: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["seq2seq", *words.split()])
        assert main() == 0, capsys.readouterr().err
        return capsys.readouterr().out.splitlines()

    monkeypatch.chdir(folder)
    write(folder / "src", src)
    write(folder / "tgt", tgt)
    run(f"convert {source} ours --src-lang en --tgt-lang de")
    run("translate ours src --output out --beam 1 --device cpu")
    assert len(Path("out").read_text().splitlines()) == len(src)
    assert all(float(row) < 0 for row in run("score ours src tgt --device cpu"))
    run(
        "fit --run tuned --init_from ours --trainer.max_steps 2 --trainer.val_check_interval 2 "
        "--data.train.src src --data.train.tgt tgt --data.validation.src src "
        "--data.validation.tgt tgt --trainer.accelerator cpu"
    )
    ours, tuned = load_model("ours"), load_model("tuned")
    assert tuned.fingerprints == ours.fingerprints
    assert not tuned.network.output.weight.equal(ours.network.output.weight)
    run("translate tuned src --output tuned.out --beam 1 --device cpu")
    reached = [name for name in TARGETS if not target(name).obstacles(tuned.network.config)]
    assert {"ctranslate2", "onnx"} <= set(reached)
    for name in reached:
        said = run(f"export tuned --to {name} {name} --check 20")
        assert "greedy search: 0 of 20 translations differ" in " ".join(said)
        run(f"translate {name} src --output {name}.out --beam 1 --device cpu --engine {name}")
        assert Path(f"{name}.out").read_text() == Path("tuned.out").read_text()


def same_weights(first: Transformer, second: Transformer) -> bool:
    """Bit-identical, under the same names."""
    ours, theirs = (dict(network.named_parameters()) for network in (first, second))
    return ours.keys() == theirs.keys() and all(map(torch.equal, ours.values(), theirs.values()))
