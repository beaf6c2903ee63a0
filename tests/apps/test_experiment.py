"""What is run, what is not run again, and what becomes of the results."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import mean, stdev
from threading import Thread

import pytest
import yaml
from test_export import save_tiny_model

from seq2seq.apps import trials
from seq2seq.cli import main
from seq2seq.errors import ConfigError
from seq2seq.evaluation.metrics import bleu
from seq2seq.evaluation.significance import MOST_LINES

Read = Callable[[Path], "subprocess.CompletedProcess[str]"]

TEST_SETS = trials.test_sets
READ = trials.read
REFERENCES = [f"line {n} of the test set" for n in range(12)]


class FakeCommands:
    """Instead of fit and test: a checkpoint, and translations that get better with the seed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.statuses: dict[str, int] = {}
        """Of the commands that do not succeed."""

    def __call__(self, command: list[str]) -> int:
        verb = command[3]
        given = dict(zip(command[4::2], command[5::2], strict=True))
        run = Path(given.get("--run") or yaml.safe_load(Path(given["--config"]).read_text())["run"])
        name = f"{verb} {run.parent.name} {run.name[5:]}"
        self.seen.append(name + " again" * ("--ckpt_path" in given))
        status = self.statuses.get(name, 0)
        if verb == "fit":
            assert given["--seed_everything"] == run.name[5:]
            (run / "checkpoints").mkdir(parents=True, exist_ok=True)
            (run / "checkpoints/step=4.ckpt").touch()
            (run / "config.yaml").write_text(
                f"run: {run}\ndata: {{test: {{set: {{src: a, tgt: b}}}}}}\n"
            )
        elif status == 0:
            self.test(run)
        return status

    def test(self, run: Path) -> None:
        right = int(run.name[5:]) + 4 * (run.parent.name == "good")
        lines = [*REFERENCES[:right], *(["wrong line of it"] * (len(REFERENCES) - right))]
        (run / "test").mkdir(exist_ok=True)
        found = {"tgt_lang": "de", "references": REFERENCES, "translations": lines}
        (run / "test/set.json").write_text(json.dumps(found))


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommands:
    """Two configurations in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("base", "good"):
        Path(f"{name}.yaml").write_text(f"# {name}\n")
    fake = FakeCommands()
    monkeypatch.setattr(trials, "_child", fake)
    monkeypatch.setattr(trials, "test_sets", lambda config: {})
    return fake


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> Read:
    """As trials.read, without a process of its own, whose start takes seconds; in its place."""

    def read(config: Path) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "argv", ["seq2seq"])  # which `fit` changes
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main(["fit", "--config", str(config), "--print_config"])
        status = int(end.value.code or 0)
        return subprocess.CompletedProcess([], status, out.getvalue(), err.getvalue())

    monkeypatch.setattr(trials, "read", read)
    return read


def call(*more: str) -> int:
    return main(["experiment", "base.yaml", "good.yaml", "--resamples", "50", *more])


def test_a_model_that_no_checkpoint_leads_to_is_trained_anew(commands: FakeCommands) -> None:
    model = Path("runs/experiment/base/seed-2/model")
    model.mkdir(parents=True)
    assert call("--seeds", "2") == 0
    assert "fit base 2" in commands.seen
    assert not model.exists()  # with which `fit` refuses to begin


def report() -> dict[str, object]:
    return dict(json.loads(Path("runs/experiment/report.json").read_text()))


def test_each_configuration_is_trained_and_tested_with_each_seed(commands: FakeCommands) -> None:
    assert call("--seeds", "2", "3") == 0
    assert commands.seen == [
        f"{verb} {config} {seed}"
        for seed in (2, 3)
        for config in ("base", "good")
        for verb in ("fit", "test")
    ]
    assert report()["configs"] == ["base", "good"]
    assert report()["missing"] == []


def test_the_report_has_mean_deviation_seeds_and_test(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--seeds", "1", "2", "4") == 0
    found = report()["test_sets"]
    assert isinstance(found, dict)
    base, good = found["set"]["scores"][:2]
    expected = {}
    for seed in (1, 2, 4):
        tested = json.loads(Path(f"runs/experiment/base/seed-{seed}/test/set.json").read_text())
        expected[str(seed)] = bleu(tested["translations"], [REFERENCES], "de").value
    assert base["values"] == expected
    assert base["mean"] == pytest.approx(mean(expected.values()))
    assert base["deviation"] == pytest.approx(stdev(expected.values()))
    assert base["p_value"] is None
    assert good["p_value"] < 0.05
    assert "|bs:50|seed:12345|" in good["test_signature"]
    assert "|bs:" not in good["signature"]
    shown = capsys.readouterr().out
    assert f"base  {base['mean']:.2f} ± {base['deviation']:.2f} (3 seeds)  baseline" in shown
    assert f"{good['mean'] - base['mean']:+.2f}  p = {good['p_value']:.4f}" in shown
    page = Path("runs/experiment/report.html").read_text(encoding="utf-8")
    text = "".join(ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>")).itertext())
    assert f"{base['mean']:.2f} ± {base['deviation']:.2f}" in text
    assert "good against base" in text


def test_what_was_trained_before_its_folder_was_moved_is_tested_where_it_is(
    commands: FakeCommands,
) -> None:
    commands.statuses = {f"test {name} 1": 2 for name in ("base", "good")}
    assert call("--seeds", "1") != 0
    commands.statuses.clear()
    Path("runs/experiment").rename("elsewhere")
    assert call("--seeds", "1", "--output", "elsewhere") == 0
    assert len(list(Path("elsewhere").glob("*/seed-1/test/set.json"))) == 2
    assert not Path("runs/experiment").exists()


def test_what_is_complete_is_not_done_again_and_seeds_may_be_added(commands: FakeCommands) -> None:
    assert call("--seeds", "1") == 0
    before = len(commands.seen)
    assert call("--seeds", "1") == 0
    assert len(commands.seen) == before
    assert call("--seeds", "1", "2") == 0
    assert commands.seen[before:] == ["fit base 2", "test base 2", "fit good 2", "test good 2"]


def test_a_failure_leaves_the_others_alone_and_is_tried_again(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.statuses = {"fit base 1": -9, "test good 2": 2}
    assert call("--seeds", "1", "2") == 1
    failures = [
        "base, seed 1: fit failed with status -9",
        "good, seed 2: test failed with status 2",
    ]
    assert report()["missing"] == failures
    assert all(f"missing: {each}" in capsys.readouterr().out for each in failures[:1])
    scores = report()["test_sets"]["set"]["scores"]  # type: ignore[index]
    assert [(score["config"], list(score["values"])) for score in scores[:2]] == [
        ("base", ["2"]),
        ("good", ["1"]),
    ]
    assert scores[0]["deviation"] is None
    commands.seen.clear()
    commands.statuses.clear()
    assert call("--seeds", "1", "2") == 0
    assert commands.seen == ["fit base 1 again", "test base 1", "test good 2"]


@pytest.mark.parametrize("status", [130, 143, -2, -15])
def test_a_stop_stops_everything_and_the_same_command_goes_on(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    commands.statuses = {"fit good 1": status}
    assert call("--seeds", "1", "2") == (status if status > 0 else 128 - status)
    assert commands.seen == ["fit base 1", "test base 1", "fit good 1"]
    assert "the same command goes on" in capsys.readouterr().err
    assert report()["missing"] == [
        f"{each}: not done" for each in ("good, seed 1", "base, seed 2", "good, seed 2")
    ]
    commands.statuses.clear()
    assert call("--seeds", "1", "2") == 0
    assert commands.seen[3:5] == ["fit good 1 again", "test good 1"]


def test_a_changed_configuration_is_refused(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--seeds", "1") == 0
    Path("good.yaml").write_text("# better\n")
    assert call("--seeds", "1", "2") == 2
    assert "runs of good.yaml as it was in runs/experiment/good/config.yaml" in (
        capsys.readouterr().err
    )
    assert call("--seeds", "1", "--output", "other") == 0


def test_a_configuration_without_a_checkpoint_may_be_changed(commands: FakeCommands) -> None:
    assert call("--seeds", "1") == 0
    run = Path("runs/experiment/good/seed-1")
    (run / "fit.done").unlink()
    (run / "checkpoints/step=4.ckpt").unlink()
    Path("good.yaml").write_text("# better\n")
    commands.seen.clear()
    shutil.rmtree(run / "test")
    (run / "test.done").unlink()
    assert call("--seeds", "1") == 0
    assert commands.seen == ["fit good 1", "test good 1"]
    assert Path("runs/experiment/good/config.yaml").read_text() == "# better\n"
    (run / "checkpoints/step=4.ckpt").unlink()  # fit.done alone counts, too
    Path("good.yaml").write_text("# best\n")
    assert call("--seeds", "1") == 2


@pytest.mark.parametrize("text", ["model: {deep: 3}", "model: {heads: 2}"])
def test_a_configuration_is_read_as_fit_reads_it(
    text: str, read_here: Read, tmp_path: Path
) -> None:
    (tmp_path / "good.yaml").write_text(text)
    found, expected = (read(tmp_path / "good.yaml") for read in (READ, read_here))
    assert (found.returncode == 0) == ("heads: 2" in found.stdout) == ("heads" in text)
    assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout)
    assert found.stderr == expected.stderr


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: {train: {src: a, tgt: b}}", "CONFIG good.yaml: data.test is not set"),
        ("model: {deep: 3}", "CONFIG good.yaml: "),
        ("data: {test: {set: {src: a, tgt: b}}}", ""),
        ("data: {test: {set: {src: a, tgt: none}}}", "CONFIG good.yaml: data.test.set: none does"),
        ("data: {test: {set: {src: a, tgt: c}}}", "CONFIG good.yaml: data.test.set: c has 1 lines"),
    ],
)
def test_every_configuration_is_read_before_anything_runs(
    commands: FakeCommands,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    expected: str,
) -> None:
    monkeypatch.setattr(
        trials, "test_sets", lambda config: TEST_SETS(config) if config.stem == "good" else {}
    )
    for name, content in (("a", "one\ntwo\n"), ("b", "eins\nzwei\n"), ("c", "eins\n")):
        Path(name).write_text(content)
    Path("good.yaml").write_text(text)
    assert call("--seeds", "1") == (2 if expected else 0)
    error = capsys.readouterr().err
    if expected:
        assert expected in error
        assert error.count("\n") == 1
        assert commands.seen == []
        assert not Path("runs").exists()
    assert ("deep" in error) == ("deep" in text)


@pytest.mark.usefixtures("commands", "read_here")
def test_languages_that_a_configuration_leaves_open_are_those_of_its_origin() -> None:
    save_tiny_model(Path("origin"))  # English to German
    for language, text in (("en", "one\n"), ("de", "eins\n"), ("fr", "un\n")):
        Path(f"stem.{language}").write_text(text)
    given = Path("base.yaml")
    given.write_text("{init_from: origin, data: {test: {set: {path: stem}}}}")
    assert TEST_SETS(given) == {"set": trials.TestSet("de", ["eins"])}
    given.write_text("{init_from: origin, data: {tgt_lang: fr, test: {set: {path: stem}}}}")
    assert TEST_SETS(given) == {"set": trials.TestSet("fr", ["un"])}
    given.write_text("{init_from: nowhere, data: {test: {set: {path: stem}}}}")
    with pytest.raises(ConfigError, match="init_from: nowhere does not exist"):
        TEST_SETS(given)


@pytest.mark.parametrize("trained", [False, True])
def test_more_resamples_than_memory_has_room_for_are_refused_before_anything_runs(
    commands: FakeCommands,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trained: bool,
) -> None:
    monkeypatch.setattr(
        trials, "test_sets", lambda config: {"set": trials.TestSet("de", REFERENCES)}
    )
    if trained:
        assert call("--seeds", "1") == 0
        commands.seen.clear()
    most = MOST_LINES // len(REFERENCES)
    assert call("--seeds", "1", "2", "--resamples", str(most + 1)) == 2
    assert f"use at most {most}." in capsys.readouterr().err
    assert commands.seen == []


def test_without_a_score_of_the_first_configuration_nothing_is_compared(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy("good.yaml", "third.yaml")
    commands.statuses = {"fit base 1": 2}
    assert main(["experiment", "base.yaml", "good.yaml", "third.yaml", "--seeds", "1"]) == 1
    shown = capsys.readouterr().out
    assert "good  " in shown
    assert "third  " in shown
    assert "baseline" not in shown
    assert "p = " not in shown
    scores = report()["test_sets"]["set"]["scores"]  # type: ignore[index]
    assert [score["p_value"] for score in scores] == [None] * 4
    page = Path("runs/experiment/report.html").read_text(encoding="utf-8")
    table = page[page.index("<h2>set</h2>") : page.index("<details>")]
    assert "baseline" not in table
    assert "chip" not in table
    assert "|bs:" not in page


def test_a_test_whose_scores_are_gone_is_done_again(commands: FakeCommands) -> None:
    assert call("--seeds", "1") == 0
    before = report()
    shutil.rmtree("runs/experiment/good/seed-1/test")
    commands.seen.clear()
    assert call("--seeds", "1") == 0
    assert commands.seen == ["test good 1"]
    assert report() == before


def test_a_test_with_one_of_its_scores_gone_is_done_again(commands: FakeCommands) -> None:
    assert call("--seeds", "1") == 0
    run = Path("runs/experiment/good/seed-1")
    two = "{set: {src: a, tgt: b}, other: {src: a, tgt: b}}"
    (run / "config.yaml").write_text(f"data: {{test: {two}}}")
    shutil.copy(run / "test/set.json", run / "test/other.json")
    commands.seen.clear()
    assert call("--seeds", "1") == 0
    assert commands.seen == []
    (run / "test/other.json").unlink()
    commands.statuses = {"test good 1": 2}  # seen, and fails
    assert call("--seeds", "1") == 1
    assert commands.seen == ["test good 1"]


def test_a_test_whose_scores_another_test_replaced_is_done_again(commands: FakeCommands) -> None:
    """`seq2seq test --run` of the same folder, with another model or search."""
    assert call("--seeds", "1", "2") == 0
    before = report()
    path = Path("runs/experiment/good/seed-1/test/set.json")
    path.write_text(path.read_text().replace("wrong line", "other line"))
    commands.seen.clear()
    assert call("--seeds", "1", "2") == 0
    assert commands.seen == ["test good 1"]
    assert report() == before
    commands.seen.clear()
    assert call("--seeds", "1", "2") == 0
    assert commands.seen == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_that_comes_to_the_experiment_stops_its_training(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As Slurm sends them; the training ends by itself, and the experiment waits for it."""

    def send() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    training = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda number, _: sys.exit(128 + number))\n"
        f"pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "time.sleep(60)"
    )
    before = signal.getsignal(number)
    sender = Thread(target=send)
    sender.start()
    status = trials._child([sys.executable, "-c", training])
    sender.join()
    assert status == 128 + number
    assert status in trials.STOPPED
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("damage", ['{"a', "{}", "[]"])
def test_damaged_scores_are_named(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    assert call("--seeds", "1") == 0
    Path("runs/experiment/good/seed-1/test/set.json").write_text(damage)
    assert call("--seeds", "1") == 2
    error = capsys.readouterr().err
    assert "good/seed-1/test/set.json is damaged; remove it" in error
    Path("runs/experiment/good/seed-1/test/set.json").unlink()
    commands.seen.clear()
    assert call("--seeds", "1") == 0
    assert commands.seen == ["test good 1"]


@pytest.mark.parametrize("text", ["", "data: {test: {set: {src", "data: {test: {2014: {src: a}}}"])
def test_a_run_whose_configuration_says_no_test_set_is_tested_again(
    commands: FakeCommands, text: str
) -> None:
    """The last one says one, whose name looks like a number."""
    assert call("--seeds", "1") == 0
    run = Path("runs/experiment/good/seed-1")
    (run / "config.yaml").write_text(text)
    (run / "test/set.json").rename(run / "test/2014.json")
    commands.seen.clear()
    assert call("--seeds", "1") == 0
    assert commands.seen == ([] if "2014" in text else ["test good 1"])


def test_different_test_sets_of_one_name_are_refused_before_anything_runs(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        trials,
        "test_sets",
        lambda config: {"set": trials.TestSet("de", [f"a line of {config.stem}"])},
    )
    assert call("--seeds", "1") == 2
    expected = "data.test: set is another test set for good.yaml than for base.yaml"
    assert expected in capsys.readouterr().err
    assert commands.seen == []


@pytest.mark.parametrize("others", [["of another set"], []])
def test_a_test_set_that_is_not_the_one_of_a_run_that_is_done_is_refused(
    commands: FakeCommands,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    others: list[str],
) -> None:
    assert main(["experiment", "base.yaml", "--seeds", "1", "--resamples", "50"]) == 0
    same = [line for line in REFERENCES if not others] + others
    monkeypatch.setattr(trials, "test_sets", lambda config: {"set": trials.TestSet("de", same)})
    commands.seen.clear()
    assert call("--seeds", "1") == (2 if others else 0)
    refused = "data.test: set is another test set for good.yaml than for base, seed 1"
    assert (refused in capsys.readouterr().err) == bool(others)
    assert commands.seen == ([] if others else ["fit good 1", "test good 1"])


def test_test_sets_of_one_name_must_be_the_same(
    commands: FakeCommands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--seeds", "1") == 0
    path = Path("runs/experiment/good/seed-1/test/set.json")
    path.write_text(path.read_text().replace("line 3 of", "line 4 of"))
    done = path.parent.with_name("test.done")  # as if `test` had written that
    done.write_text(json.dumps(trials.digests(done.parent)))
    assert call("--seeds", "1") == 2
    error = capsys.readouterr().err
    assert "data.test: set is another test set for good, seed 1 than for base, seed 1" in error


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["base.yaml", "--seeds", "1", "one"], "invalid int value: 'one'"),
        (["base.yaml", "--seeds", "2", "-1"], "--seeds=-1 is out of range"),
        (["base.yaml", "--seeds", "1", "1"], "--seeds 1 1 names one twice"),
        (["none.yaml"], "CONFIG none.yaml does not exist"),
        (["."], "CONFIG . is not a file"),
        (["base.yaml", "x/base.yaml"], "CONFIG base.yaml x/base.yaml: two have the same name"),
        (["base.yaml", "--output", "good.yaml"], "--output good.yaml cannot be written"),
        (["base.yaml", "--resamples", "0"], "resamples=0"),
    ],
)
def test_mistakes_are_one_line_and_nothing_runs(
    commands: FakeCommands,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    try:
        status: object = main(["experiment", *arguments])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert commands.seen == []
