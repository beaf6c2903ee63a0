"""What the benchmark of training divides by the time, against what torch counts."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from seq2seq.config import ModelConfig
from seq2seq.data.batch import uniform
from seq2seq.nn.transformer import Transformer

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """scripts/bench_train.py as a module."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("bench_train")


@pytest.mark.parametrize(
    "changes", [{}, {"activation": "swiglu"}, {"encoder_layers": 1, "decoder_layers": 4}]
)
def test_the_flops_of_a_step_are_those_that_torch_counts(
    script: Any, changes: dict[str, Any]
) -> None:
    """But for what a token may not see, which is multiplied, too."""
    rows, src, tgt = 4, 11, 7
    sizes = {"d_model": 24, "heads": 3, "ff_dim": 40, "encoder_layers": 2, "decoder_layers": 3}
    config = ModelConfig(src_vocab_size=50, tgt_vocab_size=50, **{**sizes, **changes})
    network, batch = Transformer(config, attention="folded"), uniform(rows, src, tgt)
    with FlopCounterMode(display=False) as counter:
        network.project(network(batch.src, batch.src_lens, batch.tgt_in)).sum().backward()
    unseen = rows * config.decoder_layers * tgt * (tgt - 1) // 2
    expected = counter.get_total_flops() - 6 * 2 * 24 * unseen
    assert script.training_flops(config, batch.src_lens, batch.tgt_lens) == expected
    lens = torch.tensor([[11, 7], [3, 5]])
    whole = script.training_flops(config, *lens.T)
    assert whole == sum(script.training_flops(config, *each[:, None]) for each in lens)


def test_a_mistake_of_the_user_is_one_line(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in a size of the model, which the process that trains finds."""
    (tmp_path / "text").write_text("ba de gi\n")
    flags = [f"--{side}={tmp_path / 'text'}" for side in ("src", "tgt")]
    monkeypatch.setattr(sys, "argv", ["bench_train.py", *flags, "--d-model=10", "--heads=3"])
    monkeypatch.setattr(script, "measured", lambda args: script.config_for(args, 20))
    with pytest.raises(SystemExit, match=r"^error: model\.d_model=10 .* model\.heads=3"):
        script.main()
