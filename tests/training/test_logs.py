"""The log of a run is what it logged, each step once, however often it was stopped."""

import csv
from pathlib import Path

import pytest
from small_runs import Run, settings

from seq2seq.errors import ConfigError
from seq2seq.training.logs import read_log


def write_version(run: Path, number: int, rows: dict[int, dict[str, float]]) -> Path:
    """A CSV log as Lightning writes it: steps from 0, empty cells, columns in order."""
    names = sorted({"epoch", "step", *(name for row in rows.values() for name in row)})
    path = run / f"logs/version_{number}/metrics.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for step, row in rows.items():
            writer.writerow({"epoch": 0, "step": step, **row})
    return path


def losses(steps: range, start: float) -> dict[int, dict[str, float]]:
    """start, start + 1 ... so that each version's numbers are told apart."""
    return {step: {"loss": start + n} for n, step in enumerate(steps)}


def test_the_log_of_a_resumed_run_is_that_of_one_that_never_stopped(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(run="whole", trainer__max_steps=12)) == 0
    assert run("fit", *settings(run="parts", trainer__max_steps=10)) == 0
    for step in (8, 10):  # as if it had been killed before
        Path(f"parts/checkpoints/step={step}.ckpt").unlink()
    assert run("fit", *settings(run="parts", trainer__max_steps=12), "--ckpt_path", "last") == 0
    whole, parts = read_log(Path("whole")), read_log(Path("parts"))
    for log in (whole, parts):
        assert len(log.pop("tokens_per_second")) == 6  # the clock's
    assert parts == whole
    assert list(whole["loss"]) == list(whole["lr"]) == [2, 4, 6, 8, 10, 12]
    # As in the names of checkpoints and in what a validation says.
    assert list(whole["val_bleu"]) == list(whole["val_ppl"]) == [4, 8, 12]


def test_more_steps_than_a_run_was_to_have_are_logged_as_what_they_are(
    corpus: Path, run: Run
) -> None:
    """It ended with a validation that no interval asked for."""
    assert run("fit", *settings(run="whole", trainer__max_steps=16)) == 0
    assert run("fit", *settings(run="parts", trainer__max_steps=10)) == 0
    assert run("fit", *settings(run="parts", trainer__max_steps=16), "--ckpt_path", "last") == 0
    whole, parts = read_log(Path("whole")), read_log(Path("parts"))
    assert parts["loss"] == whole["loss"]
    assert list(parts["val_bleu"]) == [4, 8, 10, 12, 16]
    assert [parts["val_bleu"][step] for step in (4, 8, 12, 16)] == [*whole["val_bleu"].values()]


def test_a_later_version_wins_from_its_first_step_on(tmp_path: Path) -> None:
    write_version(tmp_path, 0, losses(range(9, 100, 10), 0))  # steps 10, 20 ... 100
    write_version(tmp_path, 1, losses(range(44, 65, 5), 100))  # 45, 50 ... 65
    write_version(tmp_path, 2, {})
    write_version(tmp_path, 10, losses(range(59, 60), 200))  # 60; comes after 2
    expected = {10: 0, 20: 1, 30: 2, 40: 3, 45: 100, 50: 101, 55: 102, 60: 200}
    assert read_log(tmp_path) == {"loss": expected}
    assert list(read_log(tmp_path)["loss"]) == sorted(read_log(tmp_path)["loss"])


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = write_version(tmp_path, 0, {4: {"loss": 1.5, "grad_norm": 2.5}, 9: {"loss": 1.25}})
    with path.open("a") as file:
        file.write("0,2.7")
    assert read_log(tmp_path) == {"loss": {5: 1.5, 10: 1.25}, "grad_norm": {5: 2.5}}


def test_numbers_that_are_none_are_read_as_such(tmp_path: Path) -> None:
    write_version(tmp_path, 0, {4: {"loss": float("nan")}, 9: {"loss": float("inf")}})
    assert str(read_log(tmp_path)) == "{'loss': {5: nan, 10: inf}}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "run does not exist; expected the folder of a run"),
        ("", r"version_0/metrics.csv holds no numbers yet.*trainer\.log_every_n_steps"),
        ("epoch,loss,step\n", "version_0/metrics.csv holds no numbers yet"),
        ("epoch,loss,step\n0,soup,4\n", "version_0/metrics.csv cannot be read as a log: .*soup"),
        ("epoch,loss,step\n0,1.5,4,6\n", "version_0/metrics.csv cannot be read as a log"),
        ("epoch,loss,step\n0,\udcff,4\n", "version_0/metrics.csv cannot be read as a log"),
    ],
    ids=["no run", "empty", "header", "word", "too many cells", "no text"],
)
def test_a_log_that_cannot_be_had_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    run = tmp_path / "run"
    if content is not None:
        path = write_version(run, 0, {})
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=said):
        read_log(run)


def test_a_folder_without_logs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no logs/version_\*/metrics\.csv"):
        read_log(tmp_path)


def test_a_run_without_logs_is_told_as_one(corpus: Path, run: Run) -> None:
    assert run("fit", *settings(run="silent", trainer__logger="false", trainer__max_steps=1)) == 0
    said = r"silent has no logs/.*; a run writes it with its first numbers, unless trainer\.logger"
    with pytest.raises(ConfigError, match=said):
        read_log(Path("silent"))
