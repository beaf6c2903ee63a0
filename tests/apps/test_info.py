"""`seq2seq info`: the card as it stands, the facts behind it, and what is left of older folders."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from test_model_folder import random_model

from seq2seq.cli import main
from seq2seq.model_facts import save_provenance
from seq2seq.model_folder import save_model
from seq2seq.provenance import Provenance

FACTS: Provenance = {
    "commands": ["seq2seq fit --config config.yaml"],
    "software": {"torch": "2"},
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder, in a run folder."""
    save_model(replace(random_model(), provenance=FACTS), tmp_path / "run/model")
    return tmp_path / "run/model"


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["info", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_the_card_of_an_exported_model_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seq2seq.json").write_text("{}")
    assert main(["info", str(tmp_path)]) == 2
    assert "was exported to another library" in capsys.readouterr().err
    (tmp_path / "README.md").write_text("# Translation\n", encoding="utf-8")
    assert shown(capsys, tmp_path) == "# Translation\n"


def test_the_card_is_printed_as_it_stands_also_of_a_run_folder(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "seq2seq fit --config config.yaml" in card
    assert shown(capsys, model) == shown(capsys, model.parent) == card
    (model / "README.md").write_text("My own words.\n")
    assert shown(capsys, model) == "My own words.\n"


def test_json_is_one_object_of_what_the_model_is_and_where_it_comes_from(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = random_model().network
    facts = json.loads(shown(capsys, model.parent, "--json"))
    assert len(facts.pop("card")) == 64
    assert facts == {
        "src_lang": "en",
        "tgt_lang": "de",
        "parameters": sum(p.numel() for p in network.parameters()),
        "architecture": asdict(network.config),
        **FACTS,
    }


def test_a_path_that_is_no_utf8_is_told_as_an_escape(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known: Provenance = {**FACTS, "terms": {"caf\udce9/SOURCE.md": "free"}}
    save_model(replace(random_model(), provenance=known), model)
    for words in ([model, "--json"], [model]):
        assert r"caf\udce9/SOURCE.md" in shown(capsys, *words)
    (model / "README.md").unlink()
    assert r"caf\udce9/SOURCE.md" in shown(capsys, model)


def test_of_an_older_folder_what_its_configuration_tells_is_printed(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("README.md", "provenance.json"):
        (model / name).unlink()
    card = shown(capsys, model)
    assert card.startswith("---\nlanguage:\n- en\n- de\n")
    parameters = sum(p.numel() for p in random_model().network.parameters())
    assert f"1 + 2 layers of width 8 and {parameters:,} parameters" in card
    (block,) = card.split("```yaml\n")[1:]
    assert yaml.safe_load(block.split("```")[0]) == asdict(random_model().network.config)
    facts = json.loads(shown(capsys, model, "--json"))
    assert facts.keys() == {"src_lang", "tgt_lang", "parameters", "architecture"}
    assert {path.name for path in model.iterdir()}.isdisjoint({"README.md", "provenance.json"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("provenance.json", "provenance.json is damaged"),
        ("weights.safetensors", "weights.safetensors is damaged"),
        ("config.json", "config.json is damaged"),
    ],
)
def test_what_is_damaged_is_named(
    model: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    (model / "README.md").unlink()
    (model / name).write_text("{")
    for words in ([], ["--json"]):
        assert main(["info", str(model), *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


@pytest.mark.parametrize("written", range(2))
def test_a_card_whose_writing_was_interrupted_does_not_count_as_edited(
    model: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The facts and the card are two files."""
    assert save_provenance(model, {"license": "MIT"})
    real, done = os.replace, list[Path]()

    def failing(source: Path, target: Path) -> None:
        if len(done) == written:
            raise KeyboardInterrupt
        done.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(KeyboardInterrupt):
            save_provenance(model, {"license": "CC0-1.0"})
    assert save_provenance(model, {"license": "0BSD"})
    assert "0BSD" in (model / "README.md").read_text()


def test_a_card_that_cannot_be_read_is_one_line(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "README.md").unlink()
    (model / "README.md").mkdir()
    assert main(["info", str(model)]) == 2
    assert "README.md cannot be read: Is a directory." in capsys.readouterr().err


def test_what_holds_no_model_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(tmp_path / "nothing")]) == 2
    assert "nothing does not exist; expected a model folder" in capsys.readouterr().err
