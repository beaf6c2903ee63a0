"""Every setting of every architecture: the other library says what we say, or is told why not."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command_flags import flags_of
from every_option import opened, options, random_model
from full_disk import room_for

from seq2seq.cli import VERBS, main
from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError, ModelFolderError, UserError
from seq2seq.interop import ctranslate2, huggingface, onnx, targets
from seq2seq.interop.agreement import compare
from seq2seq.interop.exported import Description, Exported
from seq2seq.interop.formats import TARGETS
from seq2seq.interop.refusal import refuse_search, unable
from seq2seq.interop.sample import made_up, of_text
from seq2seq.interop.targets import Target, export, find, languages, reach, target
from seq2seq.model_folder import save_model
from seq2seq.text.terms import Terms
from seq2seq.translator import Translator

SHORT = SearchConfig(beam=3, max_length_ratio=1.0, max_length_offset=5)
DESCRIPTION: dict[str, Any] = {
    "target": "ctranslate2",
    "quantization": "int8",
    "max_length": 1024,
    "src_lang": "en",
    "tgt_lang": "de",
}
STORED = {"format_version": 1, **DESCRIPTION}
TYPED: list[Target] = [ctranslate2, huggingface, onnx]
"""For mypy: these modules have what a target has."""

WEIGHTS = {
    "ctranslate2": "model.bin",
    "huggingface": "model.safetensors",
    "onnx": "decoder.onnx",
}

every_target = pytest.mark.parametrize("name", TARGETS)


@pytest.mark.export
@every_target
def test_an_export_without_its_weights_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    exported = export(random_model(), name, tmp_path / "out")
    weights = tmp_path / "out" / WEIGHTS[name]
    for damage in (lambda: weights.write_bytes(b"none"), weights.unlink):
        damage()
        with pytest.raises(UserError, match=re.escape(str(tmp_path / "out"))):
            target(name).engine(exported, "cpu", "fp32")


@pytest.mark.export
@every_target
def test_a_full_disk_is_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is room for every file but those of weights."""
    save_model(random_model(d_model=48, ff_dim=96), tmp_path / "model")
    words = ["export", str(tmp_path / "model"), "--to", name, str(tmp_path / "out")]
    with room_for(30_000):
        status = main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert status == 2
    assert re.match("error: .*File too large", line)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("limit", [2, 5, 100, None])
def test_examples_are_made_up_as_long_as_the_model_takes(limit: int | None) -> None:
    model = random_model()
    about = Description(**DESCRIPTION | {"max_length": limit})
    found = made_up(50, Exported(Path(), about, model.src_subwords, model.tgt_subwords))
    longest = max(max(len(each.src), len(each.tgt)) for each in found)
    assert longest == min(20, (limit or 100) - 1)


def test_examples_are_the_first_lines_that_fit() -> None:
    model = random_model()
    about = Description(**DESCRIPTION | {"max_length": 4})
    exported = Exported(Path(), about, model.src_subwords, model.tgt_subwords)
    lines = ["", "a", "a long line that does not fit", "b", "c"]
    found = of_text(lines, [line.upper() for line in lines], 2, exported)
    assert [(each.number, each.reference) for each in found] == [(2, "A"), (4, "B")]
    assert found[0].src == model.src_subwords.encode("a")


@pytest.mark.export
@every_target
@pytest.mark.parametrize(
    "settings", list(options()), ids=lambda each: ",".join(map(str, each.values()))
)
def test_an_architecture_is_equal_there_or_refused_with_its_reason(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    saved = random_model(**settings)
    if obstacles := target(name).obstacles(saved.network.config):
        with pytest.raises(ConfigError) as refusal:
            export(saved, name, tmp_path / "out")
        assert all(reason in str(refusal.value) for reason in obstacles)
        assert any(
            f"model.{setting}={value}:" in str(refusal.value) for setting, value in settings.items()
        )
        assert not (tmp_path / "out").exists()
        return
    other, examples = opened(saved, name, tmp_path / "out")
    found = compare(NativeEngine(saved.network), other, examples, SHORT)
    assert found.forced <= 1e-4
    assert not found.greedy


@pytest.mark.export
@every_target
@pytest.mark.parametrize(
    "changed", ["encoder.0.feed_forward.outer.weight", "decoder.1.cross_attention.query.bias"]
)
def test_one_changed_number_is_seen(name: str, changed: str, tmp_path: Path) -> None:
    saved = random_model()
    other, examples = opened(saved, name, tmp_path)
    parameter = saved.network.get_parameter(changed)
    with torch.no_grad():
        parameter.flatten()[3] += 0.1
    found = compare(NativeEngine(saved.network), other, examples, SHORT)
    assert not found.equal


def test_what_a_target_cannot_do_is_told_all_at_once(tmp_path: Path) -> None:
    saved = random_model(encoder_layers=0)
    with pytest.raises(ConfigError) as refusal:
        export(saved, "ctranslate2", tmp_path / "out", "int3")
    for reason in ("model.encoder_layers=0:", "quantize=int3:", "int8"):
        assert reason in str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_a_setting_that_nobody_has_looked_at_is_refused_unless_it_asks_for_nothing() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Newer(ModelConfig):
        rope: bool = False

    assert unable(Newer(), ctranslate2.ABILITIES, "model.") == []
    told = unable(Newer(rope=True), ctranslate2.ABILITIES, "model.")
    assert told == ["model.rope=True: not known there; use False."]
    assert unable(ModelConfig(), {}, "model.") == []


def test_what_a_sentence_asks_for_in_vain_is_named_once_and_not_shown() -> None:
    texts = random_model().tgt_subwords
    batch = [Request([5], constraint=Terms(["kare"], texts)) for _ in range(9)]
    use = "terms: not known there; use engine=native or onnx"
    said = f"^engine=other cannot search like this: {use}.$"
    with pytest.raises(ConfigError, match=said):
        refuse_search("other", [*batch, Request([5])], SearchConfig())


def test_one_line_tells_what_an_architecture_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    class Picky:
        """A target without post-norm."""

        @staticmethod
        def obstacles(config: ModelConfig) -> list[str]:
            return ["model.norm=post: use pre."] if config.norm == "post" else []

    monkeypatch.setitem(sys.modules, "picky", Picky)
    monkeypatch.setattr(targets, "TARGETS", {"ctranslate2": TARGETS["ctranslate2"], "x": "picky"})
    assert reach(ModelConfig()) == "can be exported to ctranslate2, x"
    post = ModelConfig(norm="post")
    assert reach(post) == "can be exported to ctranslate2; not to x (model.norm=post: use pre.)"
    flat = reach(ModelConfig(norm="post", encoder_layers=0))
    assert flat.startswith("can be exported to no other library; not to ctranslate2 (model.enc")


def test_without_the_library_the_extra_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(random_model(), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    wanted = r"pip install 'seq2seq-lightning\[ctranslate2\]'"
    with pytest.raises(ConfigError, match=wanted):
        export(random_model(), "ctranslate2", tmp_path / "out")
    with pytest.raises(ConfigError, match=wanted):
        Translator.load(tmp_path / "model", engine="ctranslate2")


def test_an_engine_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    save_model(random_model(), tmp_path)
    with pytest.raises(ConfigError, match=r"engine=abacus is unknown; .* native, ctranslate2"):
        Translator.load(tmp_path, engine="abacus")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """As far as our own files go."""
    saved, about = random_model(), Description(**DESCRIPTION)
    (tmp_path / "out").mkdir()
    Exported(tmp_path / "out", about, saved.src_subwords, saved.tgt_subwords).write()
    return tmp_path / "out"


def test_a_model_folder_and_an_export_of_it_tell_the_same_languages(exported: Path) -> None:
    save_model(dataclasses.replace(random_model(), src_lang="en", tgt_lang="de"), exported / "ours")
    assert languages(exported) == languages(exported / "ours") == ("en", "de")


def test_a_folder_that_was_exported_is_no_model_folder(exported: Path) -> None:
    (exported / "config.json").write_text("{}")
    with pytest.raises(ModelFolderError, match=f"{exported} was exported to another library"):
        Translator.load(exported)


def test_the_commands_that_take_an_export_are_named(exported: Path) -> None:
    takers = " and ".join(verb for verb in VERBS if "--engine" in flags_of(verb))
    with pytest.raises(ModelFolderError, match=rf"is needed\. With --engine, {takers} take it\.$"):
        Translator.load(exported)


def test_a_folder_of_another_library_says_of_which(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {**TARGETS, "x": "picky"})
    with pytest.raises(ModelFolderError, match="was exported to ctranslate2, not to x; use --eng"):
        find(exported, "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format_version": 2}, "has format_version=2; this seq2seq reads 1"),
        ({"colour": "red"}, "is damaged: .*colour"),
        ({"target": None}, "is damaged: target is missing"),
        ({"max_length": 2.5}, "is damaged: max_length is 2.5"),
        ({"src_lang": 7}, "is damaged: src_lang is 7"),
    ],
)
def test_a_description_that_cannot_be_read_is_named(
    exported: Path, change: dict[str, Any], said: str
) -> None:
    path = exported / "seq2seq.json"
    assert json.loads(path.read_text()) == STORED
    fields = {name: value for name, value in (STORED | change).items() if value is not None}
    path.write_text(json.dumps(fields))
    with pytest.raises(ModelFolderError, match=f"{path} {said}"):
        Exported.read(exported)
