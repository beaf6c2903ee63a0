"""An experiment with real trainings: what tests/apps/test_experiment.py leaves out."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from small_runs import settings


@pytest.mark.slow
def test_ctrl_c_lets_a_training_write_its_checkpoint_and_the_command_goes_on_from_it(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # two would wait for cores that others use
    tree: dict[str, object] = {}
    given = settings(trainer__max_steps=400, trainer__val_check_interval=200)
    for name, value in zip(given[::2], given[1::2], strict=True):
        *path, last = str(name)[2:].split(".")
        node: dict[str, object] = tree
        for each in path:
            node = node.setdefault(each, {})  # type: ignore[assignment]
        node[last] = yaml.safe_load(str(value))
    (corpus / "base.yaml").write_text(yaml.safe_dump(tree))
    command = [sys.executable, "-m", "seq2seq", "experiment", "base.yaml", "--seeds", "1", "2"]
    first = subprocess.Popen(command, start_new_session=True)
    run = corpus / "runs/experiment/base/seed-1"
    deadline = time.monotonic() + 300
    while not (run / "checkpoints/step=200.ckpt").exists():
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does
    assert first.wait(timeout=120) == 130
    assert not (run / "fit.done").exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "base, seed 2: test" in done.stderr
    assert len(list((run / "logs").glob("version_*"))) == 2, "it went on"
    (score,) = json.loads((corpus / "runs/experiment/report.json").read_text())["test_sets"][
        "small"
    ]["scores"][:1]
    assert list(score["values"]) == ["1", "2"]
