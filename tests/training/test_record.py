"""What a run writes on its model's card, against the files, the clock and the log."""

import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from small_runs import Run, settings, write_reverse_corpus

from seq2seq.cli import main
from seq2seq.evaluation.metrics import bleu, evaluate
from seq2seq.model_facts import load_provenance
from seq2seq.model_folder import load_model, save_model
from seq2seq.training import record
from seq2seq.training.module import TranslationModule


def sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def corpora(model: str, role: str) -> list[Any]:
    return [each for each in load_provenance(model)["data"] if each["role"] == role]


def candidates(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(run, "candidates.jsonl").read_text().splitlines()]


def files(part: str, lines: int) -> list[dict[str, Any]]:
    """Facts about the two files of a part of the small corpus."""
    return [
        {"path": f"{part}.{side}", "sha256": sha256(f"{part}.{side}"), "lines": lines}
        for side in ("src", "tgt")
    ]


@pytest.fixture(scope="module")
def four_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus and a run of four steps on it."""
    folder = tmp_path_factory.mktemp("four_steps")
    write_reverse_corpus(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = map(str, settings(trainer__max_steps=4, training__lr=0.01))
        patch.setattr(sys, "argv", ["seq2seq", "fit", *words])
        assert main() == 0
    return folder


@pytest.fixture
def trained(four_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of it is the working directory."""
    shutil.copytree(four_steps, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only training steps move on, by 7 seconds each."""
    clock = SimpleNamespace(now=100.0)
    step = TranslationModule.training_step

    def slow(self: TranslationModule, *arguments: Any) -> Any:
        clock.now += 7
        return step(self, *arguments)

    monkeypatch.setattr(TranslationModule, "training_step", slow)
    monkeypatch.setattr(record, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_fit_tells_data_settings_score_and_work(
    corpus: Path, run: Run, clock: SimpleNamespace
) -> None:
    (corpus / "SOURCE.md").write_text("# reverse\n\n**Licence**: CC0\n")
    assert run("fit", *settings(license="mit", training__keep_last=2)) == 0
    facts = load_provenance("run")
    assert facts["data"][0] == {"role": "train", "pairs": 2000, "files": files("train", 2000)}
    (validation,) = corpora("run", "validation")
    assert (validation["pairs"], validation["files"]) == (40, files("valid", 40))
    assert corpora("run", "test") == []
    assert facts["terms"] == {"SOURCE.md": "# reverse\n\n**Licence**: CC0\n"}
    assert facts["license"] == "mit"
    assert facts["config"] == yaml.safe_load(Path("run/config.yaml").read_text())

    (kept,) = (row for row in candidates("run") if row["kept"])
    assert facts["weights"] == {"kind": kept["model"], "steps": kept["steps"]}
    (score,) = validation["scores"]
    lines = Path("valid.tgt").read_text().splitlines()
    assert score == {
        "name": "BLEU",
        "value": kept["val_bleu"],
        "signature": bleu(lines, [lines]).signature,
    }
    assert validation["search"]["beam"] == 2

    assert facts["training"]["steps"] == 8
    assert facts["training"]["seconds"] == 8 * 7
    (hardware,) = facts["training"]["hardware"]
    assert (hardware["processes"], hardware["threads"]) == (1, torch.get_num_threads())
    assert facts["software"]["torch"] == importlib.metadata.version("torch")
    card = Path("run/model/README.md").read_text(encoding="utf-8")
    for part in ("train", "valid"):
        assert all(sha256(f"{part}.{side}") in card for side in ("src", "tgt"))


def test_the_commands_on_the_card_make_the_same_weights_again(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("fit", *settings(training__lr=0.01)) == 0
    assert main(["average", "run", "--last", "2"]) == 0
    card = Path("run/model-averaged/README.md").read_text(encoding="utf-8")
    (again,) = re.findall("```bash\n(.*?)```", card, re.DOTALL)
    *_, config = re.findall("```yaml\n(.*?)```", card, re.DOTALL)
    elsewhere = corpus / "elsewhere"
    elsewhere.mkdir()
    for part in ("train", "valid"):
        for side in ("src", "tgt"):
            shutil.copy(f"{part}.{side}", elsewhere)
    monkeypatch.chdir(elsewhere)
    Path("config.yaml").write_text(config)
    for line in again.splitlines():
        assert run(*shlex.split(line)[1:]) == 0
    for model in ("model", "model-averaged"):
        name = f"run/{model}/weights.safetensors"
        assert sha256(name) == sha256(f"../{name}")


def test_the_command_of_a_run_that_began_at_a_checkpoint_names_it(trained: None, run: Run) -> None:
    """Also after the run was stopped and went on; without it another model would be made."""
    start = ("--ckpt_path", "run/checkpoints/step=4.ckpt")
    assert run("fit", *settings(run="branch"), *start) == 0
    facts = load_provenance("branch")
    (command,) = facts["commands"]
    Path("config.yaml").write_text(yaml.safe_dump({**facts["config"], "run": "again"}))
    assert run(*shlex.split(command)[1:]) == 0
    made, again = (sha256(f"{each}/model/weights.safetensors") for each in ("branch", "again"))
    assert made == again
    longer = settings(run="branch", trainer__max_steps=60, training__lr=0.02)
    assert run("fit", *longer, "--ckpt_path", "last") == 0
    facts = load_provenance("branch")
    assert facts["weights"]["steps"] != [8]
    assert facts["commands"] == [command]


def test_time_hardware_settings_and_software_are_those_of_all_sessions(
    corpus: Path, run: Run, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "software", lambda: {"torch": "2", "commit": "older"})
    assert run("fit", *settings(trainer__max_steps=4, training__lr=0.003)) == 0
    clock.now += 1000
    monkeypatch.setattr("seq2seq.training.hardware.cpu_name", lambda: "another machine")
    monkeypatch.setattr(record, "software", lambda: {"torch": "2", "commit": "newer"})
    more = settings(trainer__max_steps=8, training__lr=0.001)
    assert run("fit", *more, "--ckpt_path", "last") == 0
    training = load_provenance("run")["training"]
    assert (training["seconds"], training["steps"]) == (8 * 7, 8)
    first, second = training["hardware"]
    assert first["device"] != second["device"] == "another machine"
    assert training["changed"] == {
        "training.lr": [0.003],
        "trainer.max_steps": [4],
        "software.commit": ["older"],
    }
    assert load_provenance("run")["software"]["commit"] == "newer"

    # What was done after the checkpoint is lost, and its time with it.
    Path("run/checkpoints/step=8.ckpt").unlink()
    again = ("--ckpt_path", "last")
    assert run("fit", *settings(trainer__max_steps=8), *again) == 0
    assert load_provenance("run")["training"]["seconds"] == 8 * 7


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_corpus_that_has_changed_between_two_sessions_is_told_and_on_the_card(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """With subwords of one's own, which do not change with it."""
    assert run("fit", *settings(run="first", trainer__max_steps=4)) == 0
    own = settings(data__subwords_from="first", trainer__max_steps=4)
    assert run("fit", *own) == 0
    before = sha256("train.src")
    lines = Path("train.src").read_text().splitlines()
    Path("train.src").write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    more = settings(data__subwords_from="first", trainer__max_steps=8)
    assert run("fit", *more, "--ckpt_path", "last") == 0
    told = "warning: train.src is not what it was before; the run goes on with it\n"
    assert told in capsys.readouterr().err
    changed = load_provenance("run")["training"]["changed"]
    assert changed == {"trainer.max_steps": [4], "sha256.train.src": [before]}


def test_a_mean_of_weights_alone_says_nothing_of_their_training(trained: None) -> None:
    path = Path("run/checkpoints/step=4.ckpt")
    content = torch.load(path, weights_only=True)
    del content["callbacks"], content["optimizer_states"]  # as Lightning's `save_weights_only`
    torch.save(content, path)
    assert main(["average", "run", "--last", "1", "--output", "mean"]) == 0
    facts = load_provenance("mean")
    assert "training" not in facts
    assert facts["weights"]["kind"] == "mean of 1 checkpoint"


def test_the_configuration_of_a_run_names_no_checkpoint_so_that_the_model_is_tested(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=4, training__lr=0.01)) == 0
    assert run("fit", *settings(training__lr=0.01), "--ckpt_path", "last") == 0
    assert yaml.safe_load(Path("run/config.yaml").read_text())["ckpt_path"] is None
    assert run("test", "--config", "run/config.yaml") == 0
    tested = Path("run/test/small.txt").read_text()
    assert main(["translate", "run", "test.src", "--beam", "2", "--output", "out"]) == 0
    assert Path("out").read_text() == tested


def test_scores_of_a_test_join_the_card_and_take_the_place_of_older_ones(
    trained: None, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_provenance("run")
    test = ["test", "--config", "run/config.yaml"]
    assert run(*test) == 0
    assert "model card: run/model/README.md\n" in capsys.readouterr().out
    references = Path("test.tgt").read_text().splitlines()

    def expected() -> list[dict[str, Any]]:
        lines = Path("run/test/small.txt").read_text().splitlines()
        return [vars(each) for each in evaluate(lines, [references])]

    (small,) = corpora("run", "test")
    assert small == {
        "role": "test",
        "name": "small",
        "pairs": 40,
        "files": files("test", 40),
        "scores": expected(),
        "search": before["config"]["search"],
    }
    after = load_provenance("run")
    assert [each for each in after["data"] if each["role"] != "test"] == before["data"]

    other = "{small: {src: test.src, tgt: test.tgt}, more: {src: valid.src, tgt: valid.tgt}}"
    assert run(*test, "--search.beam", 3, "--data.test", other) == 0
    small, more = corpora("run", "test")
    assert (small["name"], small["scores"]) == ("small", expected())
    assert (small["search"]["beam"], more["name"]) == (3, "more")
    card = Path("run/model/README.md").read_text()
    assert card.count("- test small (40 sentences, beam 3)\n") == 1
    assert card.count("- test more (40 sentences, beam 3)\n") == 1


def test_scores_of_a_checkpoint_are_not_put_on_the_models_card(trained: None, run: Run) -> None:
    before = Path("run/model/provenance.json").read_bytes()
    assert run("test", "--config", "run/config.yaml", "--ckpt_path", "last") == 0
    assert Path("run/model/provenance.json").read_bytes() == before


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_card_that_was_edited_stays_and_the_scores_are_kept_beside_it(
    trained: None, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    card = Path("run/model/README.md")
    card.write_text(card.read_text() + "\nMy own words.\n")
    edited = card.read_text()
    assert run("test", "--config", "run/config.yaml") == 0
    assert card.read_text() == edited
    assert len(corpora("run", "test")) == 1
    told = "warning: run/model/README.md was edited, so it stays as it is"
    assert told in capsys.readouterr().err
    card.unlink()
    assert run("test", "--config", "run/config.yaml") == 0
    assert "- test small (40 sentences, beam 2)\n" in card.read_text()


def test_a_fit_that_keeps_the_model_that_is_there_keeps_its_scores_and_edited_card(
    trained: None, run: Run
) -> None:
    assert run("test", "--config", "run/config.yaml") == 0
    card, weights = Path("run/model/README.md"), sha256("run/model/weights.safetensors")
    card.write_text(card.read_text() + "\nMy own words.\n")
    edited, scored = card.read_text(), corpora("run", "test")
    on = ("fit", "--config", "run/config.yaml", "--ckpt_path", "last")
    assert run(*on) == 0
    assert card.read_text() == edited
    assert corpora("run", "test") == scored

    # Another model has neither.
    Path("run/model/weights.safetensors").write_bytes(b"damaged")
    assert run(*on) == 0
    assert sha256("run/model/weights.safetensors") == weights
    assert "My own words" not in card.read_text()
    assert corpora("run", "test") == []


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("read-only", "Permission denied"),
        ("damaged", "provenance.json is damaged"),
        ("replaced", "run/model was written anew during the test"),
    ],
)
def test_where_the_scores_cannot_be_written_down_the_test_says_so_and_is_done(
    trained: None,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    said: str,
) -> None:
    if broken == "damaged":
        Path("run/model/provenance.json").write_text("{")
    elif broken == "replaced":
        step = TranslationModule.test_step

        def beside_a_fit(self: TranslationModule, *arguments: Any) -> None:
            save_model(load_model("run"), Path("run/model"))
            step(self, *arguments)

        monkeypatch.setattr(TranslationModule, "test_step", beside_a_fit)
    else:
        make = os.mkdir

        def refuse(path: Path, *mode: int) -> None:
            if Path(path).parent.name == "model":
                raise PermissionError(13, "Permission denied")
            make(path, *mode)

        monkeypatch.setattr(os, "mkdir", refuse)
    assert run("test", "--config", "run/config.yaml") == 0
    out, err = capsys.readouterr()
    assert "small: BLEU " in out
    assert re.search(rf"(?m)^warning: .*README\.md does not get these scores: .*{said}", err)
    assert "test small" not in Path("run/model/README.md").read_text()


def test_a_model_that_began_as_another_names_it_with_all_that_is_known_of_it(
    trained: None, run: Run
) -> None:
    parent = load_provenance("run")
    tuned = settings(run="tuned", init_from="run", trainer__max_steps=2)
    assert run("fit", *tuned) == 0
    found = load_provenance("tuned")["parent"]
    weights = "run/model/weights.safetensors"
    assert found == {
        "path": "run",
        "format": "seq2seq",
        "files": [{"path": weights, "sha256": sha256(weights)}],
        "provenance": parent,
    }
    card = Path("tuned/model/README.md").read_text()
    assert "- The weights began as those of `run` (seq2seq).\n" in card
    assert "## Data of `run`\n" in card


def test_an_average_has_the_facts_of_its_run_but_no_score_and_names_its_checkpoints(
    corpus: Path, run: Run, clock: SimpleNamespace
) -> None:
    assert run("fit", *settings(trainer__max_steps=16)) == 0
    assert run("test", "--config", "run/config.yaml") == 0
    chosen = [f"run/checkpoints/step={step}.ckpt" for step in (4, 12, 8)]
    path = Path("run/model/provenance.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "software": {"torch": "1.0"}}))
    command = ["average", "run", "--checkpoints", *chosen, "--output", "mean"]
    assert main(command) == 0
    whole, mean = load_provenance("run"), load_provenance("mean")
    assert mean["weights"] == {
        "kind": "mean of 3 checkpoints",
        "steps": [4, 12, 8],
        "files": chosen,
    }
    assert mean["training"] == {**whole["training"], "steps": 12, "seconds": 12 * 7}
    assert [corpus["role"] for corpus in mean["data"]] == ["train", "validation"]
    assert not any("scores" in corpus for corpus in mean["data"])
    assert mean["config"] == whole["config"]
    assert mean["software"] == {"torch": "1.0"}, "that made the checkpoints"
    assert mean["commands"] == [*whole["commands"], " ".join(["seq2seq", *command])]
    # Of a checkpoint from elsewhere neither data nor settings are known.
    shutil.copy(chosen[0], "other.ckpt")
    assert main(["average", "run", "--checkpoints", "other.ckpt", chosen[1]]) == 0
    foreign = load_provenance("run/model-averaged")
    assert foreign.keys() == {"commands", "weights", "software", "card"}
    assert foreign["weights"]["steps"] == []
    card = Path("run/model-averaged/README.md").read_text()
    assert "- Weights: mean of 2 checkpoints.\n" in card


def test_a_score_of_a_part_of_the_validation_set_is_not_told(corpus: Path, run: Run) -> None:
    half = settings(trainer__max_steps=4, data__batch_tokens=64, trainer__limit_val_batches=0.5)
    assert run("fit", *half) == 0
    (validation,) = corpora("run", "validation")
    assert "scores" not in validation
    assert "model-index" not in Path("run/model/README.md").read_text()


def test_a_model_without_a_validation_behind_it_says_which_step_it_is_of(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__max_steps=2, trainer__limit_val_batches=0)) == 0
    assert load_provenance("run")["weights"] == {"kind": "last step", "steps": [2]}
    assert corpora("run", "validation") == []
    load_model("run")


@pytest.mark.slow
def test_two_processes_write_one_card(corpus: Path) -> None:
    command = [sys.executable, "-m", "seq2seq"]
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    fit = [*command, "fit", *map(str, settings(**ddp))]
    subprocess.run(fit, check=True, capture_output=True, timeout=300)
    test = [*command, "test", "--config", "run/config.yaml"]
    done = subprocess.run(test, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.count("model card: run/model/README.md\n") == 1
    assert load_provenance("run")["training"]["hardware"][0]["processes"] == 2
    assert [len(corpora("run", role)) for role in ("train", "validation", "test")] == [1, 1, 1]
