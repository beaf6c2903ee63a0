"""A CTranslate2 folder becomes a model of ours; CTranslate2 itself is the oracle."""

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_option import SMALL, TEXTS, options, random_model
from imported import live_like_ours, same_weights
from test_huggingface_source import SRC_TEXTS, write_opus
from torch import Tensor

from seq2seq.config import PAD_ID, ModelConfig
from seq2seq.data.batch import make_batch
from seq2seq.engine import forced_log_probs
from seq2seq.errors import ModelFolderError
from seq2seq.interop import huggingface_source, sources
from seq2seq.interop.ctranslate2 import obstacles, specification
from seq2seq.interop.ctranslate2_binary import TYPES, read_binary
from seq2seq.interop.ctranslate2_names import parts, their_parameter
from seq2seq.interop.ctranslate2_source import read
from seq2seq.interop.targets import export
from seq2seq.model_folder import SavedModel
from seq2seq.nn.embedding import sinusoids

EXPORTABLE = [each for each in options() if not obstacles(ModelConfig(**SMALL | each))]


@pytest.mark.export
@pytest.mark.parametrize("settings", EXPORTABLE, ids=str)
def test_what_we_exported_is_read_bit_identical(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = random_model(**settings)
    export(saved, "ctranslate2", tmp_path)
    found = read(tmp_path)
    assert found.network.config == saved.network.config
    assert same_weights(found.network, saved.network)
    assert found.fingerprints == saved.fingerprints
    assert (found.src_lang, found.tgt_lang) == ("en", "de")


def scores(folder: Path, src: list[list[str]], tgt: list[list[str]]) -> list[list[float]]:
    """CTranslate2's log-probabilities of each piece of the targets and their ends."""
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    return [list(each.log_probs) for each in translator.score_batch(src, tgt)]


def assert_scores_alike(folder: Path, saved: SavedModel, ends: tuple[str, ...] = ()) -> None:
    """Of the same subwords; ends: what their sources need at the end."""
    src = saved.src_subwords.encode_all(SRC_TEXTS[:9])
    tgt = saved.tgt_subwords.encode_all(TEXTS[9:18])
    expected = scores(
        folder,
        [[*saved.src_subwords.pieces(each), *ends] for each in src],
        [saved.tgt_subwords.pieces(each) for each in tgt],
    )
    batch = make_batch(src, tgt, saved.network.config.start_id)
    with torch.no_grad():
        rows = forced_log_probs(saved.network, batch)
    for row, length, each in zip(rows, batch.tgt_lens, expected, strict=True):
        assert row[:length].tolist() == pytest.approx(each, abs=1e-4)


@pytest.mark.export
@pytest.mark.parametrize(
    "kind", ["int8", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32"]
)
@pytest.mark.parametrize(
    "settings", [{"tie": "all"}, {"tie": "none", "output_bias": True}], ids=str
)
def test_weights_of_every_type_are_read_as_it_reads_them(
    kind: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    saved = random_model(d_model=24, heads=3, positions="learned", max_positions=40, **settings)
    write_folder(tmp_path, saved, nothing, kind)
    found = read(tmp_path)
    assert found.network.config == saved.network.config
    assert same_weights(found.network, saved.network) == (kind == "float32")
    assert_scores_alike(tmp_path, found)


@pytest.mark.export
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sinusoids_that_were_rounded_are_exact_again(kind: str, tmp_path: Path) -> None:
    write_folder(tmp_path, random_model(), nothing, kind)
    assert read(tmp_path).network.config.positions == "sinusoidal"


def nothing(spec: Any, config: Any) -> None:
    """Changes nothing."""


def write_folder(
    folder: Path, saved: SavedModel, change: Callable[[Any, Any], None], kind: str | None = None
) -> None:
    """As a converter would, with changes to what we export."""
    spec = specification(saved.network)
    src, tgt = (each.pieces(range(len(each))) for each in (saved.src_subwords, saved.tgt_subwords))
    spec.register_source_vocabulary(src)
    spec.register_target_vocabulary(tgt)
    spec.config.add_source_eos = True
    change(spec, spec.config)
    spec.validate()
    spec.optimize(kind)
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    (folder / "source.spm").write_bytes(saved.src_subwords.serialized)
    (folder / "target.spm").write_bytes(saved.tgt_subwords.serialized)


def start(token: str) -> Callable[[Any, Any], None]:
    def change(spec: Any, config: Any) -> None:
        config.decoder_start_token = token

    return change


def zero_start(spec: Any, config: Any) -> None:
    spec.decoder.start_from_zero_embedding = True
    config.decoder_start_token = "</s>"


def own_positions(spec: Any, config: Any) -> None:
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = "__optional"


def longer_source_table(spec: Any, config: Any) -> None:
    spec.encoder.position_encodings.encodings = torch.randn(70, 12)
    spec.decoder.position_encodings.encodings = torch.randn(40, 12)


def plain_scale(spec: Any, config: Any) -> None:
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = 1.0


def usual_scale(spec: Any, config: Any) -> None:
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = 12**0.5


def one_bias_less(spec: Any, config: Any) -> None:
    spec.decoder.layer[1].attention.linear[1].bias = "__optional"


CHANGES: dict[Callable[[Any, Any], None], dict[str, Any]] = {
    start("<pad>"): {"start_token": "pad"},
    start("</s>"): {"start_token": "bos", "output_bias": True},
    start("<unk>"): {"start_token": "bos", "output_bias": True},
    zero_start: {"start_token": "pad"},
    own_positions: {"positions": "learned", "max_positions": 500},
    longer_source_table: {"positions": "learned", "max_positions": 40},
    plain_scale: {"scale_embeddings": False},
    usual_scale: {"scale_embeddings": True},
    one_bias_less: {"bias": True},
}


@pytest.mark.export
@pytest.mark.parametrize(("change", "expected"), CHANGES.items())
@pytest.mark.parametrize("tie", ["all", "none"])
def test_what_other_converters_write_scores_as_there(
    change: Callable[[Any, Any], None], expected: dict[str, Any], tie: str, tmp_path: Path
) -> None:
    saved = random_model(tie=tie)
    write_folder(tmp_path, saved, change)
    found = read(tmp_path)
    config = found.network.config
    assert replace(config, **expected) == config
    assert_scores_alike(tmp_path, found)


@pytest.mark.export
def test_a_start_from_zeros_ignores_a_padding_row_that_is_not_zero(tmp_path: Path) -> None:
    saved = random_model(tie="none")
    with torch.no_grad():
        saved.network.tgt_embedding.weight[PAD_ID] = 3.0
    write_folder(tmp_path, saved, zero_start)
    found = read(tmp_path)
    assert not found.network.tgt_embedding.weight[PAD_ID].any()
    assert "<no piece 0>" in found.tgt_subwords.pieces(range(len(found.tgt_subwords)))
    assert_scores_alike(tmp_path, found)


@pytest.mark.export
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses.")
def test_opus_converted_by_its_own_converter_is_what_is_read_from_hugging_face(
    tmp_path: Path,
) -> None:
    from ctranslate2.converters import TransformersConverter

    opus, folder = tmp_path / "opus", tmp_path / "converted"
    write_opus(opus)
    TransformersConverter(str(opus)).convert(str(folder))
    for name in ("source.spm", "target.spm"):
        shutil.copy(opus / name, folder)
    found, direct = read(folder), huggingface_source.read(opus)
    assert_scores_alike(folder, found, ends=("</s>",))
    assert found.fingerprints == direct.fingerprints
    assert found.network.config == direct.network.config
    theirs = dict(direct.network.named_parameters())
    for name, parameter in found.network.named_parameters():
        first = PAD_ID + 1 if name == "output.bias" else 0  # the converter drops this row
        assert parameter[first:].equal(theirs[name][first:])


def write_binary(path: Path, variables: Mapping[str, Any], aliases: Mapping[str, str] = {}) -> None:
    """The format written down again: tensors, or single numbers as int8."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value.encode()) + 1) + value.encode() + b"\0"

    parts = [struct.pack("<I", 6), text("TransformerSpec"), struct.pack("<II", 7, len(variables))]
    for name, value in variables.items():
        tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.int8)
        data = bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())
        sizes = struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape)
        parts += [text(name), sizes, struct.pack("<BI", TYPES.index(tensor.dtype), len(data)), data]
    parts += [struct.pack("<I", len(aliases))]
    parts += [text(name) for pair in aliases.items() for name in pair]
    path.write_bytes(b"".join(parts))


VALUES = {
    "a/weight": torch.tensor([[2, -4, 0], [8, 127, -127]], dtype=torch.int8),
    "a/weight_scale": torch.tensor([4.0, 0.5]),
    "b/weight": torch.tensor([[3, -6]], dtype=torch.int16),
    "b/weight_scale": torch.tensor(1.5),
    "half": torch.tensor([0.1, -2.5], dtype=torch.float16),
    "brain": torch.tensor([0.1, 2.0**127], dtype=torch.bfloat16),
    "number": torch.tensor(-7, dtype=torch.int16),
    "places": torch.tensor([3, -1], dtype=torch.int32),
    "flag": 1,
}
READ = {
    "a/weight": torch.tensor([[0.5, -1, 0], [16, 254, -254]]),
    "b/weight": torch.tensor([[2.0, -4.0]]),
    "half": torch.tensor([0.0999755859375, -2.5]),
    "brain": torch.tensor([0.10009765625, 2.0**127]),
    "number": torch.tensor(-7),
    "places": torch.tensor([3.0, -1.0]),
    "flag": torch.tensor(1),
}


def test_the_binary_format_is_read_as_it_is_described(tmp_path: Path) -> None:
    write_binary(tmp_path / "model.bin", VALUES, {"same": "a/weight"})
    specification, revision, found = read_binary(tmp_path / "model.bin")
    assert (specification, revision) == ("TransformerSpec", 7)
    for name, expected in {**READ, "same": READ["a/weight"]}.items():
        typed = bool(expected.dim())
        torch.testing.assert_close(found[name], expected, check_dtype=typed, rtol=1e-3, atol=0)
    assert found.keys() == {*READ, "same"}


def test_a_damaged_binary_is_named_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_binary(path, VALUES, {"same": "a/weight"})
    whole = path.read_bytes()
    for end in (0, 3, 5, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelFolderError, match=r"model\.bin is damaged"):
            read_binary(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFolderError, match="there is more behind"):
        read_binary(path)
    path.write_bytes(struct.pack("<I", 4) + whole[4:])
    with pytest.raises(ModelFolderError, match=r"binary version 4; this seq2seq reads 6"):
        read_binary(path)
    for changed, said in (
        ({"a/weight": VALUES["a/weight"]}, "a/weight_scale"),
        (VALUES | {"a/weight_scale": torch.ones(3)}, r"size of tensor"),
        (VALUES | {"number": torch.tensor(float("nan"))}, "number is nan"),
    ):
        write_binary(path, changed)
        with pytest.raises(ModelFolderError, match=f"damaged: .*{said}"):
            read_binary(path)


def write_tiny(folder: Path, **settings: Any) -> tuple[SavedModel, dict[str, Any]]:
    """A folder as a converter would write it, without CTranslate2; gives its variables, too."""
    saved = random_model(**settings)
    variables: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        variables |= {f"{side}/num_heads": 2, f"{side}/pre_norm": 1, f"{side}/activation": 0}
        variables[f"{side}/position_encodings/encodings"] = sinusoids(20, 12)
    for part, modules in parts(saved.network.config).items():
        for name, _ in saved.network.get_submodule(modules[0]).named_parameters():
            rows = [saved.network.get_submodule(each).get_parameter(name) for each in modules]
            stacked = torch.cat([each.detach() for each in rows])
            variables[f"{part}/{their_parameter(part, name)}"] = stacked
    write_binary(folder / "model.bin", variables)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    pieces = saved.src_subwords.pieces(range(len(saved.src_subwords)))
    (folder / "shared_vocabulary.json").write_text(json.dumps(pieces))
    (folder / "any.model").write_bytes(saved.src_subwords.serialized)
    return saved, variables


CONFIG = {
    "add_source_eos": True,
    "add_source_bos": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "decoder_start_token": "<s>",
    "layer_norm_epsilon": None,
}


def test_a_folder_is_read_without_ctranslate2(tmp_path: Path) -> None:
    saved, _ = write_tiny(tmp_path)
    found = sources.read(tmp_path)
    assert same_weights(found.network, saved.network)
    assert found.network.config == saved.network.config
    assert found.fingerprints == saved.fingerprints
    assert (found.src_lang, found.tgt_lang) == ("", "")
    vocabulary = tmp_path / "shared_vocabulary.json"
    lines = "".join(f"{token}\n" for token in json.loads(vocabulary.read_text()))
    vocabulary.unlink()
    (tmp_path / "shared_vocabulary.txt").write_text(lines, encoding="utf-8")
    assert read(tmp_path).fingerprints == saved.fingerprints


ODD: dict[str, Any] = {
    "decoder/layernorm_embedding/gamma": torch.ones(12),
    "decoder/layernorm_embedding/beta": torch.ones(12),
    "encoder/embeddings_1/weight": torch.ones(30, 12),
    "decoder/layer_0/self_attention/rotary_dim": 0,
    "decoder/layer_1/self_attention/rotary_dim": 0,
    "decoder/layer_1/attention/q_norm/gamma": torch.ones(12),
    "decoder/alibi": 1,
    "encoder/num_heads": 3,
    "decoder/activation": 1,
    "encoder/activation": -7,
    "decoder/pre_norm": torch.ones(3),
    "encoder/scale_embeddings": torch.tensor(2.0),
    "decoder/layer_0/ffn/linear_1/bias": torch.ones(3, 4),
}


def test_everything_that_ours_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    _, variables = write_tiny(tmp_path)
    del variables["encoder/layer_norm/gamma"], variables["decoder/layer_0/ffn/layer_norm/beta"]
    write_binary(tmp_path / "model.bin", variables | ODD)
    changes = {
        "add_source_bos": True,
        "add_source_eos": False,
        "decoder_start_token": None,
        "layer_norm_epsilon": 0.01,
    }
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changes))
    with pytest.raises(ModelFolderError, match="cannot be represented") as refusal:
        read(tmp_path)
    for said in (
        "decoder/layernorm_embedding/gamma: ours has none.",
        "encoder/embeddings_1: ours has none.",
        "decoder/layer/self_attention/rotary_dim=0: ours has none.",
        "decoder/layer/attention/q_norm/gamma: ours has none.",
        "decoder/alibi=1: expected 0.",
        "heads: 3 of the encoder and 2 of the decoder must be equal.",
        "decoder/activation=GELUTanh: expected RELU or GELU or SWISH or SWISH with a gate.",
        "encoder/activation=-7: expected RELU or GELU or SWISH or SWISH with a gate.",
        "decoder/pre_norm: ours has none.",
        "encoder/scale_embeddings=2: expected 1 or 3.4641.",
        "decoder/layer/ffn/layer_norm is RMSNorm: expected LayerNorm.",
        "encoder: pre-norm and no last LayerNorm: expected the other.",
        "decoder/layer/ffn/linear_1/bias is (3, 4).",
        "add_source_bos=true",
        "add_source_eos=false",
        "decoder_start_token=null",
        "layer_norm_epsilon=0.01: expected at most 1e-05.",
    ):
        assert str(refusal.value).count(said) == 1, said


def test_missing_and_misshapen_weights_are_named(tmp_path: Path) -> None:
    _, variables = write_tiny(tmp_path)
    name = "decoder/layer_1/attention/linear_1/weight"
    for changes, said in (
        ({"decoder/projection/weight": torch.ones(4)}, "decoder/projection/weight is missing"),
        (
            {name: torch.ones(1, 12)},
            r"cross_attention\.key\.weight is \(1, 12\), expected \(12, 12\)",
        ),
        ({name: torch.ones(30, 12)}, r"cross_attention\.key\.weight is \(15, 12\)"),
    ):
        write_binary(tmp_path / "model.bin", variables | changes)
        with pytest.raises(ModelFolderError, match=said):
            read(tmp_path)


def test_another_kind_of_model_is_named(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    data = (tmp_path / "model.bin").read_bytes().replace(b"TransformerSpec", b"WhisperSpec1234")
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(ModelFolderError, match="WhisperSpec1234 7: expected TransformerSpec 5, 6"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("config.json", r"config\.json"),
        ("shared_vocabulary.json", "neither shared_vocabulary.json nor source_vocabulary.json"),
        ("any.model", r"it has none; put them there as source\.spm and target\.spm"),
    ],
)
def test_a_missing_or_damaged_file_is_named(name: str, said: str, tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / name).write_bytes(b"{\x01")
    with pytest.raises(ModelFolderError, match=f"{name} is damaged"):
        read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelFolderError, match=said):
        read(tmp_path)


def test_a_vocabulary_that_does_not_fit_is_named(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    path = tmp_path / "shared_vocabulary.json"
    tokens = json.loads(path.read_text())
    for changed, said in (
        ([*tokens, "more"], "31 tokens, but the embeddings have 30 rows"),
        (["" if token == "<unk>" else token for token in tokens], "the vocabulary lacks <unk>"),
        (["odd" if token == "</s>" else token for token in tokens], "the vocabulary lacks </s>"),
        ([tokens[4] if token == tokens[5] else token for token in tokens], "twice"),
        ([1, 2], "not a list of tokens"),
    ):
        path.write_text(json.dumps(changed))
        with pytest.raises(ModelFolderError, match=said):
            read(tmp_path)


@pytest.mark.export
@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_an_imported_model_lives_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "theirs"
    write_folder(folder, random_model(), start("</s>"), "int8")
    live_like_ours(folder, tmp_path, TEXTS[:20], TEXTS[20:40], monkeypatch, capsys)
