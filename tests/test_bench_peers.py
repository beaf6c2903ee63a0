"""The comparison with other toolkits: what it hands them, and what it reads from them."""

import importlib.util
import json
import random
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
import toy_corpora
from peers.environments import REQUIREMENTS

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def script() -> ModuleType:
    """scripts/bench_peers.py as a module."""
    spec = importlib.util.spec_from_file_location("bench_peers", SCRIPTS / "bench_peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PEERS = ("joeynmt", "huggingface")


def joeynmt_batches(lengths: list[tuple[int, int]], batch_size: int) -> Iterator[list[int]]:
    """TokenBatchSampler.__iter__ of JoeyNMT 2.3.0; lengths count the end token."""
    batch, max_tokens = [], 0
    for index, (src_len, trg_len) in enumerate(lengths):
        n_tokens = max(src_len, trg_len)
        batch.append(index)
        if n_tokens > max_tokens:
            max_tokens = n_tokens
        if max_tokens * len(batch) >= batch_size:
            yield batch
            batch, max_tokens = [], 0
    if batch:
        yield batch


@pytest.mark.parametrize("tokens", [1, 50, 64, 997])
def test_joeynmt_cuts_the_corpus_into_the_batches_that_were_laid_out(
    script: ModuleType, tokens: int
) -> None:
    rng = random.Random(tokens)
    lengths = [(rng.randint(2, 30), rng.randint(2, 30)) for _ in range(500)]
    batches = script.batches_of(lengths, tokens)
    laid_out = [index for batch in batches for index in batch]
    assert len(set(laid_out)) == len(laid_out)
    cut = joeynmt_batches([lengths[index] for index in laid_out], tokens)
    assert [[laid_out[place] for place in batch] for batch in cut] == batches
    left_over = sorted(map(max, lengths))[len(laid_out) :]
    assert len(left_over) * max(left_over, default=0) < tokens


def test_the_speed_of_joeynmt_is_all_tokens_by_all_time_after_the_warm_up(
    script: ModuleType,
) -> None:
    steps = [(2, 10.0, 99_999), (4, 4.0, 2000), (6, 6.5, 13_000), (8, 2.25, 900)]
    log, clock = "2026-11-21 09:59:00,250 - INFO - joeynmt.model - Total params: 7616512\n", 0.0
    for step, seconds, tokens in steps:
        clock += seconds
        stamp = f"2026-11-21 10:00:{clock:06.3f}".replace(".", ",")
        log += (
            f"{stamp} - INFO - joeynmt.training - Epoch   1, Step: {step:8d}, Batch Loss: "
            f"{5.25:12.6f}, Batch Acc: {0.125:.6f}, Tokens per Sec: {tokens / seconds:8.0f}, "
            f"Lr: 0.000300\n"
        )
    measured = steps[1:]
    expected = sum(tokens for *_, tokens in measured) / sum(seconds for _, seconds, _ in measured)
    found = script.from_log(log, warmup=2)
    assert found["tokens_per_second"] == pytest.approx(expected, abs=0.5)  # the log rounds
    assert found["parameters"] == 7_616_512


JOEYNMT = """
import sys, yaml
from pathlib import Path
config = yaml.safe_load(Path("config.yaml").read_text())
model, training, data = config["model"], config["training"], config["data"]
for side in ("src", "trg"):
    settings = data[side]
    for split in ("train", "dev"):
        assert Path(f"{data[split]}.{settings['lang']}").read_text()
    assert Path(settings["tokenizer_cfg"]["model_file"]).read_bytes()
    assert len(Path(settings["voc_file"]).read_text().splitlines()) == 320
for stack in ("encoder", "decoder"):
    assert model[stack]["hidden_size"] == model[stack]["embeddings"]["embedding_dim"] == 32
    assert (model[stack]["num_layers"], model[stack]["num_heads"]) == (1, 2)
    assert model[stack]["ff_size"] == 64
assert (training["batch_size"], training["updates"]) == (256, 9)
assert training["validation_freq"] % training["logging_freq"] == 0
Path("model").mkdir()
speed = 200 if training["shuffle"] else 250
Path("model/train.log").write_text("x - Total params: 77\\n" + "".join(
    f"2026-11-21 10:00:0{step},000 - INFO - Step:  {step}, Tokens per Sec:  {speed}, Lr: 0\\n"
    for step in range(training["logging_freq"], 10, training["logging_freq"])
))
"""

MARIAN = """
import json, sys
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
batches = [json.loads(line) for line in open(options["--batches"])]
assert len(batches) == 9
for batch in batches:
    assert all(ids[-1] == 3 for side in batch.values() for ids in side)
    longest = max(len(ids) for side in batch.values() for ids in side)
    assert len(batch["src"]) == len(batch["tgt"])
    assert 128 < longest * len(batch["src"]) <= 256
assert options["--vocab-size"] == "320"
precision = options.get("--precision", "bf16")
speed = 500 if options.get("--attention") == "eager" else 400
print(json.dumps({"tokens_per_second": speed, "precision": precision, "parameters": 7}))
"""

OURS = """
import json, os, sys
assert "--alone" in sys.argv, "the plain loop takes minutes, and its number is not asked for"
print("something else")
threads = int(os.environ["OMP_NUM_THREADS"])
print(json.dumps({"tokens_per_second": 333.5 * threads, "precision": "32-true", "parameters": 5}))
"""


def stand_in(environments: Path, name: str, source: str) -> None:
    """A complete environment whose Python is a program of ours."""
    home = environments / name
    (home / "bin").mkdir(parents=True)
    wanted = [f"torch=={version('torch')}", *REQUIREMENTS[name]]
    (home / "complete.txt").write_text("".join(f"{line}\n" for line in wanted))
    python = home / "bin/python"
    python.write_text(f"#!{sys.executable}\n{source}")
    python.chmod(0o755)


@pytest.fixture
def command(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line on a small corpus; every toolkit is a stand-in, also ours."""
    shutil.copytree(SCRIPTS / "peers", tmp_path / "scripts/peers")
    (tmp_path / "scripts/bench_train.py").write_text(OURS)
    monkeypatch.setattr(script, "SCRIPTS", tmp_path / "scripts")
    stand_in(tmp_path / "peers", "joeynmt", JOEYNMT)
    stand_in(tmp_path / "peers", "huggingface", MARIAN)
    return [*small(tmp_path), "--environments", str(tmp_path / "peers"), "--threads", "3"]


def small(folder: Path) -> list[str]:
    """The beginning of a command line: a small corpus and a small model."""
    src, tgt = toy_corpora.write(folder, "train", toy_corpora.latin(300))
    options = f"--src {src} --tgt {tgt} --cache {folder / 'cache'} --vocab-size 320 --d-model 32"
    options += " --heads 2 --ff-dim 64 --layers 1 --batch-tokens 256 --warmup 3 --steps 6"
    return ["bench_peers.py", *options.split()]


def test_every_toolkit_gets_what_it_needs_and_its_number_is_compared(
    script: ModuleType,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [*command, "--json"])
    assert script.main() == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ours"]["runs"] == [1000.5, 1000.5]
    ratios = {name: round(peer["ratio"], 3) for name, peer in found["peers"].items()}
    assert ratios == {
        "joeynmt": 5.003,
        "joeynmt-sorted": 4.002,
        "huggingface": 2.501,
        "huggingface-eager": 2.001,
        "huggingface-fp32": 2.501,
    }
    precisions = [peer["precision"] for peer in found["peers"].values()]
    assert precisions == ["fp32", "fp32", "bf16", "bf16", "fp32"]


def test_a_peer_that_does_not_install_or_run_is_one_line_and_the_others_are_measured(
    script: ModuleType,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.rmtree(tmp_path / "peers/joeynmt")
    (tmp_path / "peers/joeynmt").write_text("no folder")
    (tmp_path / "scripts/bench_train.py").write_text("raise SystemExit('out of order')")
    monkeypatch.setattr(sys, "argv", command)
    assert script.main() == 1
    said = capsys.readouterr()
    failures = [line for line in said.err.splitlines() if "not measured" in line]
    assert len(failures) == 3
    assert failures[0].startswith("joeynmt: not measured: ")
    assert all(line.startswith("ours: not measured: ") for line in failures[1:])
    assert all(line.endswith("out of order") for line in failures[1:])
    assert said.out.count("400 target tokens/s") == 2
    assert said.out.count("not measured") == 3


def test_a_corpus_without_a_whole_batch_is_an_error_that_names_the_budget(
    script: ModuleType,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [*command, "--batch-tokens", "1000000"])
    assert script.main() == 2
    assert "--batch-tokens=1000000" in capsys.readouterr().err


@pytest.mark.slow
def test_the_toolkits_train_models_of_one_size(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not all((script.CACHE / f"peers/{peer}/complete.txt").is_file() for peer in PEERS):
        pytest.skip("needs the environments of 3 GB that scripts/bench_peers.py makes")
    monkeypatch.setattr(sys, "argv", [*small(tmp_path), "--threads", "1", "--json"])
    assert script.main() == 0
    found = json.loads(capsys.readouterr().out)
    everyone = [found["ours"], *found["peers"].values()]
    assert len(everyone) == 6
    assert all(each["tokens_per_second"] > 0 for each in everyone)
    # They differ in the norms at the ends of the stacks and in biases, by a few vectors.
    sizes = [each["parameters"] for each in everyone]
    assert max(sizes) - min(sizes) < 10 * 32
