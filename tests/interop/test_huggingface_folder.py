"""A Hugging Face folder, used as Hugging Face's users do; every setting is in test_targets.py."""

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_option import TEXTS, random_model
from safetensors.torch import load_file, save_file

from seq2seq.config import EOS_ID, PAD_ID, UNK_ID, Sampling, SearchConfig, SubwordConfig
from seq2seq.decoding.request import Request
from seq2seq.engine import NEVER_SAID, NativeEngine
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.interop import targets
from seq2seq.interop.huggingface import export, obstacles
from seq2seq.interop.targets import load
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.translator import Translator

os.environ["HF_HUB_OFFLINE"] = "1"
pytestmark = [
    pytest.mark.export,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

TRICKY = [
    "kareno tosula",
    "  two   spaces  ",
    "Ünïcödé \uff46\uff55\uff4c\uff4c ﬁ ½",
    "\u4e2d\u6587 \U0001f600",
    "",
    "a<s>b",
    "x >>de<< y",
]
CLASSES = {"pre": "PegasusForConditionalGeneration", "post": "MarianMTModel"}
ENDING = {"positions": "learned", "max_positions": 30}
"""For a made-up model, that would say the same for ever."""


def with_bytes(src_size: int, tgt_size: int) -> tuple[Subwords, Subwords]:
    """Subwords in which nothing is unknown."""
    src, tgt = (
        Subwords(train_subwords(TEXTS, SubwordConfig(), size)) for size in (src_size, tgt_size)
    )
    return src, tgt


def speller(**settings: Any) -> SavedModel:
    """A model of such subwords."""
    sizes = {"src_vocab_size": 300, "tgt_vocab_size": 300, **settings}
    src, tgt = with_bytes(sizes["src_vocab_size"], sizes["tgt_vocab_size"])
    return replace(random_model(**sizes), src_subwords=src, tgt_subwords=tgt)


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(("norm", "name"), CLASSES.items())
def test_generate_without_settings_gives_our_greedy_translations(
    norm: str, name: str, tmp_path: Path
) -> None:
    from transformers import AutoModelForSeq2SeqLM

    saved = random_model(norm=norm, output_bias=True)
    with torch.no_grad():
        saved.network.output.bias[NEVER_SAID] += 9.0
    export(saved, tmp_path)
    theirs, tokens = AutoModelForSeq2SeqLM.from_pretrained(tmp_path), tokenizer(tmp_path)
    assert type(theirs).__name__ == name
    batch = tokens(TEXTS[:9], return_tensors="pt", padding=True)
    said = tokens.batch_decode(theirs.generate(**batch, max_length=13), skip_special_tokens=True)
    short = SearchConfig(beam=1, max_length_ratio=0, max_length_offset=12)
    assert said == translator(saved, short).translate(TEXTS[:9])
    assert all(said)


def translator(saved: SavedModel, config: SearchConfig) -> Translator:
    engine = NativeEngine(saved.network)
    return Translator(engine, saved.src_subwords, saved.tgt_subwords, config)


@pytest.mark.parametrize("sizes", [(300, 300), (300, 296)], ids=str)
def test_the_tokenizer_gives_our_ids_and_our_text(sizes: tuple[int, int], tmp_path: Path) -> None:
    tie = "all" if sizes[0] == sizes[1] else "none"
    saved = speller(norm="post", src_vocab_size=sizes[0], tgt_vocab_size=sizes[1], tie=tie)
    export(saved, tmp_path)
    theirs = tokenizer(tmp_path)
    for text in TRICKY:
        ids, targets = saved.src_subwords.encode(text), saved.tgt_subwords.encode(text)
        assert theirs(text).input_ids == [*ids, EOS_ID]
        assert theirs(text_target=text).input_ids == [*targets, EOS_ID]
        said = theirs.decode([2, *targets, EOS_ID, PAD_ID], skip_special_tokens=True)
        assert said == saved.tgt_subwords.decode(targets)


def test_an_unknown_character_has_our_id_too(tmp_path: Path) -> None:
    saved = random_model()
    export(saved, tmp_path)
    ids = saved.src_subwords.encode("kare 今")
    assert UNK_ID in ids
    assert tokenizer(tmp_path)("kare 今").input_ids == [*ids, EOS_ID]


def test_the_example_of_the_model_card_prints_our_greedy_translation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = speller(**ENDING)
    targets.export(saved, "huggingface", tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(card.split("```python\n")[1].split("```")[0], {})
    found = translator(saved, SearchConfig(beam=1, max_length_offset=30)).translate(["A sentence."])
    assert capsys.readouterr().out == f"{found}\n"
    assert "- en\n- de\n" in card
    assert "PegasusForConditionalGeneration" in card
    assert "more than 30 subwords" in card
    assert tokenizer(tmp_path).model_max_length == 30


def test_code_in_a_folder_is_not_run_whatever_standard_input_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers would ask, and read a line of the text to translate as the answer."""
    folder = targets.export(random_model(), "huggingface", tmp_path / "new").folder
    settings = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "mine.Mine", "AutoModelForSeq2SeqLM": "mine.Mine"}
    settings |= {"model_type": "mine", "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    with pytest.raises(ModelFolderError, match=f"{folder} cannot be used: "):
        load(folder, "huggingface", "cpu", "fp32")
    assert not (tmp_path / "ran").exists()
    assert sys.stdin.read() == "y\ny\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"num_beams": 3, "do_sample": True, "repetition_penalty": 9.0, "max_new_tokens": 2},
        {"suppress_tokens": [5, 6, 7], "forced_bos_token_id": 8, "eos_token_id": 9},
        None,
    ],
    ids=str,
)
def test_a_search_is_decided_by_us_and_not_by_a_file_of_the_folder(
    settings: dict[str, object] | None, tmp_path: Path
) -> None:
    saved = random_model(output_bias=True)
    with torch.no_grad():
        saved.network.output.bias[NEVER_SAID] += 9.0
    folder = targets.export(saved, "huggingface", tmp_path / "new").folder
    path = folder / "generation_config.json"
    batch = [Request([5, 9, 4]), Request([8, 8])]
    configs = [
        SearchConfig(beam=1, max_length_offset=5),
        SearchConfig(beam=3, n_best=2, max_length_offset=5),
        SearchConfig(beam=1, max_length_offset=5, sampling=Sampling(seed=3)),
    ]
    untouched = load(folder, "huggingface", "cpu", "fp32")
    expected = [untouched.search(batch, config) for config in configs]
    if settings is None:
        path.unlink()
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    theirs = load(folder, "huggingface", "cpu", "fp32")
    assert [theirs.search(batch, config) for config in configs] == expected


@pytest.mark.parametrize("norm", CLASSES)
def test_weights_that_are_missing_are_not_made_up(tmp_path: Path, norm: str) -> None:
    saved = random_model(norm=norm)
    folder = targets.export(saved, "huggingface", tmp_path / "new").folder
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "decoder.layers.0.fc1.weight" in name)
    del weights[name]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelFolderError, match=f"{folder} cannot be used: its weights .*fc1"):
        load(folder, "huggingface", "cpu", "fp32")


def test_what_it_cannot_represent_is_known_without_the_library() -> None:
    config = random_model(activation="swiglu", head_dim=5).network.config
    found = "\n".join(obstacles(config))
    for reason in ("model.head_dim=5:", "model.activation=swiglu:"):
        assert reason in found
    (reason,) = obstacles(replace(random_model().network.config, norm="post", positions="learned"))
    assert reason.startswith("model.positions=learned:")


def test_the_engine_keeps_to_prefixes_limits_and_n_best(tmp_path: Path) -> None:
    saved = random_model()
    save_model(saved, tmp_path)
    theirs = load(tmp_path, "huggingface", "cpu", "fp32")
    ours = NativeEngine(saved.network)
    batch = [Request([5, 9, 4], [7]), Request([8, 8]), Request([20, 6, 11, 4], [10, 12])]
    config = SearchConfig(beam=4, n_best=3, max_length_ratio=0.5, max_length_offset=4)
    for mine, found in zip(ours.search(batch, config), theirs.search(batch, config), strict=True):
        assert [each.tokens for each in found] == [each.tokens for each in mine]
        assert [each.score for each in found] == pytest.approx([each.score for each in mine])
    with pytest.raises(ConfigError, match=r"search\.length_penalty=gnmt: not known there"):
        theirs.search(batch, SearchConfig(length_penalty="gnmt"))
