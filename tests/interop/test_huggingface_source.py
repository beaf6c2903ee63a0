"""A Marian folder made by transformers becomes a model of ours that says and learns the same."""

import hashlib
import io
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from every_option import SMALL, TEXTS, options, random_model
from imported import live_like_ours, same_weights
from torch import Tensor
from torch.nn import functional as F

from seq2seq.cli import main
from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, ModelConfig, SearchConfig
from seq2seq.data.batch import make_batch
from seq2seq.engine import NativeEngine
from seq2seq.errors import ModelFolderError
from seq2seq.interop.bart import their_name
from seq2seq.interop.huggingface import export, obstacles
from seq2seq.interop.huggingface_source import read, weight_files
from seq2seq.interop.vocabulary import SpecialIds, vocabulary
from seq2seq.model_card import front_matter
from seq2seq.model_facts import load_provenance
from seq2seq.model_folder import SavedModel, load_model, save_model
from seq2seq.text.piece_order import as_entry, reordered, text_pieces
from seq2seq.text.subwords import Subwords
from seq2seq.translator import Translator

os.environ["HF_HUB_OFFLINE"] = "1"
pytestmark = [
    pytest.mark.export,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

SRC_TEXTS = TEXTS
TGT_TEXTS = [text.replace("ka", "gü").replace("no", "zß") + "." for text in TEXTS]
TAGS = [">>fra<<", ">>deu<<"]


def spm(texts: list[str], **settings: Any) -> bytes:
    """As OPUS-MT trains them: <unk> 0, <s> 1, </s> 2, no <pad>, no bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=45,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    return model.getvalue()


def write_tokenizer(folder: Path, kind: str = "unigram") -> int:
    """source.spm, target.spm and one vocab.json for both, in an order of its own, without some
    pieces of each; gives the number of ids."""
    pieces: dict[str, None] = {}
    for name, texts in (("source.spm", SRC_TEXTS), ("target.spm", TGT_TEXTS)):
        model = spm(texts, model_type=kind)
        (folder / name).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        texts_of = [processor.IdToPiece(i) for i in range(3, processor.GetPieceSize())]
        pieces |= dict.fromkeys(texts_of)
    shuffled = random.Random(1).sample(list(pieces), len(pieces))
    names = ["</s>", "<unk>", *TAGS, *shuffled, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "eng",
        "target_lang": "fra",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(names)


def write_opus(folder: Path, **changes: Any) -> Any:
    """A folder like one of OPUS-MT's, with no parameter left at its start value; the model."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir()
    size = write_tokenizer(folder)
    settings: dict[str, Any] = {
        "vocab_size": size,
        "d_model": 12,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 10,
        "decoder_ffn_dim": 10,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "pad_token_id": size - 1,
        "eos_token_id": 0,
        "decoder_start_token_id": size - 1,
        "forced_eos_token_id": 0,
        "dropout": 0.0,
    }
    torch.manual_seed(1)
    model = MarianMTModel(MarianConfig(**settings | changes)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
        model.get_input_embeddings().weight[size - 1] = 0
        model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model


@pytest.fixture
def opus(tmp_path: Path) -> Path:
    """The folder of a model with OPUS-MT's settings."""
    return tmp_path / "opus"


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def logits(saved: SavedModel, theirs: Any, tokens: Any) -> tuple[Tensor, Tensor]:
    """Of the same subwords of the same sentences, (N, V ours) and (N, V theirs)."""
    src = [saved.src_subwords.encode(text) for text in SRC_TEXTS[:5]]
    tgt = [saved.tgt_subwords.encode(text) for text in TGT_TEXTS[:5]]
    batch = make_batch(src, tgt, saved.network.config.start_id)
    ours = saved.network.project(saved.network(batch.src, batch.src_lens, batch.tgt_in))
    inputs = tokens(SRC_TEXTS[:5], text_target=TGT_TEXTS[:5], return_tensors="pt", padding=True)
    labels = inputs.pop("labels")
    start = torch.full((5, 1), theirs.config.decoder_start_token_id)
    found = theirs(**inputs, decoder_input_ids=torch.cat([start, labels[:, :-1]], 1)).logits
    real = batch.tgt_out != PAD_ID
    return ours[real], found[real]


def our_ids(saved: SavedModel) -> list[int]:
    """All but <s>, which theirs does not have."""
    return [i for i in range(len(saved.tgt_subwords)) if i != BOS_ID]


def their_ids(saved: SavedModel, tokens: Any) -> list[int]:
    """Their id of each of `our_ids`."""
    ids = tokens.get_vocab()
    return [ids[as_entry(piece)] for piece in saved.tgt_subwords.pieces(our_ids(saved))]


def greedy_texts(theirs: Any, tokens: Any) -> list[str]:
    """Translations of at most 12 subwords, in which neither padding nor the unknown piece is."""
    inputs = tokens(SRC_TEXTS[:5], return_tensors="pt", padding=True)
    never = [tokens.pad_token_id, tokens.unk_token_id]
    found = theirs.generate(**inputs, max_new_tokens=12, num_beams=1, suppress_tokens=never)
    texts: list[str] = tokens.batch_decode(found, skip_special_tokens=True)
    return texts


def test_opus_settings_give_the_same_log_probabilities_and_translations(opus: Path) -> None:
    theirs = write_opus(opus)
    saved, tokens = read(opus), tokenizer(opus)
    config = saved.network.config
    assert (config.norm, config.activation, config.start_token) == ("post", "silu", "pad")
    assert (config.tie, config.output_bias, config.bias) == ("all", True, True)
    assert (saved.src_lang, saved.tgt_lang) == ("eng", "fra")
    with torch.no_grad():
        ours_said, said = (x.log_softmax(-1) for x in logits(saved, theirs, tokens))
    assert ours_said[:, BOS_ID].max() < -1000
    torch.testing.assert_close(
        ours_said[:, our_ids(saved)], said[:, their_ids(saved, tokens)], rtol=1e-5, atol=2e-5
    )
    assert translator(saved).translate(SRC_TEXTS[:5]) == greedy_texts(theirs, tokens)
    assert len(set(greedy_texts(theirs, tokens))) > 1


def translator(saved: SavedModel) -> Translator:
    """Greedy search, at most 12 subwords."""
    short = SearchConfig(beam=1, max_length_ratio=0, max_length_offset=12)
    return Translator(NativeEngine(saved.network), saved.src_subwords, saved.tgt_subwords, short)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_any_text_has_their_ids_unless_two_characters_run_that_one_language_lacks(
    tmp_path: Path, kind: str
) -> None:
    size = write_tokenizer(tmp_path, kind)
    tokens = tokenizer(tmp_path)
    ids = json.loads((tmp_path / "vocab.json").read_text())
    entries = vocabulary(
        tmp_path,
        {i: piece for piece, i in ids.items()},
        SpecialIds(pad=size - 1, unk=1, eos=0, start=size - 1),
    )
    draw = random.Random(1)
    for side, file in (("text", "source.spm"), ("text_target", "target.spm")):
        model = (tmp_path / file).read_bytes()
        subwords = Subwords(reordered(model, entries.pieces))
        known = sorted(set("".join(text_pieces(model)).replace("\u2581", " ")))
        texts = ["".join(draw.choices(known, k=length % 12)) for length in range(120)]
        for text in [">>fra<< mire", *(text + draw.choice(["", "ß", "今"]) for text in texts)]:
            found, given = subwords.encode(text), tokens(**{side: text}).input_ids
            assert [entries.rows[i] for i in [*found, EOS_ID]] == given, text
            if UNK_ID not in found:
                assert subwords.decode(found) == tokens.decode(given[:-1])


def test_a_step_of_fine_tuning_changes_the_weights_as_theirs(opus: Path) -> None:
    theirs = write_opus(opus)
    saved, tokens = read(opus), tokenizer(opus)
    ours_said, said = logits(saved, theirs, tokens)
    labels = torch.arange(len(said)) % 7 + 5
    F.cross_entropy(said[:, their_ids(saved, tokens)], labels - 1).backward()
    F.cross_entropy(ours_said, labels).backward()
    for network in (saved.network, theirs):
        torch.optim.SGD(network.parameters(), lr=0.5).step()
    after = theirs.state_dict()
    for name, parameter in saved.network.named_parameters():
        found, expected = parameter.detach(), after[their_name(name)]
        if name == "src_embedding.weight":  # but for the padding row, which stays zero in ours
            found, expected = found[our_ids(saved)[1:]], expected[their_ids(saved, tokens)[1:]]
        if name != "output.bias":  # which is fixed in theirs
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_an_imported_model_is_saved_and_exported_like_any_other(opus: Path, tmp_path: Path) -> None:
    theirs = write_opus(opus)
    save_model(read(opus), tmp_path / "model")
    saved = load_model(tmp_path / "model")
    assert not obstacles(saved.network.config)
    export(saved, tmp_path / "again")
    again = network(tmp_path / "again")
    tokens = tokenizer(tmp_path / "again")
    assert greedy_texts(again, tokens) == greedy_texts(theirs, tokenizer(opus))
    tagged = f">>fra<< {SRC_TEXTS[0]}"
    assert tokens(tagged).input_ids[:-1] == saved.src_subwords.encode(tagged)
    second = read(tmp_path / "again")
    assert second.fingerprints == saved.fingerprints
    assert same_weights(second.network, saved.network)


def network(folder: Path) -> Any:
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM.from_pretrained(folder)


REPRESENTED = [each for each in options() if not obstacles(ModelConfig(**SMALL | each))]


@pytest.mark.parametrize("settings", REPRESENTED, ids=str)
def test_what_we_exported_is_read_bit_identical(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = random_model(**settings)
    export(saved, tmp_path)
    found = read(tmp_path)
    assert same_weights(found.network, saved.network)
    assert found.fingerprints == saved.fingerprints
    assert (found.src_lang, found.tgt_lang) == ("en", "de")
    assert replace(found.network.config, head_dim=settings.get("head_dim")) == saved.network.config


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "relu"},
        {"scale_embedding": False},
        {"encoder_layers": 0},
        {"decoder_start_token_id": 0},
        {"decoder_start_token_id": 7},
        {"decoder_start_token_id": 0, "pad_token_id": 0},
        {"decoder_start_token_id": 2, "pad_token_id": 2},
        {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": False},
    ],
    ids=str,
)
def test_other_settings_of_marian_are_read_too(changes: dict[str, Any], opus: Path) -> None:
    theirs = write_opus(opus, **changes)
    saved, tokens = read(opus), tokenizer(opus)
    with torch.no_grad():
        ours_said, said = (x.log_softmax(-1) for x in logits(saved, theirs, tokens))
    torch.testing.assert_close(
        ours_said[:, our_ids(saved)], said[:, their_ids(saved, tokens)], rtol=1e-5, atol=2e-5
    )


def test_a_target_vocabulary_of_its_own_may_start_with_an_id_that_the_source_lacks(
    opus: Path, tmp_path: Path
) -> None:
    size = write_tokenizer(tmp_path)
    changes = {"decoder_vocab_size": size + 3, "decoder_start_token_id": size + 2}
    theirs = write_opus(opus, share_encoder_decoder_embeddings=False, **changes)
    *names, padding = json.loads((opus / "vocab.json").read_text())
    ids = {name: i for i, name in enumerate([*names, "one", "two", "three", padding])}
    (opus / "target_vocab.json").write_text(json.dumps(ids))
    path = opus / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"separate_vocabs": True}))
    saved = read(opus)
    assert saved.network.config.start_token == "pad"
    with torch.no_grad():
        ours_said, said = (x.log_softmax(-1) for x in logits(saved, theirs, tokenizer(opus)))
    theirs_of = [ids[as_entry(piece)] for piece in saved.tgt_subwords.pieces(our_ids(saved))]
    torch.testing.assert_close(
        ours_said[:, our_ids(saved)], said[:, theirs_of], rtol=1e-5, atol=2e-5
    )


def test_weights_in_torchs_own_format_are_read_without_running_them(opus: Path) -> None:
    theirs = write_opus(opus)
    saved = read(opus)
    (opus / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), opus / "pytorch_model.bin")
    assert same_weights(read(opus).network, saved.network)
    torch.save({"model.shared.weight": Path("anything")}, opus / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match=r"pytorch_model\.bin cannot be read: .*[Ww]eights"):
        read(opus)


def test_a_language_that_is_no_text_is_not_known(opus: Path, tmp_path: Path) -> None:
    write_opus(opus)
    settings = {"source_lang": ["en"], "target_lang": {"de": 1}}
    (opus / "tokenizer_config.json").write_text(json.dumps(settings))
    assert main(["convert", str(opus), str(tmp_path / "ours")]) == 0
    saved = load_model(tmp_path / "ours")
    assert (saved.src_lang, saved.tgt_lang) == ("", "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "t5"}, r"config\.json: model_type=t5 cannot be read"),
        ({"activation_function": "gelu_new"}, "activation_function=gelu_new cannot be read"),
        ({"decoder_ffn_dim": 12}, "encoder_ffn_dim=10 and decoder_ffn_dim=12 differ"),
        ({"d_model": 24}, r"embed_tokens\.weight is \(\d+, 12\), expected \(\d+, 24\)"),
        ({"encoder_layers": 1}, r"model\.encoder\.layers\.1\.\S+ is extra"),
        ({"decoder_layers": 2}, r"model\.decoder\.layers\.1\.\S+ is missing"),
        ({"decoder_layers": 10**12}, r"model\.decoder\.layers\.1\.\S+ is missing"),
        ({"decoder_layers": 1.5}, r"model\.decoder_layers is 1\.5"),
        ({"d_model": 3 * 10**30}, "no network is so large"),
        ({"activation_function": []}, r"activation_function=\[\] cannot be read"),
        ({"pad_token_id": 10**6, "decoder_start_token_id": 10**6}, "no id 1000000"),
        ({"decoder_start_token_id": "0"}, "no id 0"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], said: str, opus: Path) -> None:
    write_opus(opus)
    (opus / "generation_config.json").unlink()
    description = json.loads((opus / "config.json").read_text())
    (opus / "config.json").write_text(json.dumps(description | changes))
    with pytest.raises(ModelFolderError, match=said):
        read(opus)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"</s>": "0"}, r"vocab\.json is damaged: '</s>' has no number"),
        ({"<unk>": 0}, r"vocab\.json is damaged: two pieces have one id"),
        ({"more": 10**6}, "'more' has the id 1000000, but the embeddings have"),
    ],
    ids=str,
)
def test_ids_that_cannot_be_are_named(changes: dict[str, Any], said: str, opus: Path) -> None:
    write_opus(opus)
    ids = json.loads((opus / "vocab.json").read_text())
    (opus / "vocab.json").write_text(json.dumps(ids | changes))
    with pytest.raises(ModelFolderError, match=said):
        read(opus)


def test_misshapen_matrices_and_biases_are_named(opus: Path) -> None:
    weights = {name: tensor.clone() for name, tensor in write_opus(opus).state_dict().items()}
    for name in ("model.safetensors", "generation_config.json"):
        (opus / name).unlink()
    for changed, said in (
        (
            {"model.shared.weight": torch.tensor(1.0)},
            r"embed_tokens\.weight is \(\), expected a mat",
        ),
        (
            {"final_logits_bias": torch.ones(1, 3)},
            r"vocab\.json: weights of shape \(3,\) do not fit a vocabulary of",
        ),
    ):
        torch.save(weights | changed, opus / "pytorch_model.bin")
        with pytest.raises(ModelFolderError, match=said):
            read(opus)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_missing_or_damaged_file_is_named(name: str, opus: Path) -> None:
    write_opus(opus)
    (opus / name).write_bytes(b"{\x01")
    with pytest.raises(ModelFolderError, match=name):
        read(opus)
    (opus / name).unlink()
    with pytest.raises(ModelFolderError, match=name):
        read(opus)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_weights_of_another_precision_beside_them_are_not_read(opus: Path, ending: str) -> None:
    theirs = write_opus(opus)
    saved = read(opus)
    if ending == "bin":
        (opus / "model.safetensors").unlink()
        torch.save(theirs.state_dict(), opus / "pytorch_model.bin")
    (used,) = weight_files(opus)
    other = used.with_name(used.name.replace(ending, f"fp16.{ending}"))
    torch.save({name: tensor.half() for name, tensor in theirs.state_dict().items()}, other)
    assert weight_files(opus) == [used]
    assert same_weights(read(opus).network, saved.network)


def test_the_origin_is_told_by_its_files_and_the_licence_on_its_card(
    opus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = write_opus(opus)
    (opus / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n\n# opus\n")
    (opus / "model.safetensors").unlink()
    theirs.save_pretrained(opus, max_shard_size="3KB")
    shards = sorted(path.name for path in opus.glob("*.safetensors"))
    assert len(shards) > 1
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "opus", "ours", "--src-lang", "en"]) == 0
    facts = load_provenance("ours")
    assert facts["parent"] == {
        "path": "opus",
        "format": "huggingface",
        "files": [
            {
                "path": f"opus/{name}",
                "sha256": hashlib.sha256((opus / name).read_bytes()).hexdigest(),
            }
            for name in shards
        ],
    }
    assert facts["license"] == "cc-by-4.0"
    assert facts["commands"] == ["seq2seq convert opus ours --src-lang en"]
    assert "data" not in facts
    # Exported again, the card keeps the licence and adds the command.
    assert main(["export", "ours", "--to", "huggingface", "theirs", "--check", "0"]) == 0
    card = Path("theirs/README.md").read_text()
    assert front_matter(card)["license"] == "cc-by-4.0"
    assert front_matter(card)["library_name"] == "transformers"
    assert "seq2seq export ours --to huggingface theirs\n" in card
    assert "- The weights are those of `opus` (huggingface).\n" in card


@pytest.mark.filterwarnings("ignore")  # Lightning's advice
def test_an_imported_model_lives_like_ours(
    opus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = write_opus(opus)
    live_like_ours(opus, tmp_path, SRC_TEXTS[:20], TGT_TEXTS[:20], monkeypatch, capsys)
    saved = load_model("ours")
    assert (saved.src_lang, saved.tgt_lang) == ("en", "de")
    assert translator(saved).translate(SRC_TEXTS[:5]) == greedy_texts(theirs, tokenizer(opus))
