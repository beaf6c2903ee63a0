"""The ONNX graphs, run by hand as docs/interop.md says; every setting is in test_targets.py."""

import sys
from pathlib import Path
from typing import Any

import pytest
from every_option import random_model

from seq2seq.config import EOS_ID, Diversity, Sampling, SearchConfig
from seq2seq.decoding.request import Request
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.interop import targets
from seq2seq.interop.onnx import export
from seq2seq.interop.targets import load
from seq2seq.model_folder import save_model
from seq2seq.text.terms import Terms

pytestmark = pytest.mark.export

BATCH = [Request([5, 9, 4], [7]), Request([8, 8]), Request([20, 6, 11, 4], [10, 12])]


@pytest.mark.parametrize("start_token", ["bos", "pad"])
def test_a_loop_of_a_few_lines_gives_our_greedy_translations(
    start_token: str, tmp_path: Path
) -> None:
    import numpy
    import onnxruntime

    saved = random_model(start_token=start_token)
    export(saved, tmp_path)
    encoder, decoder = (
        onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])
        for name in ("encoder.onnx", "decoder.onnx")
    )
    src, src_lens = numpy.array([[5, 9, 4, EOS_ID], [8, 8, EOS_ID, 0]]), numpy.array([4, 3])
    (memory,) = encoder.run(None, {"src": src, "src_lens": src_lens})
    start_id = int(decoder.get_modelmeta().custom_metadata_map["start_id"])
    tokens, cache, said = numpy.full(2, start_id), memory[:, :, :, :, :0], []
    for _ in range(7):
        inputs = {"tokens": tokens, "cache": cache, "memory": memory, "src_lens": src_lens}
        logits, cache = decoder.run(None, inputs)
        logits[:, :3] = -numpy.inf
        tokens = logits.argmax(1)
        said.append(tokens)
    config = SearchConfig(beam=1, max_length_ratio=0, max_length_offset=8)
    ours = NativeEngine(saved.network).search([Request([5, 9, 4]), Request([8, 8])], config)
    for row, (best,) in enumerate(ours):
        found = [int(step[row]) for step in said]
        assert found[: len(best.tokens)] == best.tokens


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"length_penalty": "gnmt"},
        {"alpha": 0.0, "beam": 1},
        {"min_target_length": 4, "no_repeat_ngram": 1, "repetition_penalty": 1.3},
        {"beam": 4, "n_best": 4, "diversity": Diversity(groups=2, strength=0.4)},
        {"n_best": 3, "sampling": Sampling(temperature=3.0, seed=2)},
    ],
    ids=str,
)
def test_every_search_is_ours(wish: dict[str, Any], tmp_path: Path) -> None:
    saved = random_model(norm="post")
    save_model(saved, tmp_path)
    config = SearchConfig(**{"beam": 3, "max_length_offset": 4, **wish})
    theirs = load(tmp_path, "onnx", "cpu", "fp32").search(BATCH, config)
    for mine, found in zip(NativeEngine(saved.network).search(BATCH, config), theirs, strict=True):
        assert [each.tokens for each in found] == [each.tokens for each in mine]
        assert [each.score for each in found] == pytest.approx([each.score for each in mine])


def test_terms_are_held_as_in_ours_and_coverage_is_refused(tmp_path: Path) -> None:
    saved = random_model()
    save_model(saved, tmp_path)
    theirs = load(tmp_path, "onnx", "cpu", "fp32")
    terms = Terms(["kare", "mino"], saved.tgt_subwords)
    batch = [*BATCH, Request([5, 9, 4], constraint=terms)]
    config = SearchConfig(beam=3, max_length_offset=4)
    ours, found = (each.search(batch, config) for each in (NativeEngine(saved.network), theirs))
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in e] for e in ours]
    said = saved.tgt_subwords.decode(found[-1][0].tokens)
    assert said.count("kare") == said.count("mino") == 1
    with pytest.raises(ConfigError, match=r"search\.coverage_penalty=0\.3: not known there"):
        theirs.search(batch, SearchConfig(coverage_penalty=0.3))


def test_a_folder_with_one_graph_twice_is_named(tmp_path: Path) -> None:
    exported = targets.export(random_model(), "onnx", tmp_path / "new").folder
    (exported / "decoder.onnx").write_bytes((exported / "encoder.onnx").read_bytes())
    with pytest.raises(ModelFolderError, match=f"{exported} cannot be used: 'start_id'"):
        load(exported, "onnx", "cpu", "fp32")


def test_a_graph_that_is_too_large_for_a_file_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.protobuf.message import EncodeError

    def refusing(*_: object) -> None:
        raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr("onnx.save", refusing)
    with pytest.raises(ConfigError, match=r"encoder\.onnx cannot hold more than 2 GiB"):
        export(random_model(), tmp_path)


def test_what_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(random_model(), tmp_path)
    with pytest.raises(ConfigError, match="precision=bf16 is unknown; choose one of fp32"):
        load(tmp_path, "onnx", "cpu", "bf16")
    with pytest.raises(ConfigError, match="device=tpu cannot be used"):
        load(tmp_path, "onnx", "tpu", "fp32")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'seq2seq-lightning\[onnx\]'"):
        load(tmp_path, "onnx", "cpu", "fp32")
