"""A checkpoint of fairseq becomes a model of ours. fairseq cannot be installed beside this Python:
torch's own Transformer with fairseq's positions is the oracle, and transformers' M2M100."""

import argparse
import io
import math
import os
import random
import zipfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from every_option import TEXTS
from imported import live_like_ours, same_weights, write
from torch import Tensor, nn

from seq2seq.data.batch import make_batch
from seq2seq.engine import NativeEngine
from seq2seq.errors import ModelFolderError, SentenceError
from seq2seq.interop import sources
from seq2seq.interop.fairseq_source import read
from seq2seq.model_folder import SavedModel
from seq2seq.translator import Translator

SRC_TEXTS = TEXTS
TGT_TEXTS = [text.replace("ka", "gü").replace("no", "zß") + "." for text in TEXTS]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PAD, EOS, UNK = 1, 2, 3
D, H, F_DIM, ENCODER, DECODER = 12, 3, 10, 1, 2


def write_text_files(folder: Path, joint: bool) -> dict[str, list[str]]:
    """SentencePiece models and dictionaries, of which the ids are given."""
    folder.mkdir(exist_ok=True)
    texts = {"en": SRC_TEXTS, "de": TGT_TEXTS}
    found = {}
    for language, name in (("en", "source.spm"), ("de", "target.spm")):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(SRC_TEXTS + TGT_TEXTS if joint else texts[language]),
            model_writer=model,
            vocab_size=45,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / name).write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces = [processor.IdToPiece(i) for i in range(3, processor.GetPieceSize())]
        kept = random.Random(1).sample(pieces, len(pieces) - 3)
        symbols = [*kept, *(f"madeupword{n:04}" for n in range(2))]
        write(folder / f"dict.{language}.txt", [f"{each} {n}" for n, each in enumerate(symbols)])
        found[language] = SPECIAL + symbols
    if joint:
        (folder / "target.spm").unlink()
        (folder / "source.spm").rename(folder / "spm.model")
    return found


def settings(**changes: Any) -> argparse.Namespace:
    """Like `args` of a checkpoint."""
    both = {"attention_heads": H, "normalize_before": True, "learned_pos": False, "layers": 7}
    found: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        found |= {f"{side}_{name}": value for name, value in both.items()}
    found |= {"arch": "transformer_iwslt_de_en", "task": "translation", "activation_fn": "relu"}
    found |= {"source_lang": "en", "target_lang": "de", "max_source_positions": 60}
    found |= {"max_target_positions": 50, "share_all_embeddings": False, "bpe": None}
    found |= {"encoder_layers_to_keep": "", "adaptive_softmax_cutoff": None, "dropout": 0.3}
    return argparse.Namespace(**found | changes)


class Fairseq(nn.Module):
    """torch's Transformer, embedded as fairseq does it."""

    def __init__(
        self, src: int, tgt: int, *, pre: bool, activation: str, learned: bool, scale: bool
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "dim_feedforward": F_DIM,
            "dropout": 0.0,
            "activation": activation,
            "batch_first": True,
            "norm_first": pre,
        }
        self.embed = nn.ModuleList([nn.Embedding(src, D), nn.Embedding(tgt, D)])
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(D, H, **options) for _ in range(ENCODER)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(D, H, **options) for _ in range(DECODER)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(D) if pre else nn.Identity() for _ in range(2))
        self.output = nn.Linear(D, tgt, bias=False)
        self.scale = math.sqrt(D) if scale else 1.0
        sizes = (62, 52) if learned else (0, 0)
        self.tables = nn.ParameterList([torch.randn(size, D) for size in sizes])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        self.eval()

    def embedded(self, side: int, ids: Tensor) -> Tensor:
        """ids (N,) -> (N, D); the first position is 2."""
        place = torch.arange(2, 2 + len(ids))
        if len(self.tables[side]):
            positions = self.tables[side][place]
        else:
            rates = 10000 ** (-torch.arange(D // 2) / (D // 2 - 1))
            angles = place[:, None] * rates
            positions = torch.cat([angles.sin(), angles.cos()], 1)
        embedded: Tensor = self.embed[side](ids) * self.scale + positions
        return embedded

    def log_probs(self, src: Sequence[int], tgt: Sequence[int]) -> Tensor:
        """ids with their special tokens -> (T, V)"""
        memory = self.embedded(0, torch.tensor(src))
        for layer in self.encoder:
            memory = layer(memory[None])[0]
        memory = self.norms[0](memory)
        x = self.embedded(1, torch.tensor(tgt))
        hidden = torch.ones(len(tgt), len(tgt)).triu(1).bool()
        for layer in self.decoder:
            x = layer(x[None], memory[None], tgt_mask=hidden)[0]
        logits: Tensor = self.output(self.norms[1](x))
        return logits.log_softmax(-1)

    def named(self) -> dict[str, Tensor]:
        """All weights under fairseq's names."""
        found: dict[str, Any] = {"encoder.embed_tokens.weight": self.embed[0].weight}
        found["decoder.embed_tokens.weight"] = self.embed[1].weight
        found["decoder.output_projection.weight"] = self.output.weight
        for side, layers, table in zip(
            ("encoder", "decoder"), (self.encoder, self.decoder), self.tables, strict=True
        ):
            found[f"{side}.version"] = torch.tensor([3.0])
            if len(table):
                found[f"{side}.embed_positions.weight"] = table
            else:
                found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
            for name, parameter in self.norms[int(side == "decoder")].named_parameters():
                found[f"{side}.layer_norm.{name}"] = parameter
            for number, layer in enumerate(layers):
                found |= self.layer(f"{side}.layers.{number}", layer, side == "decoder")
        return {name: tensor.detach() for name, tensor in found.items()}

    def layer(self, scope: str, layer: Any, decoder: bool) -> dict[str, Tensor]:
        attentions = {"self_attn": layer.self_attn}
        modules = {"fc1": layer.linear1, "fc2": layer.linear2}
        modules["self_attn_layer_norm"] = layer.norm1
        modules["final_layer_norm"] = layer.norm3 if decoder else layer.norm2
        if decoder:
            attentions["encoder_attn"] = layer.multihead_attn
            modules["encoder_attn_layer_norm"] = layer.norm2
        found = {}
        for name, attention in attentions.items():
            modules[f"{name}.out_proj"] = attention.out_proj
            for kind in ("weight", "bias"):
                rows = getattr(attention, f"in_proj_{kind}").chunk(3)
                for letter, each in zip("qkv", rows, strict=True):
                    found[f"{scope}.{name}.{letter}_proj.{kind}"] = each
        for name, module in modules.items():
            for kind, parameter in module.named_parameters():
                found[f"{scope}.{name}.{kind}"] = parameter
        return found


def write_fairseq(
    folder: Path,
    *,
    joint: bool = False,
    tie: str = "none",
    activation: str = "relu",
    **changes: Any,
) -> tuple[Fairseq, dict[str, Any]]:
    """A checkpoint with what is beside it; gives the network and what is in the checkpoint."""
    symbols = write_text_files(folder, joint)
    args = settings(activation_fn=activation, **changes)
    torch.manual_seed(1)
    network = Fairseq(
        len(symbols["en"]),
        len(symbols["de"]),
        pre=args.encoder_normalize_before,
        activation=activation,
        learned=args.encoder_learned_pos,
        scale=not getattr(args, "no_scale_embedding", False),
    )
    if tie in ("source-target", "all"):
        network.embed[1].weight = network.embed[0].weight
    if tie in ("target-output", "all"):
        network.output.weight = network.embed[1].weight  # type: ignore[assignment]
    state = {"args": args, "model": network.named(), "extra_state": {"epoch": 3}}
    torch.save(state, folder / "checkpoint_best.pt")
    return network, state


def ids(folder: Path, side: str, text: str) -> list[int]:
    """fairseq's, of the pieces of a text."""
    language, name = {"src": ("en", "source.spm"), "tgt": ("de", "target.spm")}[side]
    path = folder / name if (folder / name).is_file() else folder / "spm.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    lines = (folder / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines()
    symbols = SPECIAL + [line.rsplit(" ", 1)[0] for line in lines]
    return [
        symbols.index(each) if each in symbols else UNK
        for each in processor.encode(text, out_type=str)
    ]


def assert_alike(saved: SavedModel, folder: Path, theirs: Any) -> None:
    """Log-probabilities of each entry of their dictionary, which is in ours under one id."""
    rows = saved.network.config.tgt_vocab_size
    pieces = saved.tgt_subwords.pieces(range(rows))
    lines = (folder / "dict.de.txt").read_text(encoding="utf-8").splitlines()
    symbols = ["<no piece 0>", *SPECIAL[1:], *(line.rsplit(" ", 1)[0] for line in lines)]
    columns = [pieces.index(symbol) for symbol in symbols]
    others = sorted(set(range(rows)) - set(columns))
    assert "<s>" in [pieces[i] for i in others]
    assert len(others) > 1
    with torch.no_grad():
        for src, tgt in zip(SRC_TEXTS[:9], TGT_TEXTS[:9], strict=True):
            encoded = saved.src_subwords.encode(src), saved.tgt_subwords.encode(tgt)
            batch = make_batch([encoded[0]], [encoded[1]], saved.network.config.start_id)
            hidden = saved.network(batch.src, batch.src_lens, batch.tgt_in)
            ours = saved.network.project(hidden)[0].log_softmax(-1)
            expected = theirs([*ids(folder, "src", src), EOS], [EOS, *ids(folder, "tgt", tgt)])
            torch.testing.assert_close(ours[:, columns], expected, rtol=1e-4, atol=1e-4)
            assert ours[:, others].max() < -1000


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("pre", [True, False])
def test_log_probabilities_are_those_of_its_network(
    pre: bool, activation: str, tmp_path: Path
) -> None:
    norms: dict[str, Any] = {f"{side}_normalize_before": pre for side in ("encoder", "decoder")}
    theirs, _ = write_fairseq(tmp_path, activation=activation, **norms)
    saved = sources.read(tmp_path)
    assert (saved.src_lang, saved.tgt_lang) == ("en", "de")
    assert saved.network.config.max_length == 60
    assert_alike(saved, tmp_path, theirs.log_probs)
    with pytest.raises(SentenceError, match="positions end at 60"):
        translator(saved).translate(["kare" * 40])


def translator(saved: SavedModel) -> Translator:
    """Refuses what is too long."""
    engine = NativeEngine(saved.network)
    return Translator(engine, saved.src_subwords, saved.tgt_subwords, too_long="error")


TIES = [(False, "none"), (False, "target-output"), (True, "source-target"), (True, "all")]


@pytest.mark.parametrize(("joint", "tie"), TIES)
def test_shared_matrices_and_dictionaries_are_shared(joint: bool, tie: str, tmp_path: Path) -> None:
    theirs, state = write_fairseq(tmp_path, joint=joint, tie=tie, no_scale_embedding=True)
    saved = read(tmp_path / "checkpoint_best.pt")
    assert saved.network.config.tie == tie
    assert not saved.network.config.scale_embeddings
    assert_alike(saved, tmp_path, theirs.log_probs)
    if tie in ("target-output", "all"):  # as older ones are stored
        del state["model"]["decoder.output_projection.weight"]
        state["args"].share_decoder_input_output_embed = True
        torch.save(state, tmp_path / "checkpoint_best.pt")
        assert read(tmp_path).network.output.weight.equal(saved.network.output.weight)


def test_learned_positions_end_with_the_shorter_table(tmp_path: Path) -> None:
    learned: dict[str, Any] = {f"{side}_learned_pos": True for side in ("encoder", "decoder")}
    theirs, _ = write_fairseq(tmp_path, **learned)
    saved = read(tmp_path)
    assert saved.network.config.max_length == 50
    assert_alike(saved, tmp_path, theirs.log_probs)


def test_a_table_of_sinusoids_is_no_longer_than_anybody_needs(tmp_path: Path) -> None:
    write_fairseq(tmp_path, max_target_positions=10**12)
    assert read(tmp_path).network.config.max_length == 16_384


def test_newer_settings_are_read_from_dictionaries_in_dictionaries(tmp_path: Path) -> None:
    _, state = write_fairseq(tmp_path)
    expected = read(tmp_path)
    flat = vars(state.pop("args"))
    task = {"_name": flat.pop("task")}
    task |= {name: flat.pop(name) for name in ("source_lang", "target_lang")}
    model: dict[str, Any] = {"_name": flat.pop("arch"), "encoder": {}, "decoder": {}}
    for name, value in flat.items():
        side, _, rest = name.partition("_")
        if side in ("encoder", "decoder"):
            model[side][rest] = value
        else:
            model[name] = value
    for config in (
        {"model": model, "task": task, "bpe": {"_name": "sentencepiece"}, "tokenizer": None},
        {"model": argparse.Namespace(**flat), "task": argparse.Namespace(**task)},
    ):
        torch.save(state | {"args": None, "cfg": config}, tmp_path / "checkpoint_best.pt")
        found = read(tmp_path)
        assert same_weights(found.network, expected.network)
        assert found.network.config == expected.network.config
        assert (found.src_lang, found.tgt_lang) == ("en", "de")


@pytest.mark.export
def test_m2m100_under_fairseqs_names_gives_its_log_probabilities(tmp_path: Path) -> None:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    symbols = write_text_files(tmp_path, joint=True)
    torch.manual_seed(1)
    config = M2M100Config(
        vocab_size=len(symbols["en"]),
        d_model=D,
        encoder_layers=ENCODER,
        decoder_layers=DECODER,
        encoder_attention_heads=H,
        decoder_attention_heads=H,
        encoder_ffn_dim=F_DIM,
        decoder_ffn_dim=F_DIM,
        max_position_embeddings=60,
        decoder_start_token_id=EOS,
    )
    theirs = M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    weights = {
        name.removeprefix("model."): parameter
        for name, parameter in theirs.state_dict().items()
        if name != "model.shared.weight"
    }
    weights["decoder.output_projection.weight"] = weights.pop("lm_head.weight")
    torch.save({"args": settings(), "model": weights}, tmp_path / "m2m.pt")

    def log_probs(src: list[int], tgt: list[int]) -> Tensor:
        inputs = {"input_ids": torch.tensor([src]), "decoder_input_ids": torch.tensor([tgt])}
        logits: Tensor = theirs(**inputs).logits[0]
        return logits.log_softmax(-1)

    saved = read(tmp_path)
    assert saved.network.config.tie == "all"
    assert_alike(saved, tmp_path, log_probs)


def test_everything_that_ours_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    _, state = write_fairseq(tmp_path)
    for name, value in (
        ("arch", "bart_base"),
        ("task", "translation_multi_simple_epoch"),
        ("activation_fn", "gelu_fast"),
        ("tokenizer", "moses"),
        ("bpe", "fastbpe"),
        ("decoder_layers_to_keep", "0,1"),
        ("adaptive_softmax_cutoff", [100, 200]),
        ("layernorm_embedding", True),
        ("decoder_attention_heads", 2),
        ("encoder_normalize_before", False),
        ("encoder_learned_pos", True),
    ):
        setattr(state["args"], name, value)
    torch.save(state, tmp_path / "checkpoint_best.pt")
    with pytest.raises(ModelFolderError, match="cannot be represented") as refusal:
        read(tmp_path)
    for said in (
        "arch=bart_base: expected transformer or one whose name begins with it.",
        "task=translation_multi_simple_epoch: expected translation.",
        "activation_fn=gelu_fast: expected relu or gelu or swish.",
        "tokenizer=moses: expected None or space.",
        "bpe=fastbpe: expected None or sentencepiece.",
        "decoder_layers_to_keep=0,1: expected None.",
        "adaptive_softmax_cutoff=[100, 200]: expected None.",
        "layernorm_embedding=True: expected False.",
        "encoder_attention_heads=3 and decoder_attention_heads=2 must be equal.",
        "encoder_normalize_before=False and decoder_normalize_before=True must be equal.",
        "encoder_learned_pos=True and decoder_learned_pos=False must be equal.",
    ):
        assert str(refusal.value).count(said) == 1, said


@pytest.mark.parametrize("core", ["core", "_core"])  # of numpy 1 and 2
def test_numbers_of_numpy_are_read(core: str, tmp_path: Path) -> None:
    """--eval-bleu leaves arrays of n-gram counts in a checkpoint."""
    _, state = write_fairseq(tmp_path)
    expected = read(tmp_path)
    path = tmp_path / "checkpoint_best.pt"
    counts = {"sum": np.array([7, 5, 3, 1]), "val": np.float64(0.5)}
    torch.save(state | {"extra_state": {"metrics": {"_bleu_counts": counts}}}, path)
    renamed(path, b"numpy._core.", f"numpy.{core}.".encode())
    assert same_weights(read(tmp_path).network, expected.network)


def renamed(path: Path, old: bytes, new: bytes) -> None:
    """What torch saved, with other names in its pickle."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            changed = content.replace(old, new) if name.endswith("data.pkl") else content
            file.writestr(name, changed)


def test_a_checkpoint_runs_nothing_and_what_it_needs_is_named(tmp_path: Path) -> None:
    _, state = write_fairseq(tmp_path)
    path = tmp_path / "checkpoint_best.pt"
    torch.save(state | {"extra_state": {"best": Fraction(3)}}, path)
    with pytest.raises(
        ModelFolderError, match=r"best\.pt cannot be read: it holds a fractions\.Fraction;"
    ):
        read(tmp_path)
    state["args"].user_dir = Trap(str(tmp_path / "sprung"))
    torch.save(state, path)
    with pytest.raises(ModelFolderError, match=r"it holds a \S+system;"):
        read(tmp_path)
    assert not (tmp_path / "sprung").exists()


class Trap:
    """Runs a command where a pickle is loaded without care."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": None}, "its model is not a dictionary of weights"),
        ({"model": {}}, r"it lacks encoder\.embed_tokens\.weight"),
        ({"args": argparse.Namespace()}, "its settings lack encoder_attention_heads"),
        ({"args": None}, "its settings lack encoder_attention_heads"),
        ({"args": settings(max_source_positions="many")}, "many is not a number of positions"),
        ({"args": settings(max_source_positions=-5)}, "-5 is not a number of positions"),
        (
            {"args": settings(encoder_layerdrop=torch.ones(3))},
            "its setting encoder_layerdrop is a tensor",
        ),
    ],
    ids=str,
)
def test_what_a_checkpoint_lacks_is_named(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    _, state = write_fairseq(tmp_path)
    torch.save(state | changes, tmp_path / "checkpoint_best.pt")
    with pytest.raises(ModelFolderError, match=rf"checkpoint_best\.pt is damaged: {said}"):
        read(tmp_path)


def test_weights_and_dictionaries_that_do_not_fit_are_named(tmp_path: Path) -> None:
    _, state = write_fairseq(tmp_path)
    weights, path = state["model"], tmp_path / "checkpoint_best.pt"
    name = "decoder.layers.1.encoder_attn.k_proj.weight"
    for changed, said in (
        ({each: weights[each] for each in weights if each != name}, rf"{name} is missing"),
        (weights | {name: torch.ones(3, 12)}, rf"{name} is \(3, 12\), expected \(12, 12\)"),
        (
            weights | {"decoder.project_in_dim.weight": torch.ones(2, 2)},
            "project_in_dim.* is extra",
        ),
    ):
        torch.save(state | {"model": changed}, path)
        with pytest.raises(ModelFolderError, match=said):
            read(tmp_path)
    torch.save(state, path)
    write(tmp_path / "dict.de.txt", ["a 1", "b 2 #fairseq:overwrite"])
    with pytest.raises(ModelFolderError, match="6 entries with the special ones, but decoder"):
        read(tmp_path)
    rows = len(weights["decoder.embed_tokens.weight"]) - len(SPECIAL)
    write(tmp_path / "dict.de.txt", ["a 1"] * rows)
    with pytest.raises(ModelFolderError, match=rf"{tmp_path}: the vocabulary has 'a' twice"):
        read(tmp_path)
    write(tmp_path / "dict.de.txt", ["a 1", "b"])
    with pytest.raises(ModelFolderError, match=r"dict\.de\.txt is damaged: line 2 is not a symbol"):
        read(tmp_path)
    (tmp_path / "dict.de.txt").unlink()
    with pytest.raises(ModelFolderError, match=r"dict\.de\.txt cannot be read"):
        read(tmp_path)


def test_of_several_checkpoints_the_best_the_last_or_the_named_one_is_read(tmp_path: Path) -> None:
    write_fairseq(tmp_path)
    best = tmp_path / "checkpoint_best.pt"
    for name in ("checkpoint3.pt", "checkpoint4.pt"):
        (tmp_path / name).write_bytes(best.read_bytes())
    (tmp_path / "checkpoint_last.pt").write_bytes(b"no checkpoint")
    read(tmp_path)
    best.unlink()
    with pytest.raises(ModelFolderError, match=r"checkpoint_last\.pt cannot be read"):
        read(tmp_path)
    (tmp_path / "checkpoint_last.pt").unlink()
    with pytest.raises(ModelFolderError, match=r"checkpoint3\.pt, checkpoint4\.pt; name one"):
        read(tmp_path)
    read(tmp_path / "checkpoint4.pt")
    (tmp_path / "checkpoint3.pt").unlink()
    read(tmp_path)


@pytest.mark.export
@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_an_imported_model_lives_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fairseq(tmp_path / "theirs", joint=True, tie="all")
    live_like_ours(
        tmp_path / "theirs", tmp_path, SRC_TEXTS[:20], TGT_TEXTS[:20], monkeypatch, capsys
    )
