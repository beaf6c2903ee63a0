"""What holds for every format that models are read from."""

import hashlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from test_ctranslate2_source import write_binary, write_tiny
from test_fairseq_source import write_fairseq
from test_joeynmt_source import write_joeynmt

from seq2seq.cli import main
from seq2seq.errors import ModelFolderError
from seq2seq.interop import sources
from seq2seq.interop.formats import SOURCES
from seq2seq.interop.vocabulary import SpecialIds, pieces_of, vocabulary
from seq2seq.model_facts import load_provenance

WITHOUT_LIBRARIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "ctranslate2": (write_tiny, "model.bin"),
    "joeynmt": (write_joeynmt, "best.ckpt"),
    "fairseq": (write_fairseq, "checkpoint_best.pt"),
}
"""What writes a model, and its file of weights; Marian's are made by transformers."""
assert {"huggingface", *WITHOUT_LIBRARIES} == {*SOURCES}


@pytest.mark.parametrize("name", WITHOUT_LIBRARIES)
@pytest.mark.parametrize("card", ["---\nlicense: cc-by-4.0\n---\n", "---\ndate: 2026-13-41\n---\n"])
def test_the_origin_is_told_by_its_files_and_the_licence_on_its_card(
    name: str, card: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, weights = WITHOUT_LIBRARIES[name]
    (tmp_path / "theirs").mkdir()
    write(tmp_path / "theirs")
    (tmp_path / "theirs/README.md").write_text(card)
    monkeypatch.chdir(tmp_path)
    file = Path("theirs") / weights
    for source in ["theirs", *([str(file)] if name == "fairseq" else [])]:
        ours = f"ours-{len(source)}"
        assert main(["convert", source, ours]) == 0
        facts = load_provenance(ours)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        files = [{"path": str(file), "sha256": digest}]
        assert facts["parent"] == {"path": source, "format": name, "files": files}
        assert facts.get("license") == ("cc-by-4.0" if "license" in card else None)
        assert facts["commands"] == [f"seq2seq convert {source} {ours}"]


def saved(content: object) -> bytes:
    """By torch."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


CUT_OFF = saved({"model": torch.arange(9_999)})[:9_999]


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", b"<html>", b"\x00\x01", pickle.dumps({}, 2), pickle.dumps({}, 4), CUT_OFF],
    ids=lambda content: str(content[:20]),
)
def test_what_torch_did_not_save_cannot_be_read_and_its_advice_is_not_repeated(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "any.pt"
    path.write_bytes(content)
    assert main(["convert", str(path), str(tmp_path / "out")]) == 2
    reason = "torch finds no plain weights and values in it; it is damaged, or was saved in another"
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path} cannot be read: {reason} way (TorchScript, ")
    assert error.count("\n") == 1
    assert "weights_only" not in error


def test_layers_are_counted_whatever_their_numbers(tmp_path: Path) -> None:
    _, variables = write_tiny(tmp_path)
    name = "layer_99999999999/ffn/linear_0/weight"
    write_binary(tmp_path / "model.bin", variables | {f"encoder/{name}": torch.ones(10, 12)})
    with pytest.raises(ModelFolderError, match=r"encoder\.1\.\S+ is missing"):
        sources.read(tmp_path)
    _, state = write_fairseq(tmp_path / "fairseq")
    state["model"]["encoder.layers.99999999999.fc1.weight"] = torch.ones(10, 12)
    torch.save(state, tmp_path / "fairseq/checkpoint_best.pt")
    with pytest.raises(ModelFolderError, match=r"encoder\.layers\.1\.\S+ is missing"):
        sources.read(tmp_path / "fairseq")


@pytest.mark.parametrize("name", ["config.json", "config.yaml"])
def test_a_damaged_file_of_another_format_is_no_obstacle(name: str, tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    (tmp_path / name).write_text("{")
    provenance = sources.read(tmp_path).provenance
    assert provenance is not None
    assert provenance["parent"]["format"] == "fairseq"


def test_a_weight_that_is_not_finite_is_named_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, state = write_fairseq(tmp_path)
    name = "decoder.layers.1.fc1.weight"
    state["model"][name].view(-1)[-1] = torch.nan
    torch.save(state, tmp_path / "checkpoint_best.pt")
    assert main(["convert", str(tmp_path), str(tmp_path / "out")]) == 2
    assert f"{name} holds NaN or infinity." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


SPARSE = "is not an array of numbers" if torch.__version__ < "2.14" else "finds no plain weights"
"""From torch 2.14 on a sparse matrix is not even read."""


def quantised(tensor: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.filterwarnings("ignore:Sparse invariant")  # of torch 2.11
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.to_sparse(), SPARSE),
        (quantised, "is not an array of numbers"),
        (lambda t: torch.zeros(1).expand(len(t), 10**12), "is not an array of numbers"),
        (lambda t: torch.empty_like(t, device="meta"), "is not an array of numbers"),
        (lambda t: t[0], r"is \(12,\), expected a matrix"),
        (lambda t: torch.tensor(1.0), r"is \(\), expected a matrix"),
        (lambda t: t[:-1], "do not fit a vocabulary of"),
        (lambda t: torch.cat([t, t]), "do not fit a vocabulary of"),
    ],
)
def test_a_checkpoint_takes_no_more_memory_than_its_file_and_an_odd_matrix_is_named(
    change: Callable[[torch.Tensor], torch.Tensor], said: str, tmp_path: Path
) -> None:
    for name, key, output in (
        ("joeynmt", "model_state", "decoder.output_layer.weight"),
        ("fairseq", "model", "decoder.output_projection.weight"),
    ):
        write, weights = WITHOUT_LIBRARIES[name]
        write(tmp_path / name)
        path = tmp_path / name / weights
        state = torch.load(path, weights_only=False)
        state[key][output] = change(state[key][output])
        torch.save(state, path)
        with pytest.raises(ModelFolderError, match=said):
            sources.read(tmp_path / name)


def test_what_nests_too_deeply_is_damaged(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / "shared_vocabulary.json").write_text("[" * 100_000)
    with pytest.raises(ModelFolderError, match=r"shared_vocabulary\.json is damaged"):
        sources.read(tmp_path)
    write_joeynmt(tmp_path / "joeynmt")
    (tmp_path / "joeynmt/config.yaml").write_text("[" * 100_000)
    with pytest.raises(ModelFolderError, match=r"config\.yaml is damaged"):
        sources.read(tmp_path / "joeynmt", "joeynmt")


def test_subwords_that_sentencepiece_refuses_are_damaged(tmp_path: Path) -> None:
    saved, _ = write_tiny(tmp_path)
    file = tmp_path / "any.model"
    whole = saved.src_subwords.serialized
    # The table of normalisation, which begins with its size.
    place = whole.index(b"\x0a\x04nfkc\x12")
    file.write_bytes(whole[: place + 10] + b"\xff" * 4 + whole[place + 14 :])
    with pytest.raises(ModelFolderError, match=r"any\.model is damaged: not a SentencePiece model"):
        sources.read(tmp_path)


@pytest.mark.parametrize("entry", ["", "a\0b", "\ud83d", "<s>"], ids=ascii)
def test_an_entry_that_can_be_no_piece_keeps_its_row(entry: str, tmp_path: Path) -> None:
    """Where lines of a vocabulary end inside of pieces, as at U+2028, they leave nothing."""
    write_joeynmt(tmp_path)
    model = (tmp_path / "src.model").read_bytes()
    texts = pieces_of(model, tmp_path)
    entries = dict(enumerate(["<unk>", "</s>", texts[0], entry, *texts[1:]]))
    found = vocabulary(Path(), entries, SpecialIds(unk=0, eos=1), texts)
    subwords = found.subwords(model)
    assert found.rows[found.pieces.index("<no piece 3>")] == 3
    assert subwords.pieces(range(len(subwords))) == found.pieces
    free = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert subwords.pieces(subwords.encode("kare no")) == free.encode("kare no", out_type=str)
