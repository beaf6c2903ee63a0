"""A step never asks the device for a number, which would stop the host until all is computed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from questioned_fit import Questions
from small_runs import Run, settings

from seq2seq.training.module import TranslationModule

TWELVE = {
    "trainer__max_steps": 12,
    "trainer__val_check_interval": 12,
    "trainer__log_every_n_steps": 6,
}
"""Steps, of which the sixth and the last are logged."""


@pytest.mark.parametrize("changes", [{}, {"training__optimizer": "muon", "training__ema": 0.9}])
def test_no_step_asks_for_a_number_before_the_bar_is_drawn_or_a_row_is_logged(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    questions = Questions()
    monkeypatch.setattr(TranslationModule, "training_step", questions.counting())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with questions:
        fit = settings(**TWELVE, trainer__enable_progress_bar="true", **changes)
        assert run("fit", *fit) == 0
    asking = {number: places for number, places in questions.places.items() if number > 1}
    assert set(asking) == {6, 12}, asking  # logged; logged, drawn, validated and kept


@pytest.mark.slow
def test_no_step_of_two_processes_does_before_they_ask_each_other_whether_to_stop(
    corpus: Path,
) -> None:
    fit = settings(**TWELVE, trainer__devices=2, trainer__strategy="ddp")
    program = str(Path(__file__).with_name("questioned_fit.py"))
    command = [sys.executable, program, "fit", *map(str, fit)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    for rank in (0, 1):
        asking = set(map(int, json.loads(Path(f"asked-{rank}.json").read_text())))
        assert {step for step in asking if step > 1} == {6, 7, 12}  # 7: whether to stop
