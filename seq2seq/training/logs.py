"""The CSV logs of a run folder."""

import csv
from collections.abc import Iterator
from pathlib import Path

from seq2seq.errors import ConfigError

FOLDER = "logs"

Log = dict[str, dict[int, float]]
"""Name of a number -> optimizer steps done when it was logged -> the number; steps ascend."""
Row = tuple[int, dict[str, float]]


def read_log(run: Path) -> Log:
    """All that a run has logged. A run that went on after a stop has several files; from the step
    where a later file begins, what earlier files say is ignored."""
    paths = sorted((run / FOLDER).glob("version_*/metrics.csv"), key=_version)
    if not paths:
        what = f"has no {FOLDER}/version_*/metrics.csv" if run.exists() else "does not exist"
        why = "expected the folder of a run, as given to --run."
        if (run / "config.yaml").is_file():
            why = "a run writes it with its first numbers, unless trainer.logger is another one."
        raise ConfigError(f"{run} {what}; {why}")
    rows: list[Row] = []
    for path in paths:
        new = list(_rows(path))
        steps = [step for step, _ in new]
        rows = [row for row in rows if not steps or row[0] < min(steps)] + new
    log: Log = {}
    for step, numbers in sorted(rows, key=lambda row: row[0]):
        for name, number in numbers.items():
            log.setdefault(name, {})[step] = number
    if not log:
        raise ConfigError(
            f"{paths[-1]} holds no numbers yet; they come every trainer.log_every_n_steps steps."
        )
    return log


def _rows(path: Path) -> Iterator[Row]:
    """Lightning counts steps from 0; a line that is still being written has no step yet."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for cells in csv.DictReader(file):
                step = cells.pop("step", None)
                cells.pop("epoch", None)
                if step:
                    yield int(step) + 1, {name: float(cell) for name, cell in cells.items() if cell}
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read as a log: {error}.") from None


def _version(path: Path) -> int:
    number = path.parent.name.removeprefix("version_")
    return int(number) if number.isdigit() else -1
