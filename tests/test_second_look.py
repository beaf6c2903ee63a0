"""A second look must see what the search saw; the network, asked about one pair, is the oracle."""

import math
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from test_translator import (
    LINES,
    TEXTS,
    Echo,
    log_probs_of,
    maps_of_one,
    random_network,
    random_translator,
    searching,
    subwords,
)
from torch import Tensor

from seq2seq import engine
from seq2seq.config import EOS_ID, UNK_ID
from seq2seq.data.batch import Ids
from seq2seq.decoding.alignment import align
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError, SentenceError
from seq2seq.translation import BLANK, Translation
from seq2seq.translator import Translator

PATIENCE = 60
"""Seconds that batches wait for each other."""


def translator_of(network: Any, **options: Any) -> Translator:
    return Translator(NativeEngine(network), subwords(), subwords(), searching(3), **options)


@pytest.mark.parametrize("settings", [{}, {"start_token": "pad", "norm": "post"}], ids=str)
@pytest.mark.parametrize("beam", [1, 4])
def test_token_scores_add_up_to_what_the_search_found(beam: int, settings: dict[str, Any]) -> None:
    translator = translator_of(random_network(1, **settings)).with_config(
        searching(beam, n_best=beam, alpha=0.0)
    )
    texts = [line for line in LINES if line.strip()]
    found = [(t, each) for t, n in zip(texts, translator.n_best(texts), strict=True) for each in n]
    scores = translator.score([text for text, _ in found], [each for _, each in found])
    assert len(scores) == beam * len(texts)
    for (_, translation), each in zip(found, scores, strict=True):
        assert each.total == pytest.approx(translation.score, abs=1e-4)
        assert each.tokens == [*subwords().pieces(translation.tokens or []), "</s>"]


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
@pytest.mark.parametrize("width", [3, 1024])
def test_the_score_of_each_token_is_that_of_the_pair_alone(
    batch_tokens: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SLICE", width)
    sentences, said = [*TEXTS[:9], "", "kare"], [*TEXTS[20:28], "", "mino", ""]
    network = random_network(2)
    scores = translator_of(network, batch_tokens=batch_tokens).score(sentences, said)
    for sentence, text, each in zip(sentences, said, scores, strict=True):
        src, tgt = subwords().encode(sentence), subwords().encode(text)
        expected = log_probs_of(network, src, tgt)[range(len(tgt) + 1), [*tgt, EOS_ID]]
        assert each.log_probs == pytest.approx(expected.tolist(), abs=1e-5)
        assert each.tokens == [*subwords().pieces(tgt), "</s>"]
        assert each.total == pytest.approx(float(expected.sum()), abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_batches_that_are_looked_at_fill_the_budget_with_their_longer_sides_or_are_one_pair(
    batch_tokens: int,
) -> None:
    asked = list[tuple[int, int]]()

    class Watched(NativeEngine):
        def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
            asked.append((len(src), max(len(ids) + 1 for ids in [*src, *tgt])))
            return super().log_probs(src, tgt)

    network = random_network()
    translator = Translator(Watched(network), subwords(), subwords(), batch_tokens=batch_tokens)
    translator.score(TEXTS[:40], TEXTS[40:80])
    assert sum(pairs for pairs, _ in asked) == 40
    assert all(pairs == 1 or pairs * longest <= batch_tokens for pairs, longest in asked)
    assert all((pairs + 1) * longest > batch_tokens for pairs, longest in asked[:-1])


def test_as_many_batches_are_looked_at_at_once_as_the_engine_allows() -> None:
    together = threading.Barrier(2)

    class Meeting(NativeEngine):
        parallel = 2

        def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
            together.wait(PATIENCE)
            return super().log_probs(src, tgt)

    translator = Translator(Meeting(random_network()), subwords(), subwords(), batch_tokens=1)
    said = TEXTS[10:18]
    found = [each.total for each in translator.score(TEXTS[:8], said)]
    expected = [each.total for each in random_translator().score(TEXTS[:8], said)]
    assert found == pytest.approx(expected, abs=1e-4)


def test_what_no_search_can_say_has_no_probability_and_others_no_more_for_it() -> None:
    said = "kare 今 tosu"
    ids = subwords().encode(said)
    assert UNK_ID in ids
    (scores,) = random_translator().score(["mino"], [said])
    expected = log_probs_of(random_network(), subwords().encode("mino"), ids)
    for token, found, row in zip([*ids, EOS_ID], scores.log_probs, expected, strict=True):
        assert found == pytest.approx(-math.inf if token == UNK_ID else float(row[token]), abs=1e-5)
    assert scores.total == -math.inf


def test_the_subwords_that_were_said_are_scored_not_those_that_spell_the_same() -> None:
    whole = subwords().encode("karela")
    letters = [subwords().encode(letter)[-1] for letter in "karela"]
    spelled = [subwords().encode("k")[0], *letters]
    assert subwords().decode(spelled).strip() == "karela"
    assert spelled != whole
    translator = random_translator()
    texts = ["mino", "mino", "mino"]
    said: list[str | Translation] = [Translation("karela", 0.0, spelled)]
    said += [Translation("karela", 0.0), "karela"]
    (as_said, encoded, text) = translator.score(texts, said)
    assert as_said.tokens == [*subwords().pieces(spelled), "</s>"]
    assert encoded.tokens == text.tokens
    assert encoded.log_probs == pytest.approx(text.log_probs, abs=1e-4)
    assert text.tokens == [*subwords().pieces(whole), "</s>"]


def test_of_a_blank_line_nothing_was_said_so_nothing_is_scored() -> None:
    translator = random_translator()
    (found,) = translator.n_best([" "])
    assert found == [BLANK]
    blank, forced = translator.score([" ", " "], [*found, ""])
    assert (blank.tokens, blank.log_probs, blank.total) == ([], [], 0.0)
    assert forced.tokens == ["</s>"]
    assert translator.align([" "], found) == [[]]
    assert translator.score([], []) == []
    assert translator.align([], []) == []


def test_alignments_are_those_of_the_weights_in_the_words_of_both_texts() -> None:
    network = random_network(3)
    sentences, said = ["kare tosu\u00a0mino", *TEXTS[5:12]], ["mino\u00a0kare", *TEXTS[40:47]]
    found = translator_of(network, batch_tokens=40).align(sentences, said)
    for sentence, text, links in zip(sentences, said, found, strict=True):
        src, tgt = subwords().encode(sentence), subwords().encode(text)
        words = (subwords().written_words(each) for each in (sentence, text))
        expected = align(maps_of_one(network, src, tgt), *([*each, -1] for each in words))
        assert links == expected
        assert [word for _, word in sorted(links, key=lambda link: link[1])] == list(
            range(len(text.split(" ")))
        )
        assert all(0 <= src_word < len(re.findall("[^ ]+", sentence)) for src_word, _ in links)


def test_found_translations_are_aligned_by_the_words_of_their_own_subwords() -> None:
    translator = random_translator(searching(2, n_best=2))
    texts = [text for text in TEXTS[:12] for _ in range(2)]
    said = [each for found in translator.n_best(TEXTS[:12]) for each in found]
    for translation, links in zip(said, translator.align(texts, said), strict=True):
        words = len(translation.text.split())
        assert {tgt for _, tgt in links} == set(range(words))


def test_too_long_a_line_is_named_by_its_number_in_the_whole() -> None:
    learned = translator_of(random_network(4, positions="learned", max_positions=9))
    long = "karela " * 9
    with pytest.raises(SentenceError, match=r"^translation 12 has 1\d subwords.* end at 9;"):
        learned.score(["kare", "kare"], ["kare", long], first=11)
    with pytest.raises(SentenceError, match=r"^sentence 11 has"):
        learned.score([long, "kare"], ["kare", long], first=11)
    with pytest.raises(SentenceError, match=r"^translation 1 has"):
        learned.align(["kare"], [long])


class Tight(NativeEngine):
    """Has memory for so many tokens of a batch, on its longer side."""

    memory = 24

    def cross_attention(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        self.take(src, tgt)
        return super().cross_attention(src, tgt)

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        self.take(src, tgt)
        return super().log_probs(src, tgt)

    def take(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> None:
        if len(src) * max(len(ids) + 1 for ids in [*src, *tgt]) > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_batch_beyond_the_memory_is_halved_and_a_pair_that_does_not_fit_is_shown() -> None:
    translator = random_translator()
    tight = Translator(Tight(random_network()), subwords(), subwords(), searching(3))
    sentences, said = TEXTS[:9], TEXTS[20:29]
    for mine, other in zip(*(t.score(sentences, said) for t in (tight, translator)), strict=True):
        assert mine.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    assert tight.align(sentences, said) == translator.align(sentences, said)
    long = " ".join(["karela"] * Tight.memory)
    counts = [len(subwords().encode(text)) + 1 for text in (long, "mino")]
    said_of_it = "^'karela .*…': its {} subwords and the {} of its translation".format(*counts)
    for ask in (tight.score, tight.align, tight.attention):
        with pytest.raises(SentenceError, match=said_of_it):
            ask(["kare", long], ["kare", "mino"])


@pytest.mark.parametrize("parallel", [0, 1])
def test_a_second_look_is_taken_in_the_precision_of_the_caller(
    parallel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeEngine, "parallel", parallel)
    translator = random_translator()
    (plain,) = translator.score(["kare tosu"], ["mino"])
    with torch.autocast("cpu", torch.bfloat16):
        (half,) = translator.score(["kare tosu"], ["mino"])
        (there,) = translator.engine.log_probs(  # type: ignore[attr-defined]
            [subwords().encode("kare tosu")], [subwords().encode("mino")]
        )
    assert half.log_probs == there.tolist()
    assert half.log_probs != plain.log_probs


def test_as_many_translations_as_sentences_are_looked_at() -> None:
    translator = random_translator()
    for ask in (translator.score, translator.align, translator.attention):
        with pytest.raises(SentenceError, match=r"^sentences: 2, but translations: 1; .* n\.$"):
            ask(["kare", "mino"], ["tosu"])


@pytest.mark.parametrize("wrong", [None, b"kare", [Translation("kare", 0.0)]])
def test_what_is_no_translation_is_named_by_its_number_and_type(wrong: Any) -> None:
    said = f"^translation 2 is of type {type(wrong).__name__}; give a str or a Translation"
    for look in (random_translator().score, random_translator().align):
        with pytest.raises(SentenceError, match=said):
            look(["kare", "mino"], ["mino", wrong])
    with pytest.raises(SentenceError, match=r"^sentence 8 is of type NoneType; give a str\."):
        random_translator().score(["kare", None], ["mino", "kare"], 7)  # type: ignore[list-item]


def test_another_engine_is_not_asked_what_it_cannot_tell() -> None:
    translator = Translator(Echo(), subwords(), subwords())
    with pytest.raises(ConfigError, match="Echo does not tell how likely each token is"):
        translator.score(["kare"], ["kare"])
    for ask in (translator.align, translator.attention):
        with pytest.raises(ConfigError, match="Echo does not tell where each layer and head looks"):
            ask(["kare"], ["kare"])


def test_a_network_that_has_diverged_scores_no_number() -> None:
    network = random_network(5)
    with torch.no_grad():
        network.output.weight.fill_(math.nan)
    assert math.isnan(translator_of(network).score(["kare"], ["tosu"])[0].total)
