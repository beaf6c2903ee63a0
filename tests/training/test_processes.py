"""Several processes train, and learn what one learns."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from small_runs import Run, metrics, settings
from torch import Tensor

from seq2seq.training import module
from seq2seq.training.module import TranslationModule

T = TypeVar("T")


@pytest.mark.slow
def test_two_processes_train_together_and_test_like_one(corpus: Path) -> None:
    command = [sys.executable, "-m", "seq2seq"]
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    fit = [*command, "fit", *map(str, settings(**ddp))]
    subprocess.run(fit, check=True, capture_output=True, timeout=300)
    test = [*command, "test", "--config", "run/config.yaml"]
    alone = ["--trainer.devices", "1", "--trainer.strategy", "auto"]
    together = subprocess.run(test, check=True, capture_output=True, text=True, timeout=300).stdout
    single = subprocess.run(
        [*test, *alone], check=True, capture_output=True, text=True, timeout=300
    )
    scores = [line for line in together.splitlines() if line.startswith("small: ")]
    assert len(scores) == 2
    assert scores == [line for line in single.stdout.splitlines() if line.startswith("small: ")]


@pytest.mark.slow
def test_two_processes_learn_what_one_does_in_two_micro_batches_also_with_little_memory(
    corpus: Path,
) -> None:
    tight_fit = [str(Path(__file__).with_name("tight_fit.py"))]
    ways: dict[str, tuple[list[str], dict[str, object]]] = {
        "one": (["-m", "seq2seq"], {"trainer__accumulate_grad_batches": 2}),
        "two": (["-m", "seq2seq"], {"trainer__devices": 2, "trainer__strategy": "ddp"}),
        "tight": (tight_fit, {"trainer__devices": 2, "trainer__strategy": "ddp"}),
    }
    weights = {}
    for name, (program, changes) in ways.items():
        same = {"run": name, "training__dropout__residual": 0, "trainer__precision": "32-true"}
        same["model__bias"] = "false"  # that of keys has no gradient but rounding errors
        command = [sys.executable, *program, "fit", *map(str, settings(**changes, **same))]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        assert ("out of memory" in said.stderr) == (name == "tight")
        checkpoint = torch.load(f"{name}/checkpoints/step=8.ckpt", weights_only=True)
        weights[name] = checkpoint["state_dict"]
    for name in ("two", "tight"):
        torch.testing.assert_close(weights[name], weights["one"], rtol=1e-4, atol=1e-5)


def test_no_two_micro_batches_of_a_run_or_of_two_seeds_draw_alike(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = list[int]()
    step = TranslationModule.training_step

    def watched(self: TranslationModule, *arguments: Any) -> Tensor:
        loss = step(self, *arguments)
        draws.append(torch.initial_seed())
        return loss

    monkeypatch.setattr(TranslationModule, "training_step", watched)
    chosen = settings(trainer__accumulate_grad_batches=2, trainer__max_steps=3)
    for seed, rank in ((1, 0), (1, 1), (2, 0)):  # as processes of one run know themselves
        monkeypatch.setattr(TranslationModule, "global_rank", rank)
        own = ("--run", f"{seed}-{rank}", "--seed_everything", seed)
        assert run("fit", *chosen, *own) == 0
    assert len(draws) == 18
    assert len(set(draws)) == 18


def test_a_step_in_micro_batches_is_that_of_one_batch(corpus: Path, run: Run) -> None:
    """Every target token has the same weight, however many are in its micro-batch."""
    weights, logged = [], []
    for name, accumulated in (("whole", 1), ("halves", 2)):  # short sentences, and long ones
        same = {"data__batch_tokens": 10**6, "training__dropout__residual": 0, "run": name}
        same |= {"trainer__precision": "32-true", "trainer__max_steps": 3, "model__bias": "false"}
        same |= {"trainer__log_every_n_steps": 1, "data__batch_pairs": 4096}
        fit = settings(**same, trainer__accumulate_grad_batches=accumulated)
        assert run("fit", *fit) == 0
        checkpoint = torch.load(f"{name}/checkpoints/step=3.ckpt", weights_only=True)
        weights.append(checkpoint["state_dict"])
        logged.append(
            {
                (what, row["step"]): float(row[what])
                for row in metrics(corpus / name)
                for what in ("loss", "grad_norm")
                if row[what]
            }
        )
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)
    assert len(logged[0]) == 6
    assert logged[1] == pytest.approx(logged[0], rel=1e-4)


@pytest.mark.slow
def test_one_device_learns_the_same_with_a_strategy_for_several(corpus: Path) -> None:
    weights = []
    for strategy in ("auto", "ddp"):
        chosen = settings(run=strategy, trainer__strategy=strategy, trainer__devices=1)
        command = [sys.executable, "-m", "seq2seq", "fit", *map(str, chosen)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        checkpoint = torch.load(f"{strategy}/checkpoints/step=8.ckpt", weights_only=True)
        weights.append(checkpoint["state_dict"])
    torch.testing.assert_close(weights[1], weights[0], rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"data__train__src": "missing.src"}, "missing.src does not exist"),
        ({"data__subwords__src_vocab_size": 3}, "data.subwords"),
    ],
)
def test_a_mistake_that_one_of_two_processes_finds_is_told_without_a_traceback(
    corpus: Path, wrong: dict[str, object], said: str
) -> None:
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    fit = [sys.executable, "-m", "seq2seq", "fit", *map(str, settings(**ddp, **wrong))]
    done = subprocess.run(fit, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_threads_that_exchange_end_with_the_run(corpus: Path, run: Run) -> None:
    """One of them that had a tensor to free when Python ends would abort the process."""
    assert run("fit", *settings(trainer__strategy="ddp", trainer__devices=1)) == 0
    threads = [each.read_text() for each in Path("/proc/self/task").glob("*/comm")]
    assert threads
    assert not [each for each in threads if "gloo" in each]


def test_processes_that_choose_unlike_precisions_are_told_to_be_given_one(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "gathered", lambda own: [own, "bf16-mixed"])
    assert run("fit", *settings(trainer__precision="bf16-mixed", trainer__max_steps=1)) == 0
    assert run("fit", *settings(trainer__precision="32-true", run="other")) == 2
    said = "the processes have chosen 32-true and bf16-mixed"
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_sentence_that_only_one_of_two_processes_sees_may_be_of_any_length(corpus: Path) -> None:
    for side in ("src", "tgt"):
        for name in ("train", "valid"):
            with Path(f"{name}.{side}").open("a") as file:
                file.write(" ".join(["ba", "de"] * 150) + "\n")
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp", "trainer__max_steps": 30}
    long = {"data__max_length": 400, "trainer__val_check_interval": 5}
    fit = [sys.executable, "-m", "seq2seq", "fit", *map(str, settings(**ddp, **long))]
    done = subprocess.run(fit, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells of the parent's end")
@pytest.mark.parametrize("waiting", [False, True], ids=["at its start", "while it waits"])
def test_the_second_process_ends_when_the_first_is_killed_before_both_have_met(
    corpus: Path, waiting: bool
) -> None:
    ddp = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    command = [sys.executable, "-m", "seq2seq", "fit", *map(str, settings(**ddp))]
    with Path("log").open("w") as log:
        first = subprocess.Popen(command, stdout=log, stderr=log)
    (second,) = until(lambda: children_of_rank_1(first.pid))
    first.send_signal(signal.SIGSTOP)  # so that they do not meet
    if waiting:
        until(lambda: "GLOBAL_RANK: 1, MEMBER: 2/2" in Path("log").read_text())
    first.kill()
    first.wait()
    until(lambda: not second.exists() or " Z " in (second / "stat").read_text())


def children_of_rank_1(process: int) -> list[Path]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    places = [Path("/proc") / child for child in children]
    return [each for each in places if b"\0LOCAL_RANK=1\0" in environment(each)]


def environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has just ended
        return b""


def until(condition: Callable[[], T]) -> T:
    """What it gives as soon as that is something."""
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.1)
    pytest.fail("not within a minute")
