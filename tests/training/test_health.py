"""Faults that are planted in small runs are told; a run without one is left alone."""

import json
import math
import os
import random
import re
import subprocess
import sys
from collections import deque
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import planted_faults
import pytest
import torch
from crowded_cores import crowd
from small_runs import Run, metrics, settings

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.errors import TrainingError
from seq2seq.model_folder import load_model
from seq2seq.nn.transformer import Transformer
from seq2seq.training.checkpoints import step_of
from seq2seq.training.health import IN_A_ROW, Health
from seq2seq.training.module import TranslationModule
from seq2seq.training.optimizer import optimizer_of
from seq2seq.training.recipe import Recipe
from seq2seq.translator import Translator


def planted(fault: str, **arguments: object) -> str:
    return json.dumps({"class_path": f"planted_faults.{fault}", "init_args": arguments})


def with_faults(*faults: str, **changes: object) -> list[object]:
    return settings(trainer__callbacks=f"[{', '.join(faults)}]", **changes)


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if "warning at step " in line]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO")
    return caplog


@pytest.mark.parametrize("name", ["muon", "adamw", "adam"])
def test_an_optimizer_that_is_told_of_infinity_changes_nothing(name: Any) -> None:
    """What the module relies on; torch promises it to its own gradient scaler alone."""
    network = Transformer(ModelConfig(src_vocab_size=20, tgt_vocab_size=20, d_model=16))
    optimizer = optimizer_of(Recipe(optimizer=name, lr=0.1, weight_decay=0.1), network, bf16=False)
    seen = []
    for gradient, infinite in ((1.0, 0.0), (math.nan, 1.0), (math.inf, 1.0), (2.0, 0.0)):
        for parameter in network.parameters():
            parameter.grad = gradient * torch.randn_like(parameter)
        optimizer.found_inf = torch.tensor(infinite)  # type: ignore[attr-defined]
        optimizer.step()
        states = [value for state in optimizer.state.values() for value in state.values()]
        seen.append([value.detach().clone() for value in (*network.parameters(), *states)])
    first, second, third, fourth = seen
    kept = {frozenset(state) for state in optimizer.state.values()}
    moments = frozenset({"exp_avg", "exp_avg_sq", "step"})
    assert kept == ({moments, frozenset({"momentum"})} if name == "muon" else {moments})
    assert optimizer.state.keys() == set(network.parameters())
    for one, other in ((first, second), (first, third)):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert not any(torch.equal(old, new) for old, new in zip(third, fourth, strict=True))


def test_a_step_without_finite_gradients_changes_nothing_and_is_told(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    faults = planted("WildGradients", since=2, until=4), planted("Snapshots")
    assert run("fit", *with_faults(*faults, trainer__max_steps=6)) == 0
    weights, states = zip(*planted_faults.Snapshots.taken, strict=True)
    assert len(weights) == 6
    for step, (before, after) in enumerate(pairwise(weights), start=1):
        same = [torch.equal(before[name], after[name]) for name in before]
        assert all(same) if step in (2, 3) else not any(same)
    torch.testing.assert_close(states[3], states[1], rtol=0, atol=0)
    told = [line for line in warnings(log.text) if "not finite" in line]
    assert len(told) == 1
    assert "warning at step 4: 2 steps were skipped" in told[0]
    assert "input tensor" not in log.text, "TensorBoard says it otherwise, of each number"


def test_a_run_whose_steps_are_all_skipped_stops_and_keeps_its_checkpoints(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"trainer__max_steps": 60, "trainer__val_check_interval": 10}
    fault = planted("WildGradients", since=7)
    assert run("fit", *with_faults(fault, **changes)) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert "stopped at step 28: the last 21 steps were skipped" in error
    assert "training.lr=0.002" in error
    last = torch.load(corpus / "run/checkpoints/step=20.ckpt", weights_only=True)
    assert all(value.isfinite().all() for value in last["state_dict"].values())
    assert run("fit", *settings(trainer__max_steps=21), "--ckpt_path", "last") == 0


def test_threads_that_have_to_wait_for_cores_are_told_once_in_a_session(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second step is looked at."""
    crowd(monkeypatch)
    for told_at, go_on in ((4, []), (10, ["--ckpt_path", "last"])):
        log.clear()
        assert run("fit", *settings(trainer__max_steps=told_at + 2), *go_on) == 0
        (told,) = [line for line in warnings(log.text) if "use the cores" in line]
        assert f"warning at step {told_at}: " in told
        assert "for 75% of the time each of its 2 threads" in told


def test_skipped_steps_are_counted_over_all_sessions_of_a_run(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    for since, steps in ((3, 8), (10, 18)):
        log.clear()
        fault = planted("WildGradients", since=since, until=since + 5)
        chosen = with_faults(fault, trainer__max_steps=steps)
        assert run("fit", *chosen, *["--ckpt_path", "last"][: 2 * (since > 3)]) == 0
        told = [line for line in warnings(log.text) if "skipped" in line]
    assert "9 steps were skipped" in told[-1], "of ten; one comes after the last look"


def test_a_checkpoint_between_two_looks_has_all_skipped_steps(corpus: Path, run: Run) -> None:
    blind = {"trainer__limit_val_batches": 0, "trainer__log_every_n_steps": 50}
    assert run("fit", *with_faults(planted("WildGradients", since=1, until=3), **blind)) == 0
    checkpoint = torch.load("run/checkpoints/step=4.ckpt", weights_only=True)
    assert checkpoint["callbacks"]["Health"]["skipped"] == 2


def test_broken_weights_stop_the_run_before_a_checkpoint_is_written(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *with_faults(planted("BrokenWeights", step=5))) == 2
    assert "stopped at step 6: the weights are not finite any more" in capsys.readouterr().err
    assert {path.name for path in (corpus / "run/checkpoints").glob("step=*")} == {"step=4.ckpt"}
    assert all(value.isfinite().all() for value in load_model("run").network.parameters())


def test_finite_weights_that_give_no_loss_stop_the_run_before_they_are_written(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *with_faults(planted("HugeWeights", step=5))) == 2
    error = capsys.readouterr().err
    assert "stopped at step 8: steps are skipped, and the validation loss is not finite" in error
    assert "The checkpoints are sound. Go on with --ckpt_path last" in error
    assert {path.name for path in (corpus / "run/checkpoints").glob("step=*")} == {"step=4.ckpt"}
    assert all(value.abs().max() < 1e9 for value in load_model("run").network.parameters())


@pytest.mark.parametrize(
    ("fault", "changes", "step"),
    [
        (planted("BrokenWeights", step=4), {}, 4),
        (planted("WildGradients", since=0), {"trainer__val_check_interval": 30}, 20),
        (
            planted("WildGradients", since=0),
            {"trainer__val_check_interval": 30, "trainer__log_every_n_steps": 50},
            30,
        ),
    ],
)
def test_what_breaks_before_the_first_validation_leaves_no_model(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    fault: str,
    changes: dict[str, object],
    step: int,
) -> None:
    assert run("fit", *with_faults(fault, trainer__max_steps=40, **changes)) == 2
    error = capsys.readouterr().err
    assert f"stopped at step {step}: " in error
    assert "There is no checkpoint yet. Start anew, and " in error
    assert not (corpus / "run/model").exists()
    assert run("fit", *settings()) == 0


def test_a_rate_that_is_far_too_high_from_the_first_step_is_told(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    changes = {"training__lr": 30, "training__warmup_steps": 10, "trainer__max_steps": 30}
    assert run("fit", *settings(**changes, trainer__log_every_n_steps=10)) == 0
    told = [line for line in warnings(log.text) if "gradient norm" in line]
    assert "where networks that learn stay below 10; " in told[0]
    assert "lower training.lr=30" in told[0]


def test_gradients_that_grow_slowly_are_told_too(log: pytest.LogCaptureFixture) -> None:
    """The largest of a look, against the median of earlier looks, also of earlier sessions."""
    health, module = Health(), SimpleNamespace(grad_norms=[], recipe=Recipe())
    trainer: Any = SimpleNamespace(gradient_clip_val=1.5, precision_plugin=None, global_step=0)
    norms = [0.1 * 10 ** (look / 40) for look in range(160)]  # tenfold in 40 looks
    for norm in norms:
        module.grad_norms += map(torch.tensor, (norm, norm / 2, 3 * norm))
        health._look_at_gradients(trainer, module)  # type: ignore[arg-type]
        trainer.global_step += 3
        state, health = json.dumps(health.state_dict()), Health()
        health.load_state_dict(json.loads(state))
    told = re.findall(r"step (\d+): the gradient norm went up to (\S+), .* is (\S+);", log.text)
    first = next(n for n in range(3, 160) if 3 * norms[n] > 20 * median(norms[:n]))
    assert [float(number) for number in told[0]] == pytest.approx(
        [3 * first, 3 * norms[first], median(norms[:first])], rel=0.01
    )
    assert "; trainer.gradient_clip_val=1.5 cuts it off" in log.text
    assert len(told) == 2, "again where it is ten times worse"


@pytest.mark.parametrize("scale", [None, 2.0**16, 1.0, 0.5])
def test_what_a_loss_scale_skips_is_no_symptom_until_it_makes_gradients_smaller(
    log: pytest.LogCaptureFixture, scale: float | None
) -> None:
    health, network = Health(), torch.nn.Linear(2, 3)
    module: Any = SimpleNamespace(grad_norms=[], recipe=Recipe(), network=network)
    scaler = None if scale is None else SimpleNamespace(get_scale=lambda: scale)
    precision = SimpleNamespace(scaler=scaler)
    trainer: Any = SimpleNamespace(precision_plugin=precision, global_step=1, gradient_clip_val=1.0)
    for _ in range(2):
        module.grad_norms.append(torch.tensor(math.inf))
        health._look_at_gradients(trainer, module)
    assert ("1 step was skipped" in log.text) == (scale is None)
    assert log.text.count("the loss scale of 16-mixed has fallen to 0.5; 1 ") == (scale == 0.5)


def test_no_norm_is_lost_where_the_logging_interval_is_longer_than_what_is_kept(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = TranslationModule.on_train_start

    def keep_two(self: TranslationModule) -> None:
        begin(self)
        self.grad_norms = deque(maxlen=2)

    seen, look = list[float](), Health._look_at_gradients

    def noted(self: Health, trainer: Any, module: TranslationModule) -> None:
        seen.extend(map(float, module.grad_norms))
        look(self, trainer, module)

    monkeypatch.setattr(TranslationModule, "on_train_start", keep_two)
    monkeypatch.setattr(Health, "_look_at_gradients", noted)
    rarely = {"trainer__log_every_n_steps": 100, "trainer__val_check_interval": 100}
    assert run("fit", *settings(**rarely, trainer__max_steps=7)) == 0
    assert len(seen) == 7


def test_only_steps_skipped_in_a_row_end_a_run(tmp_path: Path) -> None:
    health, network = Health(), torch.nn.Linear(2, 3)
    module: Any = SimpleNamespace(grad_norms=[], recipe=Recipe(), network=network)
    trainer: Any = SimpleNamespace(
        gradient_clip_val=1.0, precision_plugin=None, global_step=0, default_root_dir=tmp_path
    )
    for norms in [[1.0, math.inf]] * 2 * IN_A_ROW + [[math.nan] * (IN_A_ROW - 2)]:
        module.grad_norms += map(torch.tensor, norms)
        health._look_at_gradients(trainer, module)
    module.grad_norms += [torch.tensor(math.nan)]
    with pytest.raises(TrainingError, match=f"the last {IN_A_ROW} steps were skipped"):
        health._look_at_gradients(trainer, module)


def test_broken_weights_are_in_no_checkpoint_of_a_run_without_validation(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = {"trainer__limit_val_batches": 0, "trainer__val_check_interval": 1}
    chosen = with_faults(planted("BrokenWeights", step=5), trainer__log_every_n_steps=50, **blind)
    assert run("fit", *chosen) == 2
    assert "stopped at step 5: the weights are not finite any more" in capsys.readouterr().err
    assert max(map(step_of, Path("run/checkpoints").glob("step=*"))) == 4


def test_one_wild_gradient_is_told_with_what_is_usual(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    fault = planted("WildGradients", since=6, until=7, factor=1e6)
    assert run("fit", *with_faults(fault, trainer__max_steps=10)) == 0
    (told,) = [line for line in warnings(log.text) if "gradient norm" in line]
    found = re.search(r"step 8: .* up to (\S+), where the median of this run is (\S+);", told)
    assert found is not None
    assert 1e5 < float(found[1]) < 1e7
    assert 0.5 < float(found[2]) < 5


def test_a_rate_of_zero_and_a_copied_validation_set_are_told_before_the_first_step(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    for side in ("src", "tgt"):
        lines = (corpus / f"train.{side}").read_text().splitlines(keepends=True)
        (corpus / f"valid.{side}").write_text("".join(lines[100:120]))
    assert run("fit", *settings(training__lr=0, trainer__max_steps=2)) == 0
    first, second = warnings(log.text)[:2]
    assert "step 0: training.lr=0, so no weight ever changes" in first
    assert "step 0: 20 of 20 validation pairs, and 20 of their sources" in second
    log.clear()
    assert run("fit", *settings(), "--ckpt_path", "last") == 0
    assert "validation pairs" not in log.text, "told when the run began"
    log.clear()
    for steps, share, start in ((2, 0, "null"), (4, 1.0, "last")):
        late = settings(run="late", trainer__max_steps=steps, trainer__limit_val_batches=share)
        assert run("fit", *late, "--ckpt_path", start) == 0
        assert ("step 2: 20 of 20 validation pairs" in log.text) == (share > 0)
    other = settings(run="other", trainer__max_steps=10)
    assert run("fit", *other, "--ckpt_path", "run/checkpoints/step=4.ckpt") == 0
    assert "step 4: 20 of 20 validation pairs" in log.text, "a run of its own"


@pytest.mark.parametrize("end", [{}, {"trainer__max_steps": -1, "trainer__max_epochs": 1}])
def test_a_warm_up_longer_than_the_run_is_told_in_each_session(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture, end: dict[str, object]
) -> None:
    assert run("fit", *settings(training__warmup_steps=500, **end)) == 0
    assert "step 0: training.warmup_steps=500 is more than the" in log.text
    log.clear()
    again = settings(training__warmup_steps=400, trainer__max_steps=50, trainer__max_epochs=-1)
    assert run("fit", *again, "--ckpt_path", "last") == 0
    assert "training.warmup_steps=400 is more than the 50 steps" in log.text


def test_a_dry_run_says_nothing_of_the_warm_up(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    dry = {"trainer__fast_dev_run": 2, "training__warmup_steps": 500}
    assert run("fit", *settings(**dry)) == 0
    assert "training.warmup_steps=500 is more than" not in log.text


@pytest.mark.parametrize(("warmup", "sure"), [(1, 4), (4, 6)])
def test_a_decoder_that_ignores_its_source_and_repeats_itself_is_told_once_it_is_not_early(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture, warmup: int, sure: int
) -> None:
    """At the second validation, or the first one after the warm-up."""
    bias: dict[str, object] = {"model__output_bias": "true", "training__lr": 1e-9}
    changes = {**bias, "training__warmup_steps": warmup}
    steps = {"trainer__val_check_interval": 2, "trainer__max_steps": 6}
    assert run("fit", *with_faults(planted("Parrot"), **changes, **steps)) == 0
    for seen in ("the decoder hardly uses its source", "repeat themselves without end"):
        told = [line.split(": ")[0] for line in log.text.splitlines() if seen in line]
        assert [line[line.index("at step") :] for line in told] == [
            "at step 2, so early that it may mean nothing",
            f"at step {sure}",
        ]
    gains = [float(row["val_source_gain"]) for row in metrics(corpus / "run") if row["val_bleu"]]
    assert gains == pytest.approx([0, 0, 0], abs=1e-3)


@pytest.mark.parametrize(("last", "told"), [(5.2, False), (4.5, True)])
def test_the_gain_is_of_a_token_of_the_batches_whose_sentences_have_neighbours(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture, last: float, told: bool
) -> None:
    """And of one validation; it is told where it is less than 0.05."""
    monkeypatch.setattr("seq2seq.training.health.TranslationModule", SimpleNamespace)
    logged, health, network = dict[str, float](), Health(), torch.nn.Linear(2, 3)
    pairs = [SimpleNamespace(tgt="a b c")] * 6
    module: Any = SimpleNamespace(
        data=SimpleNamespace(texts={"validation": pairs}),
        recipe=Recipe(),
        log=logged.__setitem__,
        grad_norms=[],
        network=network,
        validation_loss=SimpleNamespace(compute=lambda: 1.0),
    )
    trainer: Any = SimpleNamespace(sanity_checking=False, global_step=10**6)
    health.validations = 2

    def validate(indices: list[int], loss: float, other: float, tokens: int) -> None:
        batch: Any = SimpleNamespace(indices=indices, pairs=[pairs[i] for i in indices])
        losses = {"loss": torch.tensor(loss), "other_loss": torch.tensor(other)}
        outputs = {**losses, "tokens": tokens, "translations": ["a b c"] * len(indices)}
        health.on_validation_batch_end(trainer, module, outputs, batch, 0)

    validate([1, 2], 1.0, 30.0, 4)
    health.on_validation_start(trainer, module)
    validate([4, 1], 3.0, 4.0, 7)
    validate([3], 9.0, 2.0, 4)
    validate([2, 0, 5], 5.0, last, 11)
    health.on_validation_epoch_end(trainer, module)
    true, other, tokens = 3.0 + 5.0, 4.0 + last, 7 + 11
    assert logged == pytest.approx({"val_source_gain": (other - true) / tokens})
    perplexities = [f"{math.exp(loss / tokens):.4g} with" for loss in (true, other)]
    assert [each in log.text for each in perplexities] == [told] * 2


def test_translations_are_compared_with_their_own_references(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    """Of some of the batches; references of others repeat themselves, too."""
    monkeypatch.setattr("seq2seq.training.health.TranslationModule", SimpleNamespace)
    endless = [f"{letter} " * 50 for letter in "abcd"]
    pairs = [SimpleNamespace(tgt=text) for text in ("a b c", endless[1], "d e f", endless[3])]
    module: Any = SimpleNamespace(
        data=SimpleNamespace(texts={"validation": pairs}),
        recipe=Recipe(),
        network=torch.nn.Linear(2, 3),
        validation_loss=SimpleNamespace(compute=lambda: 1.0),
    )
    trainer: Any = SimpleNamespace(sanity_checking=False, global_step=10**6)
    for indices, told in (([3, 1], False), ([2, 0], True)):
        health = Health()
        health._translations = {index: endless[index] for index in indices}
        health.on_validation_epoch_end(trainer, module)
        assert ("repeat themselves without end" in log.text) == told


def test_a_sound_run_gets_no_warning_and_shows_the_same_samples_after_each_validation(
    corpus: Path, run: Run, log: pytest.LogCaptureFixture
) -> None:
    """Of 8 words, and other sentences in validation than in train."""
    rng = random.Random(2)
    lines = {tuple(rng.choices("abcdefgh", k=rng.randint(2, 5))): None for _ in range(1500)}
    for name, part in (("valid", list(lines)[:40]), ("train", list(lines)[40:])):
        for side, order in (("src", 1), ("tgt", -1)):
            text = "".join(" ".join(line[::order]) + "\n" for line in part)
            (corpus / f"{name}.{side}").write_text(text)
    learning = {
        "training__lr": 0.005,
        "training__warmup_steps": 40,
        "training__keep_last": 1,  # so that no mean of two can become the model
        "training__keep_best": 1,
        "training__dropout__residual": 0,
        "model__d_model": 64,
        "model__ff_dim": 128,
        "data__subwords__src_vocab_size": 30,
        "data__subwords__tgt_vocab_size": 30,
        "trainer__max_steps": 100,
        "trainer__val_check_interval": 50,
        "trainer__log_every_n_steps": 10,
        "trainer__precision": "32-true",  # as in `translate`
    }
    assert run("fit", *settings(**learning)) == 0
    assert warnings(log.text) == []
    assert "perhaps nothing" not in log.text
    gains = [float(row["val_source_gain"]) for row in metrics(corpus / "run") if row["val_bleu"]]
    assert min(gains) > 0.1

    text = (corpus / "run/samples.txt").read_text()
    early, late = (block.splitlines() for block in text.split("step ")[1:])
    assert (early[0][:9], late[0][:10]) == ("50, BLEU ", "100, BLEU ")
    sources, references = (
        (corpus / f"valid.{side}").read_text().splitlines() for side in ("src", "tgt")
    )
    chosen = [6, 20, 33]  # the middles of three thirds of 40
    translated = Translator.load("run", SearchConfig(beam=2)).translate(sources)
    assert late[1:] == [
        line
        for n in chosen
        for line in (
            f"  source       {sources[n]}",
            f"  translation  {translated[n]}",
            f"  reference    {references[n]}",
        )
    ]
    assert early[1::3] == late[1::3]
    assert "\n".join(late[1:]) in log.text
    (events,) = (corpus / "run/logs/version_0").glob("events.*")
    assert "\n".join(late[1:]).encode() in events.read_bytes()


def test_what_lightning_tries_before_the_first_step_is_no_validation(
    corpus: Path, run: Run
) -> None:
    assert run("fit", *settings(trainer__num_sanity_val_steps=1)) == 0
    blocks = Path("run/samples.txt").read_text().split("step ")[1:]
    assert [int(block.split(",")[0]) for block in blocks] == [4, 8]
    checkpoint = torch.load("run/checkpoints/step=8.ckpt", weights_only=True)
    assert checkpoint["callbacks"]["Health"]["validations"] == 2


def test_gradients_are_clipped_and_measured_as_those_of_the_loss_where_fp16_scales_it(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By 65536; Lightning leaves it to the step of a fused optimizer to undo that."""
    monkeypatch.setattr("seq2seq.apps.train.check_plugins", lambda _: None)  # fp16 on the CPU
    monkeypatch.setattr("seq2seq.apps.train.precision_for", lambda *_: None)
    fp16 = {"precision": "16-mixed", "device": "cpu"}
    plugin = {"class_path": "pytorch_lightning.plugins.MixedPrecision", "init_args": fp16}
    plugins = {"trainer__plugins": json.dumps([plugin])}
    assert run("fit", *settings(trainer__max_steps=2, **plugins)) == 0
    norms = [float(row["grad_norm"]) for row in metrics(corpus / "run") if row["grad_norm"]]
    assert norms == pytest.approx([2.0], rel=0.1)  # as in fp32


def fit(*arguments: object) -> tuple[int, str]:
    """In processes of its own: exit status, and what they said."""
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq", "fit", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return done.returncode, done.stdout


@pytest.mark.slow
def test_two_processes_skip_tell_and_stop_together(corpus: Path) -> None:
    two = {"trainer__devices": 2, "trainer__strategy": "ddp"}
    skips = with_faults(planted("WildGradients", since=2, until=4, rank=1), **two)
    status, said = fit(*skips)
    assert status == 0, said
    assert said.count("2 steps were skipped") == 1
    text = (corpus / "run/samples.txt").read_text()
    assert text.count("  translation  ") == 6, "of three sentences, translated on two processes"

    fault = planted("WildGradients", since=2, rank=1)
    long = {"trainer__max_steps": 60, "trainer__val_check_interval": 60}
    status, said = fit(*with_faults(fault, run="hopeless", **two, **long))
    assert status == 2, said
    assert "stopped at step 22: the last 20 steps were skipped" in said
