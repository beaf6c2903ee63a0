"""The card parses as the hub wants it, and says what the facts say and nothing else."""

import re
from typing import Any, cast

import pytest
import yaml

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.model_card import duration, front_matter, model_card
from seq2seq.provenance import Corpus, Provenance

CONFIG = ModelConfig(src_vocab_size=30, tgt_vocab_size=30, d_model=8, heads=2, encoder_layers=1)
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def corpus(role: Any, name: str = "", **more: Any) -> Corpus:
    file = {"path": f"data/{role}{name}.en", "sha256": role[0] * 64, "lines": 1234}
    facts: dict[str, Any] = {"role": role, "pairs": 1234, "files": [file], **more}
    return cast(Corpus, {**facts, "name": name} if name else facts)


def score(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "value": value, "signature": SIGNATURE}


FACTS: Provenance = {
    "commands": ["seq2seq fit --config config.yaml"],
    "config": {"run": "runs/mine", "training": {"lr": 1e-05}, "data": {"src_lang": "no"}},
    "license": "cc-by-4.0",
    "data": [
        corpus("train", dataset="some/corpus:en-no", split="train", fingerprint="f00d"),
        corpus("validation", scores=[score("BLEU", 30.126)], search={"beam": 2, "alpha": 0.5}),
        corpus("test", "news of 2016", scores=[score("BLEU", 29.0), score("chrF2", 55.5)]),
        corpus("test", "dev", dataset="some/corpus", split="dev", scores=[score("TER", 60.0)]),
    ],
    "terms": {"data/SOURCE.md": "# data\n\n**Licence**: CC BY 2.0 FR\n"},
    "training": {
        "steps": 12000,
        "seconds": 3725.2,
        "hardware": [
            {
                "device": "NVIDIA H100",
                "processes": 2,
                "precision": "bf16-mixed",
                "attention": "fast",
            },
            {
                "device": "AMD EPYC",
                "processes": 1,
                "precision": "32-true",
                "attention": "folded",
                "threads": 2,
            },
        ],
        "changed": {"training.lr": [0.1]},
    },
    "weights": {"kind": "mean of the last 2 checkpoints", "steps": [11000, 12000]},
    "parent": {
        "path": "runs/old",
        "format": "seq2seq",
        "files": [{"path": "runs/old/model/weights.safetensors", "sha256": "9" * 64}],
        "provenance": {
            "data": [corpus("train", "crawl")],
            "parent": {
                "path": "opus",
                "format": "huggingface",
                "files": [],
                "provenance": {"terms": {"b/SOURCE.md": "all rights reserved"}},
            },
        },
    },
    "software": {"seq2seq-lightning": "0.1.0", "commit": "c0ffee"},
}


def card(provenance: Provenance, src: str = "en", tgt: str = "de", **options: str) -> str:
    return model_card(CONFIG, 4321, (src, tgt), provenance, **options)


def header(text: str) -> Any:
    """Parsed as the hub does: YAML between the first two lines of three dashes."""
    assert text.startswith("---\n")
    return yaml.safe_load(text[4 : text.index("\n---\n")])


def test_the_front_matter_has_the_keys_of_the_hub() -> None:
    assert header(card(FACTS)) == {
        "language": ["en", "de"],
        "license": "cc-by-4.0",
        "library_name": "seq2seq-lightning",
        "pipeline_tag": "translation",
        "datasets": ["some/corpus"],
        "metrics": ["bleu", "chrf", "ter"],
        "model-index": [
            {
                "name": "mine",
                "results": [
                    {
                        "task": {"type": "translation", "name": "Translation"},
                        "dataset": {
                            "type": "validation",
                            "name": "validation",
                            "split": "validation",
                        },
                        "metrics": [metric("bleu", "BLEU", 30.13)],
                    },
                    {
                        "task": {"type": "translation", "name": "Translation"},
                        "dataset": {
                            "type": "news-of-2016",
                            "name": "news of 2016",
                            "split": "test",
                        },
                        "metrics": [metric("bleu", "BLEU", 29.0), metric("chrf", "chrF2", 55.5)],
                    },
                    {
                        "task": {"type": "translation", "name": "Translation"},
                        "dataset": {"type": "some/corpus", "name": "dev", "split": "dev"},
                        "metrics": [metric("ter", "TER", 60.0)],
                    },
                ],
            }
        ],
    }


def metric(kind: str, name: str, value: float) -> dict[str, Any]:
    return {"type": kind, "value": value, "name": name, "args": {"signature": SIGNATURE}}


@pytest.mark.export
def test_the_hubs_own_library_reads_the_front_matter_and_its_results() -> None:
    from huggingface_hub import ModelCard

    found: Any = ModelCard(card(FACTS)).data
    assert found.model_name == "mine"
    assert [
        (each.dataset_name, each.metric_type, each.metric_value) for each in found.eval_results
    ] == [
        ("validation", "bleu", 30.13),
        ("news of 2016", "bleu", 29.0),
        ("news of 2016", "chrf", 55.5),
        ("dev", "ter", 60.0),
    ]
    assert (found.language, found.license) == (["en", "de"], "cc-by-4.0")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (("no", "en"), ["no", "en"]),  # which YAML 1.1 would read as false
        (("zh-CN", "pt_BR"), ["zh", "pt"]),
        (("en-GB", "en-US"), ["en"]),
        (("EN", "x"), ["en"]),
        (("", "noinfo"), None),
    ],
)
def test_languages_are_codes_that_the_hub_takes_or_left_out(
    codes: tuple[str, str], expected: list[str] | None
) -> None:
    assert header(card({}, *codes)).get("language") == expected


def test_of_nothing_that_is_not_known_is_there_a_word() -> None:
    text = card({}, "", "")
    assert header(text) == {
        "library_name": "seq2seq-lightning",
        "pipeline_tag": "translation",
    }
    assert re.findall("^#.*", text, re.MULTILINE) == ["# Translation", "## Architecture"]
    assert "None" not in text
    assert "1 + 3 layers of width 8 and 4,321 parameters" in text


def test_every_fact_is_on_the_card() -> None:
    text = card(FACTS)
    for said in (
        "# Translation from en to de",
        "- validation (1,234 sentences, beam 2, alpha 0.5)",
        f"  - BLEU 30.13, `{SIGNATURE}`",
        "- test news of 2016 (1,234 sentences)",
        "- train: 1,234 pairs, Hugging Face dataset `some/corpus:en-no`, split `train`, "
        "fingerprint `f00d`",
        f"  - `data/train.en`: 1,234 lines, SHA-256 `{'t' * 64}`",
        "`data/SOURCE.md` says:\n\n> # data\n>\n> **Licence**: CC BY 2.0 FR\n",
        "- The weights began as those of `runs/old` (seq2seq).",
        f"  - `runs/old/model/weights.safetensors`: SHA-256 `{'9' * 64}`",
        "## Data of `runs/old`\n\n- train crawl: 1,234 pairs",
        "`b/SOURCE.md` says:\n\n> all rights reserved",
        "- Weights: mean of the last 2 checkpoints (steps 11,000, 12,000).",
        "- Training: 12,000 steps, 1 h 02 min.",
        "- Hardware: NVIDIA H100, 2 processes, bf16-mixed, fast attention.",
        "- Hardware: AMD EPYC, 2 threads, 32-true, folded attention.",
        "- Before it was stopped and went on, `training.lr` was [0.1].",
        "- Software: seq2seq-lightning 0.1.0, commit c0ffee.",
        "```bash\nseq2seq fit --config config.yaml\n```",
    ):
        assert said in text, said
    blocks = re.findall("```yaml\n(.*?)```", text, re.DOTALL)
    architecture, config = map(yaml.safe_load, blocks)
    assert ModelConfig(**architecture) == CONFIG
    assert config == FACTS["config"]


def test_weights_that_were_not_trained_on_are_those_of_their_parent() -> None:
    facts: Provenance = {"parent": {"path": "opus", "format": "huggingface", "files": []}}
    assert "- The weights are those of `opus` (huggingface)." in card(facts)


def test_only_settings_of_the_search_that_are_not_the_default_are_told() -> None:
    search = {"beam": 5, "n_best": 1, "alpha": SearchConfig().alpha, "no_repeat_ngram": 3}
    data = [corpus("test", "news", scores=[score("BLEU", 1)], search=search)]
    assert "- test news (1,234 sentences, beam 5, no_repeat_ngram 3)\n" in card({"data": data})


def test_another_library_has_its_own_name_and_usage() -> None:
    text = card({}, library="transformers", usage="Call it.\n")
    assert header(text)["library_name"] == "transformers"
    assert "Call it." in text
    assert "Translator" not in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599, "59 min 59 s"),
        (3599.7, "1 h 00 min"),
        (3725, "1 h 02 min"),
        (90059, "25 h 01 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlicense: mit\n---\n# Title\n", {"license": "mit"}),
        ("---\nlicense: mit\n--- \n", {"license": "mit"}),
        ("# Title\n\n---\nlicense: mit\n---\n", {}),
        ("---\nlicense: [mit\n---\n", {}),
        ("---\njust text\n---\n", {}),
        ("---\nno end", {}),
        ("", {}),
    ],
)
def test_the_front_matter_of_any_card_is_read(text: str, expected: dict[str, str]) -> None:
    assert front_matter(text) == expected
