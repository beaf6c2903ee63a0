"""Means of checkpoints against means made by hand, and what does not fit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from torch import Tensor

from seq2seq.apps.new_folder import check_new
from seq2seq.cli import main
from seq2seq.config import ModelConfig, SubwordConfig
from seq2seq.errors import ConfigError
from seq2seq.model_folder import SavedModel, load_model, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.training.checkpoints import (
    best_checkpoints,
    find_checkpoint,
    is_in,
    start_of_fit,
    step_of,
)
from seq2seq.training.compatibility import identity

TEXTS = ["ba de gi", "de ba", "gi gi ba de"]
NAMES = [
    "step=90.ckpt",
    "step=100.ckpt",
    "step=110.ckpt",
    "best-step=20-bleu=9.50.ckpt",
    "best-step=90-bleu=31.00.ckpt",
    "best-step=80-bleu=31.00.ckpt",
    "best-step=10-bleu=9.25.ckpt",
]


def new_model(tie: str = "all") -> SavedModel:
    size = 14
    subwords = Subwords(train_subwords(TEXTS, SubwordConfig(byte_fallback=False), size))
    config = ModelConfig(
        src_vocab_size=len(subwords),
        tgt_vocab_size=len(subwords),
        d_model=8,
        heads=2,
        ff_dim=12,
        encoder_layers=1,
        decoder_layers=1,
        tie=tie,  # type: ignore[arg-type]
    )
    return SavedModel(Transformer(config), subwords, subwords)


def write_checkpoint(path: Path, model: SavedModel) -> dict[str, Tensor]:
    """Random weights, as a fit stores them; tied ones are equal. Returns them."""
    network = Transformer(model.network.config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    weights = {f"network.{name}": each for name, each in network.state_dict().items()}
    content = {
        "state_dict": weights,
        "global_step": step_of(path),
        "callbacks": {"Record": {"training": {"steps": 0, "seconds": 1.0, "hardware": []}}},
        **identity(model),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)
    return weights


@pytest.fixture
def weights(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, Tensor]]:
    """A run folder, run/, with a model and seven checkpoints: their weights by file name."""
    monkeypatch.chdir(tmp_path)
    model = new_model(getattr(request, "param", "all"))
    save_model(model, Path("run/model"))
    return {name: write_checkpoint(Path("run/checkpoints") / name, model) for name in NAMES}


@pytest.mark.parametrize("weights", ["all", "none"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--last", "2"], ["step=100.ckpt", "step=110.ckpt"]),
        (["--last", "1"], ["step=110.ckpt"]),
        (["--last", "3"], NAMES[:3]),
        (["--best", "2"], ["best-step=80-bleu=31.00.ckpt", "best-step=90-bleu=31.00.ckpt"]),
        (["--best", "1"], ["best-step=90-bleu=31.00.ckpt"]),
        (
            ["--checkpoints", f"run/checkpoints/{NAMES[0]}", f"run/checkpoints/{NAMES[3]}"],
            [NAMES[0], NAMES[3]],
        ),
    ],
    ids=lambda value: "-".join(value[:2]),
)
def test_the_average_is_the_mean_of_the_checkpoints_that_were_asked_for(
    capsys: pytest.CaptureFixture[str],
    weights: dict[str, dict[str, Tensor]],
    arguments: list[str],
    expected: list[str],
) -> None:
    assert main(["average", "run", *arguments, "--output", "mean"]) == 0
    shown = arguments[1:] if "--checkpoints" in arguments else expected
    assert capsys.readouterr().out == f"mean: mean of {', '.join(shown)}\n"
    network = load_model("mean").network
    for name, parameter in network.state_dict().items():
        total = sum(weights[path][f"network.{name}"].double() for path in expected)
        assert isinstance(total, Tensor)
        assert torch.equal(parameter, (total / len(expected)).float()), name
    tied = network.output.weight is network.src_embedding.weight
    assert tied == (network.config.tie == "all")


def test_the_last_five_or_fewer_are_averaged_beside_the_model_if_nothing_else_is_said(
    weights: dict[str, dict[str, Tensor]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["average", "run"]) == 0
    all_three = "step=90.ckpt, step=100.ckpt, step=110.ckpt"
    assert capsys.readouterr().out == f"run/model-averaged: mean of {all_three}\n"
    for step in (120, 130, 140):
        write_checkpoint(Path(f"run/checkpoints/step={step}.ckpt"), load_model("run"))
    assert main(["average", "run"]) == 0
    shown = "step=100.ckpt, step=110.ckpt, step=120.ckpt, step=130.ckpt, step=140.ckpt"
    assert capsys.readouterr().out == f"run/model-averaged: mean of {shown}\n"
    load_model("run/model-averaged")
    assert main(["average", "run", "--last", "1"]) == 0
    assert capsys.readouterr().out == "run/model-averaged: mean of step=140.ckpt\n"


def test_an_output_that_could_not_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/m\udce4rz is not UTF-8, as safetensors"):
        check_new(tmp_path / "m\udce4rz")
    check_new(tmp_path / "m\xe4rz")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("run/model", "run/model is there already; remove it, or name another folder."),
        ("run", "run is there already"),
        ("text", "text is there already"),
        ("text/x/y", "text/x/y cannot be written: Not a directory."),
        ("/proc/none/mean", "/proc/none/mean cannot be written: "),
    ],
)
def test_an_output_that_would_replace_something_is_told_before_checkpoints_are_read(
    weights: dict[str, dict[str, Tensor]],
    output: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if output.startswith("/proc") and not Path("/proc/self").is_dir():
        pytest.skip("this system has no /proc")
    Path("text").write_text("one\n")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["average", "run", "--checkpoints", "none", "--output", output]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {said}")
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_the_best_checkpoint_is_the_one_with_the_highest_bleu_and_of_equal_ones_the_newest(
    weights: dict[str, dict[str, Tensor]],
) -> None:
    order = [NAMES[6], NAMES[3], NAMES[5], NAMES[4]]
    assert [path.name for path in best_checkpoints(Path("run"))] == order
    assert find_checkpoint("best", Path("run")) == f"run/checkpoints/{NAMES[4]}"


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def test_a_damaged_checkpoint_is_no_later_step_and_none_to_go_on_from(
    weights: dict[str, dict[str, Tensor]],
) -> None:
    run, folder = Path("run"), Path("run/checkpoints")
    (folder / "step=120.ckpt").symlink_to("nowhere")
    with pytest.warns(UserWarning, match=r"step=120\.ckpt is damaged"):
        assert start_of_fit("last", run) == "run/checkpoints/step=110.ckpt"
    (folder / "step=120.ckpt").unlink()
    cut_short(folder / "step=110.ckpt")
    with pytest.warns(UserWarning, match=r"step=110\.ckpt is damaged"):
        assert start_of_fit("last", run) == "run/checkpoints/step=100.ckpt"
    # Of step 90 there are two.
    (folder / NAMES[5]).unlink()
    (folder / "step=100.ckpt").unlink()
    assert start_of_fit("best", run) == "run/checkpoints/step=90.ckpt"
    (folder / "step=90.ckpt").rename(folder / "step=80.ckpt")  # an earlier one is no bar
    assert start_of_fit("best", run) == f"run/checkpoints/{NAMES[4]}"
    shutil.copy(folder / "step=80.ckpt", folder / "step=90.ckpt")
    cut_short(folder / "step=90.ckpt")
    assert start_of_fit("best", run) == f"run/checkpoints/{NAMES[4]}"


def test_a_file_is_in_a_folder_however_both_are_named_and_wherever_it_links_to(
    weights: dict[str, dict[str, Tensor]], tmp_path: Path
) -> None:
    folder, file = Path("run/checkpoints"), Path("run/checkpoints/step=90.ckpt")
    Path("link").symlink_to(folder)
    file.symlink_to(file.rename("elsewhere.ckpt").resolve())
    for name in (folder, tmp_path / folder, Path("link")):
        assert is_in(name, file)
        assert is_in(name, str(tmp_path / file))
        assert is_in(name, "link/step=90.ckpt")
        assert not is_in(name, "elsewhere.ckpt")
    assert not is_in(Path("run"), file)


def changed(**changes: Any) -> Callable[[Path], None]:
    """Spoils a checkpoint."""

    def change(path: Path) -> None:
        torch.save({**torch.load(path, weights_only=True), **changes}, path)

    return change


def with_setting(**setting: int) -> Callable[[Path], None]:
    """Makes a checkpoint one of another architecture."""

    def change(path: Path) -> None:
        settings = torch.load(path, weights_only=True)["model_config"]
        changed(model_config={**settings, **setting})(path)

    return change


def not_of_torch(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr("weights", "none")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_setting(ff_dim=16), "another architecture: model.ff_dim=12 differs from 16 there"),
        (with_setting(experts=2), "another architecture: model.experts=None differs from 2 there"),
        (changed(subwords=["0", "0"]), "other subwords than the model's"),
        (cut_short, "is damaged or no checkpoint"),
        (lambda path: torch.save({"weights": 1}, path), "is not a checkpoint of seq2seq"),
        (changed(callbacks=SubwordConfig()), "is not a checkpoint of seq2seq"),
        (not_of_torch, "is not a checkpoint of seq2seq"),
        (Path.unlink, "does not exist"),
    ],
    ids=["size", "setting", "subwords", "cut", "foreign", "code", "zip", "missing"],
)
def test_a_checkpoint_that_does_not_fit_is_an_error_that_names_it(
    weights: dict[str, dict[str, Tensor]],
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], object],
    message: str,
) -> None:
    odd = Path("run/checkpoints/step=100.ckpt")
    spoil(odd)
    assert main(["average", "run", "--checkpoints", "run/checkpoints/step=90.ckpt", str(odd)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {odd} ")
    assert message in said
    assert not Path("run/model-averaged").exists()


def test_a_checkpoint_for_which_memory_is_short_is_not_called_a_foreign_one(
    weights: dict[str, dict[str, Tensor]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def short(path: Path, **_: Any) -> None:
        raise RuntimeError(f"unable to mmap file <{path}>: Cannot allocate memory (12)")

    monkeypatch.setattr(torch, "load", short)
    path = Path("run/checkpoints/step=100.ckpt")
    assert main(["average", "run", "--checkpoints", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path} does not fit into memory.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--best", "5"], "--best 5: run/checkpoints holds 4 such checkpoints"),
        (["run", "--best", "5"], "training.keep_best"),
        (["run", "--last", "5"], "--last 5: run/checkpoints holds 3 such checkpoints"),
        (["run", "--last", "0"], "--last=0"),
        (["nowhere"], "nowhere does not exist"),
        (["run", "--last", "5", "--best", "2"], "not allowed with"),
        (["run", "--checkpoints", "a.ckpt", "./a.ckpt"], "a.ckpt a.ckpt has the same file twice"),
    ],
)
def test_what_cannot_be_averaged_is_one_line(
    weights: dict[str, dict[str, Tensor]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    try:
        status: object = main(["average", *arguments])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said


def test_a_run_without_checkpoints_is_told_so(
    weights: dict[str, dict[str, Tensor]], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in Path("run/checkpoints").glob("best-*"):  # as without validation
        path.unlink()
    assert main(["average", "run", "--best", "2"]) == 2
    missing = "run/checkpoints holds no checkpoints of the best validations to average.\n"
    assert capsys.readouterr().err == f"error: {missing}"
    for path in Path("run/checkpoints").iterdir():
        path.unlink()
    assert main(["average", "run"]) == 2
    assert capsys.readouterr().err == "error: run/checkpoints holds no checkpoints to average.\n"
