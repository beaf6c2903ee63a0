"""A Hugging Face folder says what our model says: to the log-probability, or it is refused."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import SETTINGS, SRC, TGT, greedy, log_probs, random_model
from torch import Tensor

from seq2seq.config import EOS_ID, PAD_ID, SearchConfig
from seq2seq.data.batch import make_batch, pad
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError
from seq2seq.interop.huggingface import export, obstacles
from seq2seq.nn.transformer import Transformer
from seq2seq.translator import Translator

pytestmark = [
    pytest.mark.export,
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]

REFUSED: dict[str, list[dict[str, Any]]] = {
    "pre": [{"activation": "swiglu"}, {"head_dim": 3}, {"tgt_vocab_size": 34}],
    "post": [{"activation": "swiglu"}, {"head_dim": 3}, {"positions": "learned"}],
}
CLASSES = {"pre": "PegasusForConditionalGeneration", "post": "MarianMTModel"}


def refused(settings: dict[str, Any]) -> list[str]:
    """Settings that a target of this norm cannot represent."""
    return [
        f"{name}={value}" if name != "tgt_vocab_size" else f"{value} target"
        for setting in REFUSED[settings["norm"]]
        for name, value in setting.items()
        if settings.get(name) == value
    ]


def load(folder: Path) -> Any:
    from transformers import AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM.from_pretrained(folder)


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def their_log_probs(theirs: Any, network: Transformer) -> Tensor:
    batch = make_batch(SRC, TGT, network.start_id)
    with torch.no_grad():
        logits: Tensor = theirs(
            input_ids=batch.src,
            attention_mask=(batch.src != PAD_ID).long(),
            decoder_input_ids=batch.tgt_in,
        ).logits
    return logits.log_softmax(-1)


def their_greedy(theirs: Any) -> list[list[int]]:
    src, _ = pad([[*ids, EOS_ID] for ids in SRC])
    found = theirs.generate(
        input_ids=src, attention_mask=(src != PAD_ID).long(), max_new_tokens=12
    )[:, 1:].tolist()
    return [ids[: ids.index(EOS_ID) + 1] for ids in found]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting_is_exported_with_equal_scores_or_refused_by_name(
    settings: dict[str, Any], norm: str, tmp_path: Path
) -> None:
    saved = random_model(norm=norm, **settings)
    found = obstacles(saved.network.config)
    expected = refused({**settings, "norm": norm})
    assert len(found) == len(expected)
    assert all(name in text for name, text in zip(expected, found, strict=True))
    if found:
        return
    export(saved, tmp_path)
    theirs = load(tmp_path)
    assert type(theirs).__name__ == CLASSES[norm]
    torch.testing.assert_close(
        their_log_probs(theirs, saved.network), log_probs(saved.network), rtol=1e-5, atol=2e-5
    )
    assert their_greedy(theirs) == greedy(saved.network)


def test_all_that_stands_in_the_way_is_said_together() -> None:
    config = random_model(
        norm="pre", activation="swiglu", head_dim=3, tie="none", tgt_vocab_size=34
    ).network.config
    found = obstacles(config)
    assert len(found) == 3
    assert all("train with" in text for text in found)


TRICKY = [
    "kareno tosula",
    "  two   spaces  ",
    "Ünïcödé \uff46\uff55\uff4c\uff4c ﬁ ½",
    "\u4e2d\u6587 \U0001f600",
    "",
    "a<s>b",
    "x >>de<< y",
]


@pytest.mark.parametrize("sizes", [(300, 300), (300, 296), (30, 30)], ids=str)
def test_the_tokenizer_gives_our_ids_and_our_text(sizes: tuple[int, int], tmp_path: Path) -> None:
    tie = "all" if sizes[0] == sizes[1] else "none"
    saved = random_model(sizes[0], tgt_vocab_size=sizes[1], tie=tie, norm="post")
    export(saved, tmp_path)
    theirs = tokenizer(tmp_path)
    for text in TRICKY:
        ids, targets = saved.src_subwords.encode(text), saved.tgt_subwords.encode(text)
        assert theirs(text).input_ids == [*ids, EOS_ID]
        assert theirs(text_target=text).input_ids == [*targets, EOS_ID]
        written = theirs.decode([2, *targets, EOS_ID, PAD_ID], skip_special_tokens=True)
        unknown = 1 in targets  # theirs leaves an unknown piece out
        assert written == saved.tgt_subwords.decode([i for i in targets if i != 1]) or unknown


def test_the_example_of_the_model_card_prints_our_greedy_translation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = random_model(300, positions="learned", max_positions=30)
    export(saved, tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(card.split("```python\n")[1].split("```")[0], {})
    translator = Translator(
        NativeEngine(saved.network),
        saved.src_subwords,
        saved.tgt_subwords,
        SearchConfig(beam=1, max_length_offset=30),
    )
    assert capsys.readouterr().out == f"{translator.translate(['A sentence.'])}\n"
    assert "- en\n- de\n" in card
    assert "PegasusForConditionalGeneration" in card
    assert "more than 30 subwords" in card


def test_without_transformers_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"transformers .*'seq2seq-lightning\[huggingface\]'"):
        export(random_model(), tmp_path)
    assert not list(tmp_path.iterdir())
