"""What users deploy: it must load as it was saved, hold no code, and say what is wrong with it."""

import dataclasses
import json
import math
import os
import random
import re
import resource
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2seq.config import AttentionForm, Dropout, ModelConfig, SubwordConfig
from seq2seq.errors import ModelFolderError
from seq2seq.model_facts import load_facts
from seq2seq.model_folder import (
    WEIGHTS,
    SavedModel,
    find_model,
    holds,
    load_model,
    load_subwords,
    save_model,
)
from seq2seq.nn import weights
from seq2seq.nn.transformer import Transformer
from seq2seq.text.subwords import Subwords, train_subwords

FILES = {"config.json", "weights.safetensors", "subwords.src.model", "subwords.tgt.model"}
FACTS = {"provenance.json", "README.md"}
"""What a model does without."""
WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(n).choices(WORDS, k=1 + n % 7)) for n in range(90)]


@cache
def subwords(size: int) -> Subwords:
    return Subwords(train_subwords(TEXTS, SubwordConfig(byte_fallback=False), size))


def random_model(src_size: int = 30, tgt_size: int = 30, **settings: Any) -> SavedModel:
    """A tiny network with no parameter left at its start value."""
    small: dict[str, Any] = {"d_model": 8, "heads": 2, "ff_dim": 12}
    config = ModelConfig(
        src_vocab_size=src_size,
        tgt_vocab_size=tgt_size,
        **{**small, "encoder_layers": 1, "decoder_layers": 2, **settings},
    )
    network = Transformer(config).eval()
    generator = torch.Generator().manual_seed(len(settings))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return SavedModel(network, subwords(src_size), subwords(tgt_size), "en", "de")


def logits(network: Transformer) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    src, tgt_in = (torch.randint(4, 30, (3, n), generator=generator) for n in (5, 6))
    with torch.no_grad():
        return network.project(network(src, torch.tensor([5, 2, 3]), tgt_in))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder in good order."""
    save_model(random_model(), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder: Path, **changes: Any) -> None:
    """Change settings of the network in config.json; None takes a setting away."""
    path = folder / "config.json"
    description = json.loads(path.read_text())
    fields = {**description["model"], **changes}
    description["model"] = {name: value for name, value in fields.items() if value is not None}
    path.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("tgt_size", "settings"),
    [
        (34, {"tie": "none"}),
        (30, {"tie": "source-target"}),
        (34, {"tie": "target-output"}),
        (30, {"tie": "all"}),
        (34, {"tie": "none", "positions": "learned", "max_positions": 9, "output_bias": True}),
        (30, {"norm": "post", "activation": "swiglu", "bias": False, "start_token": "pad"}),
        (30, {"head_dim": 3, "scale_embeddings": False, "encoder_layers": 0}),
    ],
    ids=lambda value: ",".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_a_loaded_model_gives_bit_identical_logits(
    tmp_path: Path, tgt_size: int, settings: dict[str, Any]
) -> None:
    saved = random_model(tgt_size=tgt_size, **settings)
    save_model(saved, tmp_path)
    loaded = load_model(tmp_path)
    assert logits(loaded.network).equal(logits(saved.network))
    assert loaded.network.config == saved.network.config
    assert (loaded.src_lang, loaded.tgt_lang) == ("en", "de")
    assert loaded.src_subwords.serialized == saved.src_subwords.serialized
    assert loaded.tgt_subwords.serialized == saved.tgt_subwords.serialized
    sources, targets = load_subwords(tmp_path)
    assert (len(sources), len(targets)) == (30, tgt_size)


def test_saving_what_was_loaded_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    save_model(load_model(folder), tmp_path / "again")
    for name in FILES | FACTS:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_weights_are_stored_in_fp32_whatever_they_were_trained_in(
    folder: Path, tmp_path: Path
) -> None:
    model = load_model(folder)
    model.network.double()
    save_model(model, tmp_path / "copy")
    assert (tmp_path / "copy" / WEIGHTS).read_bytes() == (folder / WEIGHTS).read_bytes()
    assert holds(folder, model)


def test_a_place_that_cannot_be_written_is_named(folder: Path) -> None:
    place = folder / "config.json" / "model"
    with pytest.raises(ModelFolderError, match=rf"{re.escape(str(place))} cannot be written"):
        save_model(load_model(folder), place)


def test_a_folder_is_files_of_json_tensors_subwords_and_a_card(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES | FACTS
    assert all(path.is_file() for path in folder.iterdir())
    description = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert description.keys() == {"format_version", "src_lang", "tgt_lang", "model"}
    for name in ("subwords.src.model", "subwords.tgt.model"):
        assert len(Subwords.load(folder / name)) == 30
    # Every byte of the weights file is its header or a tensor named there: no place for code.
    raw = (folder / "weights.safetensors").read_bytes()
    (header_size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + header_size])
    header.pop("__metadata__", None)
    assert header.keys() == dict(random_model().network.named_parameters()).keys()
    spans = sorted(entry["data_offsets"] for entry in header.values())
    assert [0, *(end for _, end in spans)] == [*(start for start, _ in spans), spans[-1][1]]
    assert spans[-1][1] == len(raw) - 8 - header_size
    assert {entry["dtype"] for entry in header.values()} == {"F32"}


def test_the_network_is_described_completely_and_nothing_of_its_training(folder: Path) -> None:
    stored = json.loads((folder / "config.json").read_text())["model"]
    assert stored == dataclasses.asdict(random_model().network.config)


@pytest.mark.parametrize("form", ["folded", "fast", "auto"])
def test_the_form_of_attention_and_dropout_are_chosen_when_loading_and_never_stored(
    folder: Path, tmp_path: Path, form: AttentionForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: dict[str, Any] = {}

    def watched(config: ModelConfig, **options: Any) -> Transformer:
        chosen.update(options)
        return Transformer(config, **options)

    rates = Dropout(residual=0.4)
    with monkeypatch.context() as patch:
        patch.setattr(weights, "Transformer", watched)
        loaded = load_model(folder, attention=form, rates=rates)
    assert chosen == {"attention": form, "rates": rates}
    assert not loaded.network.training
    torch.testing.assert_close(logits(loaded.network), logits(load_model(folder).network))
    save_model(loaded, tmp_path / "again")
    stored, again = (path / "config.json" for path in (folder, tmp_path / "again"))
    assert stored.read_text() == again.read_text()
    assert form not in stored.read_text()


def test_a_model_folder_is_found_in_its_run_folder(folder: Path) -> None:
    assert find_model(folder) == find_model(str(folder)) == find_model(folder.parent) == folder
    assert logits(load_model(folder.parent).network).equal(logits(random_model().network))


def test_a_folder_that_is_a_model_itself_is_taken_before_one_inside_it(folder: Path) -> None:
    save_model(random_model(), folder / "model")
    assert find_model(folder) == folder


def test_a_place_without_a_model_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelFolderError, match=rf"^{tmp_path} has no config\.json; expected"):
        load_model(tmp_path)
    with pytest.raises(ModelFolderError, match=rf"^{tmp_path}/none does not exist; expected"):
        load_model(tmp_path / "none")


def test_a_file_in_place_of_a_folder_is_not_said_to_be_missing(folder: Path) -> None:
    weights = folder / "weights.safetensors"
    with pytest.raises(ModelFolderError, match=rf"^{weights} .*expected a model folder") as caught:
        load_model(weights)
    assert "does not exist" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=rf"^{folder}.*{name}"):
        load_model(folder)


@pytest.mark.parametrize("content", [None, "{", "[]", '{"format_version": 9}'])
def test_a_model_loads_whatever_became_of_what_is_known_of_it(
    folder: Path, content: str | None
) -> None:
    for name in FACTS:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(content)
    assert logits(load_model(folder).network).equal(logits(random_model().network))


@pytest.mark.parametrize("name", sorted(FILES - {"config.json"}))
def test_a_folder_in_place_of_a_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(ModelFolderError, match=rf"^{folder / name}"):
        load_model(folder)


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, -1], ids=str)
@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_was_cut_off_is_named(folder: Path, name: str, kept: float) -> None:
    raw = (folder / name).read_bytes()
    # The last byte of config.json is a line end, which nobody needs.
    end = int(kept * len(raw)) if kept == 0.5 else int(kept) - (name == "config.json")
    (folder / name).write_bytes(raw[: max(end, 0) if kept >= 0 else end])
    with pytest.raises(ModelFolderError, match=rf"^{folder / name} is damaged"):
        load_model(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a name may not be given")
def test_weights_in_a_folder_that_is_not_utf8_are_not_called_damaged(folder: Path) -> None:
    there = folder.rename(folder.with_name("m\udce4rz"))
    with pytest.raises(ModelFolderError, match=rf"^{there}/weights.safetensors is not UTF-8"):
        load_model(there)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is not limited so")
def test_weights_for_which_memory_is_short_are_not_called_damaged(folder: Path) -> None:
    size, path = 2**33, folder / "weights.safetensors"
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(file.tell() + size)  # a hole, which takes no room on the disk
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size // 2, before[1]))
    try:
        with pytest.raises(ModelFolderError, match=rf"^{path} does not fit into memory\.$"):
            load_model(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_configuration_that_is_not_text_is_named(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFolderError, match=rf"^{folder}/config\.json is damaged"):
        load_model(folder)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_named_with_the_one_that_can_be_read(
    folder: Path, version: object
) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": version}))
    expected = rf"^{path} has format_version={version}; this seq2seq reads 1\."
    with pytest.raises(ModelFolderError, match=expected):
        load_model(folder)


@pytest.mark.parametrize("text", ["[]", "3", '"model"', "null", "{}"])
def test_json_that_is_no_description_is_named(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelFolderError, match=rf"^{folder}/config\.json "):
        load_model(folder)


@pytest.mark.parametrize("part", ["src_lang", "tgt_lang", "model"])
def test_a_part_that_the_description_lacks_is_named(folder: Path, part: str) -> None:
    path = folder / "config.json"
    description = json.loads(path.read_text())
    del description[part]
    path.write_text(json.dumps(description))
    with pytest.raises(ModelFolderError, match=rf"^{path} is damaged: {part} is missing\."):
        load_model(folder)


def test_a_setting_that_this_version_does_not_know_is_named(folder: Path) -> None:
    edit_config(folder, rotary=True)
    with pytest.raises(ModelFolderError, match=rf"^{folder}/config\.json .*does not know.*rotary"):
        load_model(folder)


def test_a_setting_that_an_older_version_did_not_know_has_its_default(folder: Path) -> None:
    edit_config(folder, output_bias=None, start_token=None)
    assert logits(load_model(folder).network).equal(logits(random_model().network))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("heads", 3),
        ("d_model", -8),
        ("d_model", "8"),
        ("d_model", 8.0),
        ("ff_dim", [12]),
        ("encoder_layers", 1.0),
        ("norm", "middle"),
        ("bias", "false"),
        ("head_dim", 2.5),
        ("max_positions", 1),
    ],
    ids=str,
)
def test_a_setting_with_an_impossible_value_is_named(
    folder: Path, setting: str, value: object
) -> None:
    edit_config(folder, **{setting: value})
    with pytest.raises(ModelFolderError, match=rf"^{folder}/config\.json.*{setting}"):
        load_model(folder)


def test_a_description_without_the_size_of_a_vocabulary_is_an_error_of_the_folder(
    folder: Path,
) -> None:
    edit_config(folder, src_vocab_size=None, tgt_vocab_size=None)
    with pytest.raises(ModelFolderError, match=rf"^{folder}/config\.json.*_vocab_size"):
        load_model(folder)


def test_weights_of_another_shape_are_named_with_both_shapes(folder: Path) -> None:
    edit_config(folder, ff_dim=16)
    expected = r"weights\.safetensors: the weights do not fit the settings: (\S+) is \(12.*\(16"
    with pytest.raises(ModelFolderError, match=rf"^{folder}/{expected}") as caught:
        load_model(folder)
    found = re.search(expected, str(caught.value))
    assert found
    assert found[1] in dict(random_model().network.named_parameters())


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_named(folder: Path, wild: float) -> None:
    found = load_file(folder / "weights.safetensors")
    name = max(found)
    found[name].view(-1)[-1] = wild
    save_file(found, folder / "weights.safetensors")
    expected = rf"weights\.safetensors is damaged: {re.escape(name)} holds NaN or infinity\.$"
    with pytest.raises(ModelFolderError, match=rf"^{folder}/{expected}"):
        load_model(folder)


@pytest.mark.parametrize("layers", [1, 3])
def test_weights_that_are_too_many_or_missing_are_named(folder: Path, layers: int) -> None:
    edit_config(folder, decoder_layers=layers)
    what = {1: r"decoder\.1\.\S+ is extra", 3: r"decoder\.2\.\S+ is missing"}[layers]
    expected = rf"weights\.safetensors: the weights do not fit the settings: {what}"
    with pytest.raises(ModelFolderError, match=rf"^{folder}/{expected}"):
        load_model(folder)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encoder_layers": 10**12}, r"encoder\.\d+\.\S+ is missing"),
        ({"ff_dim": 10**12}, r"is \(\d+, \d+\), expected \(1000000000000, "),
        # Torch has an error of its own for each.
        ({"ff_dim": 2**62}, "no network is so large"),
        ({"ff_dim": 10**30}, "no network is so large"),
        ({"d_model": 10**400}, "no network is so large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_settings_of_any_size_take_no_memory(
    folder: Path, settings: dict[str, int], said: str
) -> None:
    edit_config(folder, **settings)
    with pytest.raises(ModelFolderError, match=said):
        load_model(folder)


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_subwords_of_another_size_are_named_with_both_sizes(folder: Path, side: str) -> None:
    path = folder / f"subwords.{side}.model"
    path.write_bytes(subwords(34).serialized)
    with pytest.raises(ModelFolderError, match=rf"^{path} has 34 subwords but .* says 30\."):
        load_model(folder)


def test_saving_over_a_folder_leaves_only_the_new_model(folder: Path) -> None:
    new = random_model(src_size=34, tie="none", decoder_layers=1)
    save_model(dataclasses.replace(new, src_lang="fr"), folder)
    assert {path.name for path in folder.iterdir()} == FILES | FACTS
    loaded = load_model(folder)
    assert logits(loaded.network).equal(logits(new.network))
    assert loaded.src_lang == "fr"
    assert len(loaded.src_subwords) == 34


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("written", range(6))
def test_a_save_that_is_interrupted_leaves_nothing_that_looks_like_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, over: bool
) -> None:
    """Nor where there was one: weights of one and subwords of another would be worse."""
    if over:
        save_model(random_model(), tmp_path)
    there = set(tmp_path.iterdir())
    real: Callable[[Path, Path], None] = os.replace
    done: list[Path] = []

    def failing(source: Path, target: Path) -> None:
        if len(done) == written:
            raise KeyboardInterrupt
        done.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        save_model(random_model(), tmp_path)
    kept = {path for path in there if path.name not in ("config.json", "README.md")}
    assert set(tmp_path.iterdir()) == kept | set(done)
    with pytest.raises(ModelFolderError, match=r"config\.json"):
        load_model(tmp_path)


def test_whoever_may_read_one_file_may_read_them_all(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_model(random_model(), tmp_path / "model")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert set(modes.values()) == {0o644}, modes


def test_weights_that_may_not_be_read_are_not_said_to_be_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refusing(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "weights.safetensors":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    for read in (load_model, load_facts):
        with pytest.raises(ModelFolderError, match=r"weights\.safetensors may not be read"):
            read(folder)
