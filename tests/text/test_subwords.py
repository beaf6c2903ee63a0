"""Subwords must give back what they were given, whatever it was; text itself is the oracle."""

import random
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import sentencepiece

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, SubwordConfig
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.text.subwords import LONGEST_TAUGHT, Subwords, train_subwords

Kind = Literal["unigram", "bpe"]
Normalization = Literal["nfkc", "identity"]
WORDS = [a + b + c for a in ("ka", "to", "mi") for b in ("re", "su", "") for c in ("no", "la", "s")]
TEXTS = [" ".join(random.Random(seed).choices(WORDS, k=1 + seed % 7)) + "." for seed in range(150)]

ANY_TEXT = {
    "known": "kare tosu mino.",
    "spaces": "  kare   tosu\tmino ",
    "emoji": "👩\u200d👩\u200d👧 🤷🏽 😀kare",
    "cjk": "今天天气很好。テスト 한국어",
    "line separator": "kare\u2028tosu\u2029mino",
    "combining": "e\u0301 a\u0323\u0308 \u0301 o\u031b",
    "rtl": "ספר \u200fאבא, مرحبا",
    "compatibility": "\uff21\uff22\uff11 \ufb01 \u00bd \u337f \uff83\uff7d\uff84 \u00b4a",
    "space-like": "a\u00a0b\u3000c\u200bd\u00ade",
    "spelled special tokens": "<s> </s> <pad> <unk> <0x41>",
    "the space mark": "kare\u2581tosu \u2581 mino \u2581",
    "beyond the BMP": "\U000e0041\U0001d518𐍈",
    "bytes and controls": "a\x00b\x85c\ufeffd\ud800e",
    "blank": " \t\u3000\x85",
}


def trained(
    kind: Kind = "unigram", normalization: Normalization = "nfkc", byte_fallback: bool = True
) -> Subwords:
    config = SubwordConfig(kind=kind, normalization=normalization, byte_fallback=byte_fallback)
    return Subwords(train_subwords(TEXTS, config, 300 if byte_fallback else 60))


@pytest.fixture(
    scope="module", params=["unigram nfkc", "unigram identity", "bpe nfkc", "bpe identity"]
)
def subwords(request: pytest.FixtureRequest) -> Subwords:
    kind, normalization = request.param.split()
    return trained(kind, normalization)


def test_decoding_what_was_encoded_is_the_normalized_text(subwords: Subwords) -> None:
    decoded = {name: subwords.decode(subwords.encode(text)) for name, text in ANY_TEXT.items()}
    assert decoded == {name: subwords.normalized(text) for name, text in ANY_TEXT.items()}


def test_normalized_text_has_single_spaces_and_no_space_mark(subwords: Subwords) -> None:
    for normalized in map(subwords.normalized, ANY_TEXT.values()):
        assert "\u2581" not in normalized
        assert "  " not in normalized
        assert normalized == normalized.strip()


def test_normalizing_twice_is_normalizing_once(subwords: Subwords) -> None:
    once = [subwords.normalized(text) for text in ANY_TEXT.values()]
    assert [subwords.normalized(text) for text in once] == once


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_nfkc_folds_as_unicode_says_and_identity_does_not(kind: Kind) -> None:
    folding, keeping = trained(kind, "nfkc"), trained(kind, "identity")
    for text in ANY_TEXT.values():
        assert without_spaces(folding.normalized(text)) == without_spaces(nfkc(text))
        assert without_spaces(keeping.normalized(text)) == without_spaces(text)


def nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def without_spaces(text: str) -> str:
    """What is left after everything that cleaning or normalising may do to white space."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f\ufeff\u2581]", "", text).replace("\ud800", "\ufffd")


def test_nfkc_gives_fullwidth_letters_the_ids_of_plain_ones() -> None:
    folding, keeping = trained(normalization="nfkc"), trained(normalization="identity")
    fullwidth = "\uff4b\uff41\uff52\uff45"
    assert folding.encode(fullwidth) == folding.encode("kare")
    assert keeping.encode(fullwidth) != keeping.encode("kare")


def test_byte_fallback_leaves_nothing_unknown_and_text_spells_no_special_token(
    subwords: Subwords,
) -> None:
    used = {i for text in ANY_TEXT.values() for i in subwords.encode(text)}
    assert not used & {PAD_ID, UNK_ID, BOS_ID, EOS_ID}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_without_byte_fallback_an_unseen_character_is_unknown(kind: Kind) -> None:
    subwords = trained(kind, byte_fallback=False)
    assert UNK_ID in subwords.encode("kare 今 tosu")
    assert UNK_ID not in subwords.encode("kare tosu")


def test_a_spelled_control_character_never_comes_out(subwords: Subwords) -> None:
    spelled = {f"<0x{code:02X}>" for code in (0x00, 0x09, 0x0A, 0x0D, 0x7F)}
    ids = [i for i in range(len(subwords)) if subwords.pieces([i])[0] in spelled]
    assert len(ids) == len(spelled)
    for i in ids:
        text = subwords.decode([*subwords.encode("kare"), i, *subwords.encode("tosu")])
        assert re.fullmatch(r"kare +tosu", text), repr(text)


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_training_twice_gives_the_same_bytes(kind: Kind, byte_fallback: bool) -> None:
    first, second = (trained(kind, byte_fallback=byte_fallback) for _ in range(2))
    assert first.serialized == second.serialized


def test_the_first_four_ids_are_the_special_tokens(subwords: Subwords) -> None:
    assert (PAD_ID, UNK_ID, BOS_ID, EOS_ID) == (0, 1, 2, 3)
    assert subwords.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert subwords.decode([PAD_ID, BOS_ID, *subwords.encode("kare"), EOS_ID]) == "kare"


def test_pieces_put_together_are_the_text_with_marked_spaces(subwords: Subwords) -> None:
    assert "".join(subwords.pieces(subwords.encode("kare tosu."))) == "\u2581kare\u2581tosu."


def test_encoding_many_texts_is_encoding_each(subwords: Subwords) -> None:
    texts = [*ANY_TEXT.values(), *TEXTS]
    assert subwords.encode_all(iter(texts)) == [subwords.encode(text) for text in texts]
    assert subwords.encode_all([]) == []


@pytest.mark.parametrize("blank", ["", " ", "   ", "\t", "\u3000", "\r", "\x00\ufeff"], ids=ascii)
def test_a_blank_line_has_no_subwords(subwords: Subwords, blank: str) -> None:
    assert subwords.encode(blank) == []
    assert subwords.normalized(blank) == ""


def test_unigram_trains_fewer_subwords_where_the_text_has_no_more() -> None:
    assert len(Subwords(train_subwords(TEXTS, SubwordConfig(), 4000))) < 400


def test_a_trained_model_has_as_many_subwords_as_asked_for(subwords: Subwords) -> None:
    assert len(subwords) == 300


def test_more_bpe_subwords_than_the_text_has_name_the_number_and_the_most_there_can_be() -> None:
    config = SubwordConfig(kind="bpe")
    with pytest.raises(ConfigError, match=r"data\.subwords.*4321 bpe subwords") as caught:
        train_subwords(TEXTS, config, 4321)
    found = re.search(r"<= (\d+)", str(caught.value))
    assert found, caught.value
    assert len(Subwords(train_subwords(TEXTS, config, int(found[1])))) == int(found[1])


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_too_few_subwords_for_the_characters_name_the_number_and_only_settings_of_ours(
    kind: Kind,
) -> None:
    with pytest.raises(ConfigError, match=rf"data\.subwords.* 123 {kind} subwords") as caught:
        train_subwords(TEXTS, SubwordConfig(kind=kind), 123)
    assert "character_coverage" not in str(caught.value)


@pytest.mark.parametrize("texts", [[], ["", " \t"]], ids=["none", "blank"])
def test_no_text_to_train_on_shows_nothing_of_the_insides_of_sentencepiece(
    texts: list[str],
) -> None:
    with pytest.raises(ConfigError, match=r"data\.subwords.*300") as caught:
        train_subwords(texts, SubwordConfig(), 300)
    assert "trainer_interface" not in str(caught.value)


def test_ctrl_c_while_subwords_are_trained_is_no_mistake_in_the_corpus() -> None:
    def interrupted() -> Iterator[str]:
        yield from TEXTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_subwords(interrupted(), SubwordConfig(), 300)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_subwords_are_learned_from_the_beginning_of_a_line_without_end(kind: Kind) -> None:
    noise = "".join(random.Random(0).choices("abcdefgh", k=300_000))
    both = [
        train_subwords([*TEXTS, text], SubwordConfig(kind=kind), 300)
        for text in (noise, noise[:LONGEST_TAUGHT])
    ]
    assert both[0] == both[1]


def test_a_saved_model_is_the_model(tmp_path: Path, subwords: Subwords) -> None:
    path = tmp_path / "subwords.src.model"
    path.write_bytes(subwords.serialized)
    loaded = Subwords.load(path)
    assert loaded.serialized == subwords.serialized
    assert loaded.encode_all(TEXTS) == subwords.encode_all(TEXTS)


@pytest.mark.parametrize("damage", ["empty", "text", "cut"])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, subwords: Subwords, damage: str) -> None:
    path = tmp_path / "subwords.src.model"
    contents = {"empty": b"", "text": b"kare tosu\n" * 20, "cut": subwords.serialized[:-10]}
    path.write_bytes(contents[damage])
    with pytest.raises(ModelFolderError, match=rf"{path} is damaged"):
        Subwords.load(path)


def test_a_missing_model_and_a_folder_in_its_place_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=rf"{tmp_path}/none\.model does not exist"):
        Subwords.load(tmp_path / "none.model")
    with pytest.raises(ModelFolderError, match=str(tmp_path)):
        Subwords.load(tmp_path)


def others(path: Path, **settings: Any) -> sentencepiece.SentencePieceProcessor:
    """A model as SentencePiece trains it when it is not told of our ids."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(TEXTS), model_writer=file, minloglevel=2, **settings
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def test_a_model_with_other_special_ids_is_named_and_its_first_tokens_shown(
    tmp_path: Path,
) -> None:
    path = tmp_path / "foreign.model"
    others(path, vocab_size=40)
    with pytest.raises(ModelFolderError, match=rf"{path} .*<pad>.*\['<unk>', '<s>', '</s>'"):
        Subwords.load(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"vocab_size": 40},
        {"vocab_size": 300, "model_type": "bpe", "byte_fallback": True},
        {"vocab_size": 20, "model_type": "char", "pad_id": 3},
        {"vocab_size": 42, "bos_id": -1, "user_defined_symbols": ["<pad>", "kare.", ">>x<<"]},
        {"vocab_size": 40, "control_symbols": ["<2de>"], "unk_piece": "?", "eos_piece": "[end]"},
    ],
    ids=str,
)
def test_any_sentencepiece_model_cuts_text_as_it_did_and_gets_our_ids(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    path = tmp_path / "own.model"
    theirs, ours = others(path, **settings), Subwords.adopt(path)
    assert ours.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    for text in TEXTS[:40]:
        assert ours.pieces(ours.encode(text)) == theirs.EncodeAsPieces(text)
        assert ours.decode(ours.encode(text)) == text
    special = {PAD_ID, BOS_ID, EOS_ID}
    assert not special & set(ours.encode("kare <pad> <s> </s> <2de> tosu"))
    kept = theirs.GetPieceSize() - sum(map(theirs.IsControl, range(theirs.GetPieceSize()))) - 1
    named = "<pad>" in settings.get("user_defined_symbols", [])
    assert len(ours) == 4 + kept - named


@pytest.mark.parametrize(
    ("rule", "known"),
    [("nfkc", "nfkc"), ("nmt_nfkc", "nfkc"), ("nmt_nfkc_cf", "nfkc"), ("identity", "identity")],
)
def test_a_foreign_model_tells_whether_it_normalizes_as_unicode_says(
    tmp_path: Path, rule: str, known: str
) -> None:
    path = tmp_path / "own.model"
    others(path, vocab_size=40, normalization_rule_name=rule)
    assert Subwords.adopt(path).settings["normalization"] == known


def test_a_model_that_has_our_ids_is_adopted_as_it_is(tmp_path: Path, subwords: Subwords) -> None:
    path = tmp_path / "own.model"
    path.write_bytes(subwords.serialized)
    assert Subwords.adopt(path).serialized == subwords.serialized


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"add_dummy_prefix": False}, "add_dummy_prefix"),
        ({"treat_whitespace_as_suffix": True}, "without treat_whitespace_as_suffix"),
        ({"split_by_whitespace": False, "vocab_size": 150}, "split_by_whitespace"),
    ],
)
def test_a_model_that_does_not_mark_where_words_begin_is_refused_with_what_trains_one(
    tmp_path: Path, settings: dict[str, Any], advice: str
) -> None:
    path = tmp_path / "own.model"
    others(path, **{"vocab_size": 40, **settings})
    with pytest.raises(ModelFolderError, match=rf"^{path} .*{advice}"):
        Subwords.adopt(path)


def test_what_the_vocabulary_lacks_is_unlearned_and_nothing_else_is() -> None:
    for byte_fallback in (True, False):
        subwords = trained(byte_fallback=byte_fallback)
        learned, strange = subwords.encode("kare tosu"), subwords.encode("猫")
        assert not subwords.unlearned.intersection(learned)
        # The space before a word is a subword of its own.
        assert len(subwords.unlearned.intersection(strange)) == (3 if byte_fallback else 1)


def test_the_subwords_of_a_word_spell_it(subwords: Subwords) -> None:
    for text in [*TEXTS[:20], *ANY_TEXT.values()]:
        ids, words = subwords.encode(text), subwords.normalized(text).split(" ")
        numbers = subwords.words(ids)
        assert numbers == sorted(numbers)
        for number, word in enumerate(words if ids else []):
            mine = [i for i, each in zip(ids, numbers, strict=True) if each == number]
            assert subwords.decode(mine) == word


def test_words_begin_at_spaces_and_a_space_alone_belongs_to_the_next_word() -> None:
    subwords = trained()
    pieces = dict(
        zip(subwords.pieces(range(4, len(subwords))), range(4, len(subwords)), strict=True)
    )
    space, letter = pieces["\u2581"], pieces["a"]
    begun = next(number for piece, number in pieces.items() if re.match("\u2581.", piece))
    assert subwords.words([letter, letter, begun, letter]) == [0, 0, 1, 1]
    assert subwords.words([space, letter, space, space, begun, space]) == [0, 0, 1, 1, 1, -1]
    assert subwords.words([space]) == [-1]
    assert subwords.words([]) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("kare tosu", [0, 1]),
        ("  kare   tosu ", [0, 1]),
        ("kare\ttosu \ufeffmino", [0, 0, 1]),
        ("\ufeffkare \t tosu", [0, 2]),
        (" \u3000 kare tosu", [1, 2]),
        ("kare\u00a0tosu mino", [0, 0, 1]),  # NFKC makes a space of it
        ("kare\u3000tosu", [0, 0]),
        ("\u2581kare\u2581tosu mino\u2581", [0, 0, 1]),
        ("", []),
    ],
    ids=repr,
)
def test_written_words_are_those_between_the_spaces_of_the_text_itself(
    text: str, numbers: list[int]
) -> None:
    subwords = trained()
    found = subwords.written_words(text)
    assert len(found) == len(subwords.encode(text))
    kept = subwords.words(subwords.encode(text))
    assert [found[kept.index(word)] for word in dict.fromkeys(kept)] == numbers


def test_written_words_are_the_words_of_the_subwords_where_spaces_stay(subwords: Subwords) -> None:
    for text in TEXTS[:30]:
        assert subwords.written_words(text) == subwords.words(subwords.encode(text))


@pytest.mark.parametrize(
    "spaces",
    [
        {"add_dummy_prefix": False},
        {"treat_whitespace_as_suffix": True},
        {"split_by_whitespace": False},
        {"remove_extra_whitespaces": False, "user_defined_symbols": "kare\u2581\u2581tosu"},
    ],
    ids=str,
)
def test_words_of_models_that_place_spaces_otherwise_are_those_of_the_text(
    spaces: dict[str, Any], tmp_path: Path
) -> None:
    """As models of other toolkits may have them."""
    path = tmp_path / "foreign.model"
    others(path, vocab_size=50, hard_vocab_limit=False, **spaces)
    subwords = Subwords(path.read_bytes())
    for text in [*TEXTS[:60], "kare 今", "mino kare  tosu mino"]:
        ids, place, numbers = subwords.encode(text), 0, []
        spelled = "".join(subwords.pieces(ids)).replace("\u2581", " ")
        for piece in subwords.pieces(ids):
            rest = spelled[place:]
            begun = spelled[: len(spelled) - len(rest.lstrip()) + 1]
            numbers.append(len(begun.split()) - 1 if rest.strip() else -1)
            place += len(piece)
        assert subwords.words(ids) == numbers
        assert subwords.written_words(text) == numbers
