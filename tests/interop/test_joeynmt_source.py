"""A model of JoeyNMT becomes one of ours; the oracle is JoeyNMT's network, written down again."""

import io
import math
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import yaml
from every_option import TEXTS, random_model
from imported import live_like_ours, write
from peers.joeynmt_weights import checkpoint
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import UNK_ID
from seq2seq.data.batch import make_batch
from seq2seq.errors import ModelFolderError
from seq2seq.interop import sources
from seq2seq.interop.joeynmt_source import read
from seq2seq.model_folder import SavedModel

SRC_TEXTS = TEXTS
TGT_TEXTS = [text.replace("ka", "gü").replace("no", "zß") + "." for text in TEXTS]
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
D, H, F_DIM, LAYERS = 12, 3, 10, {"encoder": 1, "decoder": 2}


def spm(texts: list[str], **settings: Any) -> bytes:
    """With SentencePiece's usual ids: <unk> 0, <s> 1, </s> 2, no <pad>."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 45} | settings,
    )
    return model.getvalue()


def entries(serialized: bytes) -> list[str]:
    """A vocabulary that lacks every third piece, of longer ones and of single characters."""
    model = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    pieces = [model.IdToPiece(i) for i in range(3, model.GetPieceSize())]
    kept = [piece for n, piece in enumerate(pieces) if n % 3 or len(piece) == 2]
    return SPECIAL + random.Random(1).sample(kept, len(kept))


def stack(**changes: Any) -> dict[str, Any]:
    settings = {
        "type": "transformer",
        "num_heads": H,
        "hidden_size": D,
        "ff_size": F_DIM,
        "layer_norm": "pre",
        "dropout": 0.1,
        "embeddings": {"embedding_dim": D, "scale": True},
    }
    return settings | changes


def write_joeynmt(
    folder: Path,
    *,
    joint: bool = False,
    tied_softmax: bool = False,
    text: Mapping[str, Any] = {},
    **changes: Any,
) -> dict[str, Tensor]:
    """A model_dir with random weights, which are given; changes: of encoder and decoder."""
    folder.mkdir(exist_ok=True)
    data: dict[str, Any] = {}
    sizes = []
    texts = {"src": SRC_TEXTS, "trg": SRC_TEXTS + TGT_TEXTS if joint else TGT_TEXTS}
    for side, lines in texts.items():
        model = spm(texts["trg"] if joint else lines, **text)
        name = "joint.model" if joint else f"{side}.model"
        (folder / name).write_bytes(model)
        vocabulary = entries(model)
        sizes.append(len(vocabulary))
        write(folder / f"{side}_vocab.txt", vocabulary)
        data[side] = {
            "lang": {"src": "en", "trg": "de"}[side],
            "level": "bpe",
            "voc_file": f"elsewhere/{side}.txt",
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": f"elsewhere/{name}"},
        }
    stacks = {side: stack(num_layers=depth, **changes) for side, depth in LAYERS.items()}
    network = {"tied_embeddings": joint, "tied_softmax": tied_softmax, **stacks}
    (folder / "config.yaml").write_text(yaml.dump({"name": "x", "data": data, "model": network}))
    weights = random_weights(sizes, joint, tied_softmax, changes.get("layer_norm") != "post")
    torch.save(
        {"model_state": weights, "optimizer_state": {"state": {}}, "stats_state": {"steps": 7}},
        folder / "best.ckpt",
    )
    return weights


def random_weights(sizes: list[int], joint: bool, tied: bool, pre: bool) -> dict[str, Tensor]:
    """Under JoeyNMT's names, none of them with its usual value."""
    src_size, tgt_size = sizes
    shapes: dict[str, tuple[int, ...]] = {
        "src_embed.lut.weight": (src_size, D),
        "trg_embed.lut.weight": (tgt_size, D),
        "decoder.output_layer.weight": (tgt_size, D),
    }

    def add(name: str, *shape: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]

    for side, depth in LAYERS.items():
        if pre:
            add(f"{side}.layer_norm", D)
        for number in range(depth):
            layer = f"{side}.layers.{number}"
            decoder = side == "decoder"
            for attention in ("trg_trg_att", "src_trg_att") if decoder else ("src_src_att",):
                for part in ("k_layer", "v_layer", "q_layer", "output_layer"):
                    add(f"{layer}.{attention}.{part}", D, D)
            for norm in ("x_layer_norm", "dec_layer_norm") if decoder else ("layer_norm",):
                add(f"{layer}.{norm}", D)
            add(f"{layer}.feed_forward.layer_norm", D)
            add(f"{layer}.feed_forward.pwff_layer.0", F_DIM, D)
            add(f"{layer}.feed_forward.pwff_layer.3", D, F_DIM)
    generator = torch.Generator().manual_seed(1)
    found = {
        name: torch.randn(shape, generator=generator) / 2 + ("norm.weight" in name)
        for name, shape in shapes.items()
    }
    if joint:
        found["trg_embed.lut.weight"] = found["src_embed.lut.weight"]
    if tied:
        found["decoder.output_layer.weight"] = found["trg_embed.lut.weight"]
    return found | {f"{side}.pe.pe": sinusoids(50)[None] for side in LAYERS}


def sinusoids(length: int) -> Tensor:
    """Sine and cosine of one wavelength next to each other."""
    table = torch.zeros(length, D)
    for position in range(length):
        for pair in range(0, D, 2):
            angle = position / 10000 ** (pair / D)
            table[position, pair : pair + 2] = torch.tensor([math.sin(angle), math.cos(angle)])
    return table


class JoeyNMT:
    """Its Transformer for one sentence, without dropout."""

    def __init__(
        self, weights: dict[str, Tensor], layer_norm: str, activation: str, scale: bool
    ) -> None:
        self.weights, self.pre, self.scale = weights, layer_norm == "pre", scale
        kinds: dict[str, Callable[[Tensor], Tensor]] = {
            "relu": F.relu,
            "gelu": F.gelu,
            "swish": F.silu,
        }
        self.activation = kinds[activation]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        deviation = (x.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()
        return (x - x.mean(-1, keepdim=True)) / deviation * weight + bias

    def attention(self, name: str, x: Tensor, memory: Tensor, causal: bool = False) -> Tensor:
        """x (Q, D), memory (K, D) -> (Q, D)"""
        q, k, v = (
            self.linear(f"{name}.{letter}_layer", y).view(len(y), H, D // H).transpose(0, 1)
            for letter, y in (("q", x), ("k", memory), ("v", memory))
        )
        scores = q @ k.transpose(1, 2) / math.sqrt(D // H)  # (H, Q, K)
        if causal:
            scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf)
        mixed = scores.softmax(-1) @ v
        return self.linear(f"{name}.output_layer", mixed.transpose(0, 1).reshape(len(x), D))

    def residual(self, norm: str, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + sublayer(self.norm(norm, x))
        return self.norm(norm, x + sublayer(x))

    def look(self, layer: str, norm: str, name: str, x: Tensor, memory: Tensor | None) -> Tensor:
        """memory (K, D), or None for what is before each of x."""

        def attend(y: Tensor) -> Tensor:
            causal = memory is None and layer.startswith("decoder")
            return self.attention(f"{layer}.{name}", y, y if memory is None else memory, causal)

        return self.residual(f"{layer}.{norm}", x, attend)

    def feed_forward(self, layer: str, x: Tensor) -> Tensor:
        name = f"{layer}.feed_forward"

        def forward(y: Tensor) -> Tensor:
            inner = self.activation(self.linear(f"{name}.pwff_layer.0", y))
            return self.linear(f"{name}.pwff_layer.3", inner)

        return self.residual(f"{name}.layer_norm", x, forward)

    def embedded(self, name: str, ids: list[int]) -> Tensor:
        found = self.weights[f"{name}.lut.weight"][ids] * (math.sqrt(D) if self.scale else 1)
        return found + sinusoids(len(ids))

    def log_probs(self, src: list[int], tgt: list[int]) -> Tensor:
        """ids with their special tokens -> (T, V)"""
        x = self.embedded("src_embed", src)
        for number in range(LAYERS["encoder"]):
            layer = f"encoder.layers.{number}"
            x = self.look(layer, "layer_norm", "src_src_att", x, None)
            x = self.feed_forward(layer, x)
        memory = self.norm("encoder.layer_norm", x) if self.pre else x
        x = self.embedded("trg_embed", tgt)
        for number in range(LAYERS["decoder"]):
            layer = f"decoder.layers.{number}"
            x = self.look(layer, "x_layer_norm", "trg_trg_att", x, None)
            x = self.look(layer, "dec_layer_norm", "src_trg_att", x, memory)
            x = self.feed_forward(layer, x)
        x = self.norm("decoder.layer_norm", x) if self.pre else x
        return (x @ self.weights["decoder.output_layer.weight"].T).log_softmax(-1)


def tokenized(folder: Path, side: str) -> tuple[Any, dict[str, int]]:
    """SentencePiece after the call of SetVocabulary in JoeyNMT, which newer versions do not have,
    and the ids of a vocabulary."""
    (path,) = [path for path in folder.glob("*.model") if path.stem in (side, "joint")]
    lines = (folder / f"{side}_vocab.txt").read_text(encoding="utf-8").splitlines()
    model: Any = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())  # type: ignore[attr-defined]
    for piece in model.pieces:
        if piece.type == piece.NORMAL and len(piece.piece) > 1 and piece.piece not in lines:
            piece.type = piece.UNUSED
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return processor, {entry: number for number, entry in enumerate(lines)}


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("layer_norm", ["pre", "post"])
def test_log_probabilities_are_those_of_its_network(
    layer_norm: str, activation: str, tmp_path: Path
) -> None:
    weights = write_joeynmt(tmp_path, layer_norm=layer_norm, activation=activation)
    saved = sources.read(tmp_path)
    assert (saved.src_lang, saved.tgt_lang) == ("en", "de")
    assert_alike(saved, tmp_path, JoeyNMT(weights, layer_norm, activation, scale=True))


TIES = [(False, False, "none"), (False, True, "target-output"), (True, False, "source-target")]


@pytest.mark.parametrize(("joint", "tied_softmax", "tie"), [*TIES, (True, True, "all")])
def test_shared_matrices_are_shared_and_embeddings_need_not_be_scaled(
    joint: bool, tied_softmax: bool, tie: str, tmp_path: Path
) -> None:
    weights = write_joeynmt(
        tmp_path,
        joint=joint,
        tied_softmax=tied_softmax,
        embeddings={"embedding_dim": D, "scale": False},
    )
    saved = read(tmp_path)
    assert saved.network.config.tie == tie
    assert not saved.network.config.scale_embeddings
    assert_alike(saved, tmp_path, JoeyNMT(weights, "pre", "relu", scale=False))


def assert_alike(saved: SavedModel, folder: Path, theirs: JoeyNMT) -> None:
    """Of all entries of the target's vocabulary; what only ours has is impossible."""
    (src_model, src_ids), (tgt_model, tgt_ids) = (tokenized(folder, s) for s in ("src", "trg"))
    pieces = saved.tgt_subwords.pieces(range(len(saved.tgt_subwords)))
    known = [number for number, piece in enumerate(pieces) if piece in tgt_ids]
    others = [number for number, piece in enumerate(pieces) if piece not in tgt_ids]
    assert len(known) == len(tgt_ids)
    assert others
    with torch.no_grad():
        for src, tgt in zip(SRC_TEXTS[:9], TGT_TEXTS[:9], strict=True):
            batch = make_batch(
                [saved.src_subwords.encode(src)],
                [saved.tgt_subwords.encode(tgt)],
                saved.network.config.start_id,
            )
            hidden = saved.network(batch.src, batch.src_lens, batch.tgt_in)
            ours = saved.network.project(hidden)[0].log_softmax(-1)
            unk, eos, bos = (tgt_ids[name] for name in ("<unk>", "</s>", "<s>"))
            expected = theirs.log_probs(
                [*(src_ids.get(each, unk) for each in src_model.encode(src, out_type=str)), eos],
                [bos, *(tgt_ids.get(each, unk) for each in tgt_model.encode(tgt, out_type=str))],
            )
            assert ours[:, others].max() < -1000
            columns = [tgt_ids[pieces[number]] for number in known]
            torch.testing.assert_close(ours[:, known], expected[:, columns], rtol=1e-4, atol=1e-4)


KINDS: list[dict[str, Any]] = [
    {"model_type": "unigram"},
    {"model_type": "bpe"},
    {"model_type": "unigram", "byte_fallback": True, "vocab_size": 300},
    {"model_type": "bpe", "byte_fallback": True, "vocab_size": 310},
]


@pytest.mark.parametrize("text", KINDS, ids=str)
def test_text_is_cut_into_the_pieces_of_the_vocabulary_as_there(
    text: dict[str, Any], tmp_path: Path
) -> None:
    write_joeynmt(tmp_path, text=text)
    saved, draw = read(tmp_path), random.Random(1)
    unequal = 0
    for side, subwords in (("src", saved.src_subwords), ("trg", saved.tgt_subwords)):
        model, ids = tokenized(tmp_path, side)
        free = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{side}.model"))
        letters = sorted(set("".join(SRC_TEXTS if side == "src" else TGT_TEXTS)))
        made_up = ["".join(draw.choices(letters, k=n % 14)) for n in range(150)]
        for line in [*SRC_TEXTS[:40], *TGT_TEXTS[:40], *made_up, "süß X 今"]:
            pieces = model.encode(line, out_type=str)
            found = subwords.pieces(subwords.encode(line))
            unequal += pieces != free.encode(line, out_type=str)
            unk = ids["<unk>"]
            assert [ids.get(each, unk) for each in found] == [ids.get(each, unk) for each in pieces]
            if all(each in ids for each in pieces):
                assert subwords.decode(subwords.encode(line)) == subwords.normalized(line)
    assert unequal > 50


def test_our_network_in_its_names_comes_back_bit_identical(tmp_path: Path) -> None:
    for norm in ("pre", "post"):
        saved, folder = random_model(norm=norm, decoder_layers=1), tmp_path / norm
        folder.mkdir()
        pieces = saved.src_subwords.pieces(range(len(saved.src_subwords)))
        write(folder / "src_vocab.txt", [*SPECIAL, *pieces[4:]])
        write(folder / "trg_vocab.txt", [*SPECIAL, *pieces[4:]])
        (folder / "subwords.model").write_bytes(saved.src_subwords.serialized)
        side = {"level": "bpe", "tokenizer_cfg": {"model_file": "subwords.model"}}
        model = {
            "tied_embeddings": True,
            **{
                each: stack(num_layers=1, num_heads=2, layer_norm=norm)
                for each in ("encoder", "decoder")
            },
        }
        (folder / "config.yaml").write_text(
            yaml.dump({"data": {"src": side, "trg": side}, "model": model})
        )
        torch.save(checkpoint(saved.network), folder / "12.ckpt")
        found = read(folder)
        assert found.network.config == saved.network.config
        assert found.fingerprints == saved.fingerprints
        theirs = dict(saved.network.named_parameters())
        for name, parameter in found.network.named_parameters():
            assert parameter.equal(theirs[name]), name


def change(folder: Path, *place: str, value: object) -> None:
    """One setting in config.yaml."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    section = config
    for name in place[:-1]:
        section = section.setdefault(name, {})
    section[place[-1]] = value
    (folder / "config.yaml").write_text(yaml.dump(config))


def test_everything_that_ours_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    write_joeynmt(tmp_path)
    change(tmp_path, "model", "encoder", "type", value="recurrent")
    change(tmp_path, "model", "encoder", "layer_norm", value=None)
    change(tmp_path, "model", "decoder", "activation", value="tanh")
    change(tmp_path, "model", "decoder", "alpha", value=2.0)
    change(tmp_path, "model", "decoder", "num_heads", value=2)
    change(tmp_path, "model", "decoder", "embeddings", value={"embedding_dim": 8})
    change(tmp_path, "data", "src", "lowercase", value=True)
    change(tmp_path, "data", "trg", "tokenizer_type", value="subword-nmt")
    change(tmp_path, "data", "trg", "tokenizer_cfg", "pretokenizer", value="moses")
    change(tmp_path, "data", "special_symbols", "lang_tags", value=["<en>"])
    change(tmp_path, "data", "special_symbols", "unk_token", value=7)
    with pytest.raises(ModelFolderError, match=r"config\.yaml cannot be represented") as refusal:
        read(tmp_path)
    for said in (
        "model.encoder.type=recurrent: expected transformer.",
        "model.encoder.layer_norm=None: expected pre or post.",
        "model.encoder.layer_norm=None and pre of the decoder must be equal.",
        "model.decoder.activation=tanh: expected relu or gelu or swish.",
        "model.decoder.alpha=2.0: expected 1.0.",
        "model.encoder.num_heads=3 and 2 of the decoder must be equal.",
        "model.decoder.embeddings.embedding_dim=8: expected 12.",
        "model.encoder.embeddings.scale and model.decoder.embeddings.scale must be equal.",
        "data.src.lowercase=True: expected False.",
        "data.trg.tokenizer_type=subword-nmt: expected sentencepiece.",
        "data.trg.pretokenizer=moses: expected none.",
        "data.special_symbols.unk_token=7: expected a token.",
        "data.special_symbols.lang_tags=a list: ours has no prompts.",
    ):
        assert str(refusal.value).count(said) == 1, said


def test_a_refusal_is_short_whatever_the_settings_stand_for(tmp_path: Path) -> None:
    """With aliases a few lines of YAML are a hundred million words."""
    write_joeynmt(tmp_path)
    path = tmp_path / "config.yaml"
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    changed = re.sub(r"(hidden_size|type): \w+", r"\1: *a8", path.read_text())
    assert changed.count("*a8") > 3
    path.write_text("\n".join(["a0: &a0 word", *lines, changed]))
    with pytest.raises(ModelFolderError, match=r"model\.decoder\.type=a list: expected") as refusal:
        read(tmp_path)
    assert len(str(refusal.value)) < 3000


def test_lists_in_place_of_settings_are_not_compared(tmp_path: Path) -> None:
    """Each with aliases in it, two of them would take hours."""

    class Incomparable(list[str]):
        def __eq__(self, _: object) -> bool:
            raise MemoryError

    write_joeynmt(tmp_path)
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    for stack in ("encoder", "decoder"):
        config["model"][stack]["hidden_size"] = Incomparable()
        config["model"][stack]["embeddings"]["embedding_dim"] = Incomparable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "safe_load", lambda _: config)
        with pytest.raises(ModelFolderError, match=r"config\.yaml .*d_model.*a list"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"), [("lang", None), ("voc_file", None), ("model_file", "it lacks .*model_file")]
)
def test_what_stands_for_a_text_is_not_written_out(
    name: str, said: str | None, tmp_path: Path
) -> None:
    """With more lines of YAML it would not fit into memory."""

    class Unwritable(list[str]):
        def __repr__(self) -> str:
            raise MemoryError

    write_joeynmt(tmp_path)
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    section = config["data"]["src"]
    (section["tokenizer_cfg"] if name == "model_file" else section)[name] = Unwritable(["en"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "safe_load", lambda _: config)
        if said is None:
            assert read(tmp_path).src_lang == ("" if name == "lang" else section["lang"])
            return
        with pytest.raises(ModelFolderError, match=said):
            read(tmp_path)


def test_the_best_checkpoint_is_read_or_else_the_last_one(tmp_path: Path) -> None:
    write_joeynmt(tmp_path)
    best = tmp_path / "best.ckpt"
    expected = read(tmp_path).network.output.weight
    for number in (900, 1000):
        weights = torch.load(best)["model_state"]
        weights["decoder.output_layer.weight"] = torch.full_like(
            weights["decoder.output_layer.weight"], number
        )
        torch.save({"model_state": weights}, tmp_path / f"{number}.ckpt")
    assert read(tmp_path).network.output.weight.equal(expected)
    best.unlink()
    best.symlink_to("7.ckpt")
    assert read(tmp_path).network.output.weight[UNK_ID, 0] == 1000
    for path in tmp_path.glob("*.ckpt"):
        path.unlink()
    with pytest.raises(ModelFolderError, match=r"neither best\.ckpt nor another checkpoint"):
        read(tmp_path)


def test_a_checkpoint_runs_nothing_and_what_it_needs_is_named(tmp_path: Path) -> None:
    write_joeynmt(tmp_path)
    torch.save({"model_state": {}, "extra": Path("anything")}, tmp_path / "best.ckpt")
    with pytest.raises(ModelFolderError, match=r"best\.ckpt cannot be read: it holds a pathlib"):
        read(tmp_path)
    whole = (tmp_path / "best.ckpt").read_bytes()
    for place in range(0, len(whole), 7):
        (tmp_path / "best.ckpt").write_bytes(whole[:place] + b"\x8c" + whole[place + 1 :])
        with pytest.raises(ModelFolderError, match=r"best\.ckpt "):
            read(tmp_path)
    for value, said in (
        ({"model_state": {}}, "it lacks src_embed"),
        ({"weights": {}}, "its model_state is not a dictionary of weights"),
        ([1], "it holds no dictionary"),
    ):
        torch.save(value, tmp_path / "best.ckpt")
        with pytest.raises(ModelFolderError, match=rf"best\.ckpt is damaged: {said}"):
            read(tmp_path)


@pytest.mark.parametrize("name", ["config.yaml", "src_vocab.txt", "trg.model", "best.ckpt"])
def test_a_missing_or_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    write_joeynmt(tmp_path)
    (tmp_path / name).write_bytes(b"{\xff\x01")
    with pytest.raises(ModelFolderError, match=name):
        read(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelFolderError, match=name):
        read(tmp_path)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write_joeynmt(tmp_path)
    change(tmp_path, "model", "encoder", "num_layers", value=2)
    with pytest.raises(ModelFolderError, match=r"encoder\.layers\.1\.\S+ is missing"):
        read(tmp_path)
    write_joeynmt(tmp_path)
    write(tmp_path / "src_vocab.txt", SPECIAL)
    with pytest.raises(
        ModelFolderError, match=r"4 entries, but src_embed\.lut\.weight has \d+ rows"
    ):
        read(tmp_path)


@pytest.mark.export
@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_an_imported_model_lives_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_joeynmt(tmp_path / "theirs")
    live_like_ours(
        tmp_path / "theirs", tmp_path, SRC_TEXTS[:20], TGT_TEXTS[:20], monkeypatch, capsys
    )
