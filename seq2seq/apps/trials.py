"""The trainings of an experiment: each configuration with each seed, in a folder of its own."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from seq2seq.data.corpus import CorpusFiles, stream_pairs
from seq2seq.data.output import write, writing
from seq2seq.errors import ConfigError, UserError
from seq2seq.evaluation.significance import refuse_too_many
from seq2seq.provenance import sha256_of

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1
"""At which a training stops by itself."""
STOPPED = {status for number in SIGNALS for status in (128 + number, -number)}
"""Statuses of a process that was asked to stop: one that caught the signal, one that did not."""


class TestSet(NamedTuple):
    """What must be the same for scores to be compared."""

    tgt_lang: str
    references: list[str]

    def may_be(self, tested: "TestSet") -> bool:
        """Whether those sentences, of which the trainer may have left out some, are of this one."""
        return self.tgt_lang == tested.tgt_lang and set(tested.references) <= set(self.references)


class Tested(NamedTuple):
    """What `test` wrote of a test set."""

    test_set: TestSet
    translations: list[str]


class Trial(NamedTuple):
    """A configuration with a seed."""

    config: Path
    seed: int
    run: Path
    """The run folder. It holds a file for each command that is done: fit.done, test.done."""

    def __str__(self) -> str:
        return f"{self.config.stem}, seed {self.seed}"

    @property
    def command(self) -> list[str]:
        """What is to be done next; nothing if all is done."""
        if not done(self.run, "fit").exists():
            fit = ["fit", "--config", str(self.config), "--run", str(self.run)]
            goes_on = ["--ckpt_path", "last"] if has_checkpoint(self.run) else []
            return [*fit, "--seed_everything", str(self.seed), *goes_on]
        if not done(self.run, "test").exists():
            # The folder may have been copied since its configuration was written.
            return ["test", "--config", str(self.run / "config.yaml"), "--run", str(self.run)]
        return []


def done(run: Path, verb: str) -> Path:
    """The file that says that this command is done; that of `test` has the digests of what it
    wrote."""
    return run / f"{verb}.done"


def scored(run: Path) -> list[Path]:
    """What `test` wrote, a file for each test set."""
    return sorted((run / "test").glob("*.json"))


def all_scored(run: Path) -> bool:
    """Whether there is something for each test set of the run, whose configuration is sound, and
    nothing that another `test` wrote in its place, of another model perhaps."""
    try:
        settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        names = set(map(str, settings["data"]["test"]))
        wrote = json.loads(done(run, "test").read_text())
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return False  # which the test tells
    there = digests(run)
    return names <= there.keys() and all(
        wrote.get(name, there[name]) == there[name] for name in names
    )


def digests(run: Path) -> dict[str, str]:
    """Of the files that `test` wrote, by test set."""
    return {path.stem: sha256_of(path) for path in scored(run)}


def has_checkpoint(run: Path) -> bool:
    """Whether a fit in this folder may go on."""
    return any((run / "checkpoints").glob("step=*.ckpt"))


def plan(
    configs: Sequence[Path], seeds: Sequence[int], output: Path, resamples: int
) -> list[Trial]:
    """All trials; a test whose scores are gone or replaced is to be done again. It is an error if a
    configuration cannot be read, has no test set that can be read, has another test set than those
    before it under the same name, or has changed since one of its trainings began; and if a test
    set is too large for so many resamples."""
    names = [config.stem for config in configs]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"CONFIG {' '.join(map(str, configs))}: two have the same name; rename one."
        )
    for config in configs:
        if not config.is_file():
            what = "is not a file" if config.exists() else "does not exist"
            raise ConfigError(f"CONFIG {config} {what}; expected a YAML file.")
    for config in configs:
        kept = output / config.stem / "config.yaml"
        changed = kept.exists() and kept.read_bytes() != config.read_bytes()
        runs = kept.parent.glob("seed-*")
        if changed and any(done(run, "fit").exists() or has_checkpoint(run) for run in runs):
            raise ConfigError(
                f"--output {output} has runs of {config} as it was in {kept}; choose another "
                f"folder, or restore it."
            )
    trials = [
        Trial(config, seed, output / config.stem / f"seed-{seed}")
        for seed in seeds
        for config in configs
    ]
    known = dict[str, tuple[str, TestSet]]()
    for trial in trials:
        if done(trial.run, "test").exists():
            for path in scored(trial.run):
                known.setdefault(path.stem, (str(trial), read_tested(path).test_set))
    for config in configs:
        if any(trial.config == config and not done(trial.run, "fit").exists() for trial in trials):
            for name, found in test_sets(config).items():
                first, same = known.setdefault(name, (str(config), found))
                if not found.may_be(same):
                    raise ConfigError(other_test_set(name, str(config), first))
    for _, test_set in known.values():
        refuse_too_many(resamples, len(test_set.references))
    for config in configs:
        kept = output / config.stem / "config.yaml"
        with writing(f"--output {output}"):
            kept.parent.mkdir(parents=True, exist_ok=True)
        write("--output", kept, config.read_bytes())
    for trial in trials:
        if done(trial.run, "test").exists() and not all_scored(trial.run):
            with writing(f"--output {output}"):
                done(trial.run, "test").unlink(missing_ok=True)
    return trials


def test_sets(config: Path) -> dict[str, TestSet]:
    """The test sets of a configuration, by name; ConfigError unless `fit` can read it and they can
    be read: before the first training, not after the last."""
    parsed = read(config)
    if parsed.returncode:
        *_, said = parsed.stderr.strip().splitlines() or [f"status {parsed.returncode}"]
        raise ConfigError(f"CONFIG {config}: {said.removeprefix('error: ')}")
    settings = yaml.safe_load(parsed.stdout)
    data = settings["data"]
    if not data["test"]:
        raise ConfigError(
            f"CONFIG {config}: data.test is not set; name a test set there: "
            f"data: {{test: {{NAME: {{src: FILE, tgt: FILE}}}}}}."
        )
    languages = data["src_lang"], data["tgt_lang"]
    if settings["init_from"] is not None:  # which says what the configuration leaves open
        from seq2seq.model_folder import find_model, read_description

        try:
            origin = read_description(find_model(settings["init_from"]))
        except UserError as error:
            raise ConfigError(f"CONFIG {config}: init_from: {error}") from None
        languages = languages[0] or origin.src_lang, languages[1] or origin.tgt_lang
    found = {}
    for name, files in data["test"].items():
        try:
            references = [pair.tgt for pair in stream_pairs(CorpusFiles(**files), languages)]
        except UserError as error:
            raise ConfigError(f"CONFIG {config}: data.test.{name}: {error}") from None
        found[str(name)] = TestSet(languages[1], references)
    return found


def other_test_set(name: str, one: str, other: str) -> str:
    return (
        f"data.test: {name} is another test set for {one} than for {other}; give test sets that "
        f"differ different names."
    )


def read(config: Path) -> "subprocess.CompletedProcess[str]":
    """All settings on standard output, by the parser of `fit`."""
    command = [sys.executable, "-m", "seq2seq", "fit", "--config", str(config), "--print_config"]
    return subprocess.run(command, capture_output=True, text=True)


def work(trial: Trial) -> int:
    """Do what is left of a trial; the status of the command that ended otherwise than with 0."""
    while command := trial.command:
        print(f"== {trial}: {command[0]}", file=sys.stderr, flush=True)
        if command[0] == "fit" and not has_checkpoint(trial.run):
            # Of a fit that ended before its first checkpoint.
            shutil.rmtree(trial.run / "model", ignore_errors=True)
        status = _child([sys.executable, "-m", "seq2seq", *command])
        if status:
            return status
        wrote = json.dumps(digests(trial.run)) if command[0] == "test" else ""
        done(trial.run, command[0]).write_text(wrote)
    return 0


def _child(command: Sequence[str]) -> int:
    """Its status. A training stops by itself when asked to, which takes it more than a moment.

    The terminal sends Ctrl-C to both processes, but the others may come to this one alone; those
    that come to both are one request to a training.
    """
    child = subprocess.Popen(command)

    def pass_on(number: int, frame: object) -> None:
        if number != signal.SIGINT:
            child.send_signal(number)

    handlers = [(number, signal.signal(number, pass_on)) for number in SIGNALS]
    try:
        return child.wait()
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def read_tested(path: Path) -> Tested:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Tested(TestSet(found["tgt_lang"], found["references"]), found["translations"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{path} is damaged; remove it, and the same command tests again."
        ) from None
