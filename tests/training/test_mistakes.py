"""What is wrong with settings and corpora of a training is told in one line."""

import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from full_disk import room_for
from lightning_utilities.core.imports import RequirementCache
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    ModelCheckpoint,
    device_stats_monitor,
)
from pytorch_lightning.loggers import wandb
from small_runs import Run, settings

from seq2seq.apps.train_callbacks import check_callbacks
from seq2seq.apps.train_settings import check_checkpoints
from seq2seq.data.dataset import TrainingBatches
from seq2seq.errors import ConfigError


@pytest.fixture
def no_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the extra [ja], also where it is installed."""
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_test_set_without_spaces_and_without_a_tokenizer_is_warned_of_in_a_line(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=1)) == 0
    Path("test.tgt").write_text("彼は毎朝公園を走っています。\n" * 40)
    assert run("test", "--config", "run/config.yaml") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warn" in line.lower()]
    assert len(warned) == 1
    assert warned[0].startswith("warning: data.test.small: there are no spaces between the words")


def test_a_changed_architecture_is_an_error_that_names_the_field(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    before = Path("run/config.yaml").read_text()
    assert run("fit", *settings(model__ff_dim=96), "--ckpt_path", "last") == 2
    assert "model.ff_dim=96 differs from 64" in capsys.readouterr().err
    assert Path("run/config.yaml").read_text() == before


def test_other_subwords_are_an_error_however_many_they_are(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(trainer__max_steps=4)) == 0
    texts = [(corpus / name, (corpus / name).read_text()) for name in ("train.src", "train.tgt")]
    for letters in ("k", "zzz"):  # as many subwords, and more
        for path, text in texts:
            path.write_text(text.replace("b", letters))
        assert run("fit", *settings(), "--ckpt_path", "last") == 2
        assert "the subwords differ from the checkpoint's: data.train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__d_model": 33}, "model.d_model=33 cannot be split into model.heads=2"),
        ({"training__schedule": "fast"}, "fast"),
        ({"model__colour": "red"}, "model.colour"),
        ({"data__train__src": "missing.src"}, "missing.src does not exist"),
        ({"data__train__src": "valid.src"}, "train.tgt has 2000 lines but valid.src has 40"),
        ({"data__cache": "train.src"}, "data.cache: train.src/digests cannot be written to"),
        ({"data__tgt_lang": "ja"}, "seq2seq-lightning[ja]"),
        ({"data__subwords__src_vocab_size": 70}, "data.subwords.src_vocab_size=70"),
        ({"model__positions": "learned", "model__max_positions": 4}, "model.max_positions=4"),
        ({"ckpt_path": "last"}, "ckpt_path=last"),
        ({"init_from": "nowhere"}, "init_from: nowhere does not exist"),
        ({"data__subwords_from": "nowhere"}, "data.subwords_from: nowhere does not exist"),
        ({"training__schedule": "linear", "trainer__max_steps": -1}, "trainer.max_steps=-1"),
        ({"training__schedule": "cosine", "trainer__max_steps": 0}, "trainer.max_steps=0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_one_line_that_names_it(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    no_mecab: None,
    changes: dict[str, object],
    message: str,
) -> None:
    try:
        status: object = run("fit", *settings(**changes))
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a name may not be given")
def test_a_run_whose_checkpoints_could_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_checkpoints("runs/m\xe4rz")
    with pytest.raises(ConfigError, match=r"^run=runs/m\udce4rz: .* is not UTF-8"):
        check_checkpoints("runs/m\udce4rz")
    (tmp_path / "m\udce4rz").mkdir()
    monkeypatch.chdir(tmp_path / "m\udce4rz")
    with pytest.raises(ConfigError, match=r"^run=runs/x: .*/m\udce4rz/runs/x is not UTF-8"):
        check_checkpoints("runs/x")


def test_what_is_wrong_with_the_validation_set_is_told_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__validation__src="missing.src")) == 2
    assert "missing.src does not exist" in capsys.readouterr().err
    assert not Path("cache").exists()


def test_that_the_tokenizer_is_missing_is_told_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], no_mecab: None
) -> None:
    assert run("fit", *settings(data__tgt_lang="ja")) == 2
    assert 'pip install "seq2seq-lightning[ja]"' in capsys.readouterr().err
    assert not Path("cache").exists()


def test_a_weight_for_some_corpora_only_is_told_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    files = "src: train.src, tgt: train.tgt"
    both = f"{{a: {{{files}, weight: 1}}, b: {{{files}}}}}"
    assert run("fit", *settings(data__train=both)) == 2
    assert "data.train: 1 of 2 corpora have a weight; give" in capsys.readouterr().err
    assert not Path("cache").exists()


@pytest.mark.parametrize("missing", ["train", "validation"])
def test_a_corpus_that_is_not_given_is_named(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    (given,) = {"train", "validation"} - {missing}
    files = f"--data.{given}.src=train.src", f"--data.{given}.tgt=train.tgt"
    assert run("fit", *files, "--data.cache", "cache") == 2
    assert f"data.{missing} is not set; give --data.{missing}.src FILE" in capsys.readouterr().err


def test_a_configuration_that_is_no_text_is_one_line(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.yaml").write_bytes("run: français\n".encode("latin-1"))
    assert run("fit", "--config", "latin.yaml") == 2
    assert capsys.readouterr().err == (
        "error: latin.yaml is not UTF-8 text; expected YAML in UTF-8.\n"
    )


def test_a_mistake_in_a_configuration_is_told_with_its_file(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fine.yaml").write_text("training: {lr: 0.001}")
    for content, said in (
        ("data:\n  train: {src: [", "while parsing a flow node"),
        ("training: {lr: fast}", "training.lr"),
        ("nonsense", "nonsense"),
        ("training: {lrr: 0.001}", "training.lrr is not a setting; did you mean training.lr?"),
        ("colour: red", "does not accept option 'colour'"),
    ):
        Path("wrong.yaml").write_text(content)
        with pytest.raises(SystemExit, match="2"):
            run("fit", "--config", "fine.yaml", "--config", "wrong.yaml")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: wrong.yaml: ")
        assert said in line
        assert "unicode string" not in line


def test_one_matrix_for_two_vocabularies_is_refused_before_train_is_stored(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", *settings(data__subwords__joint=False, model__tie="all")) == 2
    assert "model.tie=all shares one matrix" in capsys.readouterr().err
    assert not Path("cache").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("training: {dropout: 0.3}", "training.dropout=0.3 is not a group of settings"),
        ("training: 3", "training=3 is not a group of settings; expected e.g. training.lr: 0.001"),
        ("data: {subwords: 8000}", "data.subwords=8000 is not a group"),
        ("data: {subword_sampling: 0.2}", "data.subword_sampling=0.2 is not a group"),
        ("search: {diversity: 2}", "search.diversity=2 is not a group"),
        ("model: 3", "model=3 is not a group"),
        ("data: 3", "data=3 is not a group"),
        ("trainer: 3", "trainer=3 is not a group"),
        ("trainer: null", "trainer=None is not a group"),
    ],
)
def test_a_group_of_settings_that_is_one_value_is_named(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    Path("wrong.yaml").write_text(content)
    assert run("fit", "--config", "wrong.yaml") == 2
    assert f"error: wrong.yaml: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--data.train train.src", "data.train is not a corpus; give --data.train.src FILE --data"),
        ("--data.train x.tsv", "data.train is not a corpus; .* or --data.train.path FILE "),
        (
            "--data.validation train.src",
            "data.validation is not a corpus; .*--data.validation.path",
        ),
        ("--data.test train.src", "data.test is not a corpus; give --data.test '{NAME: {src: FILE"),
        (
            '--data.train {"source":"a.src"}',
            "data.train.source is neither a corpus nor a setting of one; give ",
        ),
        (
            '--data.train {"path":"a.tsv","foo":{"a":1}}',
            "data.train={'path': 'a.tsv', 'foo': {'a': 1}} is not a corpus; give ",
        ),
        ('--data.train {"a":{"b":1}}', "data.train.a.b is neither a corpus nor a setting of one; "),
        ("--data.train.weight x", "data.train.weight=x is none of what is expected: float; null "),
        ('--data.train {"a":{"src":1}}', "data.train.a.src=1 is none of .*: str; null "),
        (
            '--data.train {"a":{"path":"a.tsv"},"b":{"path":"b.tsv","weight":true}}',
            "data.train.b.weight=True is none of what is expected: float; null ",
        ),
        (
            '--data.train {"a":{"path":"a.tsv"},"b":{"path":"b.tsv","wait":3}}',
            "data.train.b.wait is neither a corpus nor a setting of one; give ",
        ),
        (
            '--data.train {"a":{"path":"a.tsv"},"b":"b.tsv"}',
            "data.train is not a corpus; give --data.train.src FILE ",
        ),
        ("--data.train.source a.src", "data.train.source is neither a corpus nor a setting of"),
        ("--data.test.x a.src", "data.test.x is neither a corpus nor .*--data.test '{NAME: {src"),
        ("--lr 0.1", r"--lr is not a setting; did you mean --training.lr\? "),
        ("--train train.src train.tgt", r"--train is not a setting; did you mean --data.train\? "),
        (
            "--train.src train.src",
            r"--train.src is not a setting; did you mean --data.train.src\? ",
        ),
        (
            "--model.d-model=32",
            r"--model.d-model is not a setting; did you mean --model.d_model\? ",
        ),
        ("--seed 3", r"--seed is not a setting; did you mean --seed_everything\? "),
        ("--ckpt last", r"--ckpt is not a setting; did you mean --ckpt_path\? "),
        ("--training.warmup 3", "--training.warmup is not a setting; did you mean .*warmup_steps"),
        ("--model.dropout 0.1", r"--model.dropout is not a setting; .* --training.dropout\? "),
        (
            "--model.layers 6",
            r".* did you mean --model.encoder_layers or --model.decoder_layers\? ",
        ),
        (
            "--training.dropout.rate 0.1",
            r".* mean --training.dropout.residual or --training.dropout.attention or "
            r"--training.dropout.activation\? ",
        ),
        (
            "--data.subword_sampling.alpha 3",
            r".* mean --data.subword_sampling.src or --data.subword_sampling.tgt\? ",
        ),
        ("--trainer.lr 0.1", r"--trainer.lr is not a setting; .* mean --training.lr\? "),
        (
            "--trainer.devises 1",
            r"--trainer.devises is not a setting; .* mean --trainer.devices\? ",
        ),
        ("--modle.d_model 32", r"--modle.d_model is not a setting; .* mean --model.d_model\? "),
        ("--trainer.foo 3", r"unrecognized arguments: --trainer.foo 3 \("),
        (
            "--training.dropout 0.1",
            "training.dropout=0.1 is not a group of settings; expected e.g. ",
        ),
        ("--model none.yaml", "model=none.yaml is not a group of settings; expected e.g. "),
        ("--model wrong.yaml", "model.d_modle is not a setting; did you mean model.d_model"),
        ("--colour red", r"unrecognized arguments: --colour red \("),
        (
            "--data.train.src.foo x",
            r"data.train.src.foo is neither a corpus nor a setting of one; ",
        ),
        ("--data.workers two", r"data.workers=two is none of what is expected: int; null \("),
        ("--trainer.callbacks foo", r"trainer.callbacks=foo is none of what .*: list; name of a "),
        (
            "--trainer.callbacks EarlyStopping",
            r"trainer.callbacks: pytorch_lightning.callbacks.EarlyStopping: the following .* are "
            r"required: monitor \(see: seq2seq fit --help\)",
        ),
        ("--search.sampling {top_p:1}", r".*} is none of what is expected: name of a class; null"),
        (
            "--search.sampling.top_p x",
            r"search.sampling: seq2seq.config.Sampling: .*top_p.* Got value: x \(",
        ),
    ],
)
def test_what_a_newcomer_types_is_answered_with_what_is_meant(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    Path("wrong.yaml").write_text("d_modle: 32")
    with pytest.raises(SystemExit, match="2"):
        run("fit", *arguments.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(f"error: {said}", line)


def test_an_error_does_not_quote_a_whole_file(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("fit", "--trainer.callbacks", "train.src")
    (line,) = capsys.readouterr().err.splitlines()
    assert " ... " in line
    assert len(line) < 800


HALF = "a corpus is src and tgt, or path alone; got src=a.en, tgt=None, path=None"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit --data.train.src a.en", f"data.train: {HALF}."),
        ("fit --data.validation.src a.en", f"data.validation: {HALF}."),
        ("fit --config half.yaml", f"data.train: {HALF}."),
        ("fit --config named.yaml", f"data.train.small: {HALF}."),
        (
            "fit --config whole.yaml --data.train.weight -1",
            "data.train: weight=-1.0 is not a share; use a number above 0.",
        ),
        (
            "fit --config whole.yaml --data.train.path d.tsv",
            "data.train: a corpus is src and tgt, or path alone; got src=a.en, tgt=a.de, "
            "path=d.tsv; for a path instead of src and tgt set both to null.",
        ),
        (
            "fit --config whole.yaml --data.train.path d.tsv "
            "--data.train.src null --data.train.tgt null --trainer.limit_val_batches 0",
            "d.tsv does not exist.",
        ),
        (
            "test --data.test.x.src a.en",
            "--data.test.x.src alone is not a corpus; give it as a whole: "
            "--data.test.x '{src: FILE, tgt: FILE}' (see: seq2seq test --help)",
        ),
        ("fit --search.sampling.temperature -1", "search.sampling.temperature=-1.0 is out of"),
        ("fit --model.deep 3", "(see: seq2seq fit --help)"),
    ],
)
def test_a_mistake_inside_a_setting_is_told_as_if_it_stood_alone(
    tmp_path: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, train in (
        ("half", "{src: a.en}"),
        ("named", "{large: {src: a.en, tgt: a.de}, small: {src: a.en}}"),
        ("whole", "{src: a.en, tgt: a.de}"),
    ):
        Path(f"{name}.yaml").write_text(f"data:\n  train: {train}\n")
    try:
        status: object = run(*arguments.split())
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line[:6] == "error:"]
    assert message in error


def test_the_suggested_form_of_a_named_corpus_works(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    suggested = ["--data.test.x", "{src: test.src, tgt: test.tgt}"]
    with pytest.raises(SystemExit) as stop:
        run("fit", *settings(), *suggested, "--print_config")
    assert stop.value.code == 0
    assert "src: test.src" in capsys.readouterr().out.split("\n    x:\n")[1].split("weight")[0]


@pytest.mark.parametrize(
    ("room", "file"),
    [
        (3_000, "cache/corpora/[0-9a-f]+"),
        (30_000, r"cache/subwords/[0-9a-f]+\.model"),
        (100_000, r"cache/subwords/[0-9a-f]+\.model"),
        (260_000, r"/.*/run/checkpoints/best-step=4-bleu=[\d.]+\.ckpt"),
    ],
)
def test_a_full_disk_is_one_line_that_names_the_file(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], room: int, file: str
) -> None:
    """No file may be larger than `room` bytes."""
    with room_for(room):
        status = run("fit", *settings())
    said = capsys.readouterr().err
    assert status == 2
    assert re.search(rf"^error: {file}: File too large; what was", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training__betas": "[0.9,1.0]"}, r"training\.betas=\[0\.9, 1\.0\] are not decay rates"),
        ({"seed_everything": -5}, r"seed_everything=-5"),
        ({"trainer__val_check_interval": 0.5}, r"val_check_interval"),
        ({"trainer__strategy": "nonsense"}, r"nonsense"),
        ({"seed_everything": 2**32}, r"seed_everything=4294967296"),
        ({"trainer__log_every_n_steps": 0}, r"trainer\.log_every_n_steps=0"),
        ({"trainer__accumulate_grad_batches": 0}, r"trainer\.accumulate_grad_batches=0"),
        ({"trainer__val_check_interval": 0}, r"trainer\.val_check_interval=0"),
        ({"trainer__val_check_interval": "00:00:00:01"}, r"trainer\.val_check_interval=.* steps"),
        ({"trainer__overfit_batches": 2}, r"trainer\.overfit_batches=2"),
        ({"trainer__precision": "bf16-true"}, r"trainer\.precision=bf16-true .*use bf16-mixed"),
        ({"trainer__precision": "16-true"}, r"trainer\.precision=16-true .*use 16-mixed"),
        ({"trainer__reload_dataloaders_every_n_epochs": 1}, r"reload_dataloaders_every_n_epochs=1"),
        (
            {"training__ema": 0.9, "trainer__limit_val_batches": 0},
            r"training\.ema=0\.9 .*limit_val_batches=0",
        ),
        ({"trainer__gradient_clip_val": -1}, r"trainer\.gradient_clip_val=-1"),
        ({"trainer__gradient_clip_algorithm": "value"}, r"gradient_clip_algorithm=value"),
        ({"run": "train.src"}, r"train\.src"),
        ({"run": ""}, r"run='' is empty"),
        (
            {"data__subwords__joint": "false"},
            r"model\.tie=all .* data\.subwords\.joint=true, or model\.tie=target-output",
        ),
        ({"trainer__limit_train_batches": 0}, r"limit_train_batches=0 leaves nothing"),
        (
            {"trainer__limit_train_batches": 5, "trainer__accumulate_grad_batches": 2},
            r"limit_train_batches=5 .*accumulate_grad_batches=2",
        ),
        (
            {"trainer__limit_train_batches": 0.5, "trainer__accumulate_grad_batches": 2},
            r"limit_train_batches=0\.5 .*accumulate_grad_batches=2",
        ),
        (
            {"trainer__fast_dev_run": "true", "trainer__accumulate_grad_batches": 2},
            r"fast_dev_run=True .*accumulate_grad_batches=2",
        ),
        ({"run": "train.src/x"}, r"train\.src"),
        (
            {"trainer__check_val_every_n_epoch": 1, "trainer__val_check_interval": 300},
            r"val_check_interval=300 counts steps; .*n_epoch=1 it is a share",
        ),
        (
            {"trainer__check_val_every_n_epoch": 0, "trainer__val_check_interval": 1.0},
            r"trainer\.check_val_every_n_epoch=0 is out of range",
        ),
        (
            {"trainer__val_check_interval": 0.25},
            r"trainer\.val_check_interval=0\.25 is a share of an epoch, .*every_n_epoch .*steps",
        ),
        ({"trainer__use_distributed_sampler": "true"}, r"use_distributed_sampler=True"),
        ({"trainer__devices": "5,6"}, r"devices"),
        (
            {
                "trainer__callbacks": "[{class_path: GradientAccumulationScheduler, "
                "init_args: {scheduling: {2: 2}}}]"
            },
            r"callbacks: GradientAccumulationScheduler .*trainer\.accumulate_grad_batches",
        ),
        (
            {"trainer__callbacks": "[{class_path: Timer, init_args: {duration: '00:00:01:00'}}]"},
            r"callbacks: Timer .*trainer\.max_time",
        ),
        (
            {"trainer__callbacks": "[{class_path: LearningRateFinder}]"},
            r"callbacks: LearningRateFinder .*training\.lr",
        ),
        (
            {"trainer__callbacks": "[{class_path: BatchSizeFinder}]"},
            r"callbacks: BatchSizeFinder .*data\.batch_tokens",
        ),
        (
            {
                "trainer__callbacks": "[{class_path: EarlyStopping, "
                "init_args: {monitor: val_bleu, mode: most}}]"
            },
            r"`mode` can be min, max, got most$",
        ),
        (
            {
                "trainer__callbacks": "{class_path: EarlyStopping, "
                "init_args: {monitor: val_bleu, mode: most}}"
            },
            r"`mode` can be min, max, got most$",
        ),
        (
            {
                "trainer__callbacks": "{class_path: EarlyStopping, "
                "init_args: {monitor: val_ppl, check_on_train_epoch_end: true}}"
            },
            r"callbacks: EarlyStopping with check_on_train_epoch_end=True .* leave it out",
        ),
        (
            {
                "trainer__callbacks": "[{class_path: EarlyStopping, "
                "init_args: {monitor: val_bleu, mode: max}}, "
                "{class_path: EarlyStopping, init_args: {monitor: val_loss}}]"
            },
            r"EarlyStopping: monitor=val_loss is unknown; choose one of loss, .*, val_ppl, ",
        ),
        (
            {"trainer__callbacks": "{class_path: ModelCheckpoint, init_args: {monitor: val_acc}}"},
            r"ModelCheckpoint: monitor=val_acc is unknown; choose one of loss, .*, epoch, step\.",
        ),
        (
            {
                "trainer__callbacks": "{class_path: ModelCheckpoint, "
                "init_args: {dirpath: ./run/checkpoints, every_n_train_steps: 2}}"
            },
            r"ModelCheckpoint: dirpath=/.*/run/checkpoints is for .*; choose another folder",
        ),
        (  # where Lightning chooses that folder
            {
                "trainer__logger": "false",
                "trainer__callbacks": "{class_path: ModelCheckpoint}",
            },
            r"ModelCheckpoint: dirpath=run/checkpoints is for .*; choose another folder",
        ),
        ({"trainer__strategy": "fsdp"}, r"trainer\.strategy=fsdp .* use ddp"),
        ({"trainer__strategy": "deepspeed_stage_2"}, r"strategy=deepspeed_stage_2 .* use ddp"),
        ({"trainer__strategy": "{class_path: FSDPStrategy}"}, r"FSDPStrategy .* use ddp"),
        (
            {"trainer__plugins": "HalfPrecision"},
            r"trainer\.plugins: HalfPrecision contradicts .* set trainer\.precision",
        ),
        ({"trainer__barebones": "true"}, r"trainer\.barebones=True leaves out .*; leave it out"),
        ({"trainer__precision": "transformer-engine"}, r"transformer.engine"),
        (
            {
                "trainer__callbacks": "[{class_path: ModelPruning, "
                "init_args: {pruning_fn: l1_unstructured}}]"
            },
            r"callbacks: ModelPruning .*; use a smaller model",
        ),
        (
            {"trainer__callbacks": "[{class_path: EMAWeightAveraging}]"},
            r"callbacks: EMAWeightAveraging .*training\.ema",
        ),
        (
            {
                "trainer__callbacks": "[{class_path: StochasticWeightAveraging, "
                "init_args: {swa_lrs: 0.1}}]"
            },
            r"callbacks: StochasticWeightAveraging .*training\.ema",
        ),
        (
            {
                "trainer__callbacks": "{class_path: EarlyStopping, init_args: {monitor: loss}}",
                "trainer__log_every_n_steps": 5,
            },
            r"EarlyStopping monitors what was not logged .*trainer\.log_every_n_steps",
        ),
        (
            {
                "trainer__callbacks": "[LearningRateMonitor, {class_path: EarlyStopping, "
                "init_args: {monitor: val_loss}}]"
            },
            r"EarlyStopping monitors what was not logged .*; monitor another number",
        ),
        (
            {
                "trainer__callbacks": "{class_path: EarlyStopping, init_args: {monitor: loss}}",
                "trainer__limit_val_batches": 0,
            },
            r"EarlyStopping looks at each validation, .*trainer\.limit_val_batches=0 ",
        ),
        ({"data__test": "{a/b: {src: test.src, tgt: test.tgt}}"}, r"data\.test\.a/b: .* slash"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_one_line(
    corpus: Path,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    said: str,
) -> None:
    assert run("fit", *settings(**changes)) == 2
    error = capsys.readouterr().err
    assert re.search(rf"(?m)^error: .*{said}", error)
    assert "Traceback" not in error


def test_a_number_that_may_be_missing_or_that_a_callback_of_ones_own_logs_may_be_monitored() -> (
    None
):
    class Mine(Callback):
        """Logs what is its own."""

    named = EarlyStopping("mine")
    check_callbacks([Mine(), named], Path("kept"))
    check_callbacks([ModelCheckpoint(), EarlyStopping("mine", strict=False)], Path("kept"))
    with pytest.raises(ConfigError, match="monitor=mine"):
        check_callbacks([named], Path("kept"))


def test_a_library_that_a_logger_or_callback_lacks_is_named_in_one_line(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = RequirementCache("no-such-library")
    monkeypatch.setattr(wandb, "_WANDB_AVAILABLE", lacking)
    monkeypatch.setattr(device_stats_monitor, "_PSUTIL_AVAILABLE", lacking)
    for name, value in (("logger", "WandbLogger"), ("callbacks", "[DeviceStatsMonitor]")):
        assert run("fit", *settings(**{f"trainer__{name}": value})) == 2
        error = capsys.readouterr().err
        assert re.search(rf"(?m)^error: .*{value.strip('[]')}.*'no-such-library'", error)
        assert "Traceback" not in error
        shutil.rmtree("run", ignore_errors=True)


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_two_models_for_one_question_are_refused(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(command, *settings(model_folder="one", ckpt_path="best")) == 2
    assert "model_folder=one and ckpt_path=best are two models" in capsys.readouterr().err


@pytest.mark.parametrize(("positions", "status"), [(6, 0), (5, 2)])
def test_learned_positions_must_hold_the_longest_sentence_and_its_end(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str], positions: int, status: int
) -> None:
    learned = {"model__positions": "learned", "model__max_positions": positions}
    words = {"data__subwords__src_vocab_size": 400, "data__subwords__tgt_vocab_size": 400}
    changes = {**learned, **words, "trainer__max_steps": 2}
    assert run("fit", *settings(**changes)) == status
    if status:
        assert "of 6 subwords" in capsys.readouterr().err


def test_a_worker_that_is_killed_is_one_line(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory has run out

    monkeypatch.setattr(TrainingBatches, "__getitem__", killed)
    assert run("fit", *settings(data__workers=1)) == 2
    said = capsys.readouterr().err
    assert "error: a worker process has died, perhaps because memory ran out; use fewer" in said
    assert "Traceback" not in said


def test_a_home_that_is_not_known_is_one_line(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    assert run("fit", *settings(data__cache="~/cache")) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        "error: data.cache=~/cache is in a home directory, which is not known; set HOME, or choose "
        "another folder.\n"
    )


def test_tasks_of_slurm_that_are_not_counted_by_node_are_one_line(
    corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    for name, value in (("NTASKS", "2"), ("JOB_NAME", "train"), ("PROCID", "0")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert run("fit", *settings()) == 2
    assert "instead of --ntasks set --ntasks-per-node, to as many" in capsys.readouterr().err
