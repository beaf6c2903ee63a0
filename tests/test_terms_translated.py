"""Terms on the whole trip, from flags to translated lines; counting in the text is the oracle."""

import argparse
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pages import blocks, commands_in, page
from test_translator import TEXTS, Echo, random_network, searching

from seq2seq import translator as translator_module
from seq2seq.apps.rows import Line
from seq2seq.apps.term_flags import Requirements, add_term_flags
from seq2seq.cli import main
from seq2seq.config import SearchConfig, SubwordConfig
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import NativeEngine
from seq2seq.interop.formats import TARGETS
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.nn.transformer import Transformer
from seq2seq.sentence import Sentence
from seq2seq.text.glossary import Glossary
from seq2seq.text.subwords import Subwords, train_subwords
from seq2seq.text.terms import not_held
from seq2seq.translator import Translator

GUIDE = page("docs/terms.md")
URL, MAIL, TAG, NUMBER = "https://a.b/straße?x=今", "kare@tosu.de", "<b>", "5 km"
LINES = [
    f"kare {URL} tosu, {URL}.",
    f"mino ({MAIL}) {TAG}karela</b>",
    f"{NUMBER} tosu",
    "kare karela tosu",
    "",
    "mino",
]


@pytest.fixture(scope="module")
def model() -> SavedModel:
    subwords = Subwords(train_subwords(TEXTS, SubwordConfig(), 300))
    size = {"src_vocab_size": len(subwords), "tgt_vocab_size": len(subwords)}
    network = random_network.__wrapped__(7, **size)
    assert isinstance(network, Transformer)
    return SavedModel(network, subwords, subwords)


@pytest.mark.parametrize("beam", [1, 3])
def test_every_term_is_there_as_often_as_listed_and_other_sentences_do_not_notice(
    model: SavedModel, beam: int
) -> None:
    translator = Translator(
        NativeEngine(model.network), model.src_subwords, model.tgt_subwords, searching(beam)
    )
    rng = random.Random(0)
    sentences = [
        Sentence(text, terms=rng.choices([URL, MAIL, TAG, NUMBER, "karela", "kare"], k=n % 4))
        for n, text in enumerate(TEXTS[:12])
    ]
    found = translator.translate(sentences)
    assert not [s for s, text in zip(sentences, found, strict=True) if not_held(s.terms, text)]
    assert found[::4] == translator.translate(TEXTS[:12:4])
    assert found[1] == translator.translate(sentences[1:2])[0]


def test_the_terms_of_a_split_line_are_asked_for_where_their_sources_stand(
    model: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator_module, "Terms", lambda terms, _: sorted(terms))
    asked: list[tuple[str, object]] = []

    subwords = model.src_subwords

    class Recorder(Echo):
        def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
            for each in sorted(batch, key=lambda each: each.place):
                asked.append((subwords.decode(each.src), each.constraint))
            return super().search(batch, config)

    pieces = ["kare tosu mino tosu.", f"karela {TAG} tosu karela.", "mire kasu; toreno tola."]
    limit = max(len(subwords.encode(piece)) for piece in pieces) + 1
    translator = Translator(Recorder(), subwords, subwords, max_length=limit)
    sentence = Sentence("\x00 " + " ".join(pieces), terms=["mino"])
    requirements = Requirements(Glossary({"toreno": "Tor", "tosu": "Haus"}), ("tag",))
    translator.translate([requirements.of_line(Line(sentence, {})).sentence])
    wanted = ["Haus", "Haus", "mino"], [TAG, "Haus"], ["Tor"]
    assert asked == list(zip(pieces, wanted, strict=True))


def test_a_term_that_a_line_names_and_a_flag_finds_is_held_as_often_as_the_more_of_them() -> None:
    requirements = Requirements(Glossary({"tosu": "Haus", "kare": "Tor"}), ("tag",))
    own = Sentence(f"tosu {TAG} tosu kare", terms=[f" {TAG}", "mino", "Tor", "Tor", "Haus"])
    found = requirements.of_line(Line(own, {})).sentence
    assert Counter(found.terms) == {"Haus": 2, TAG: 1, "Tor": 2, "mino": 1}
    places = dict(zip(found.origins, found.terms, strict=False))
    assert places == {0: "Haus", 5: TAG, 9: "Haus", 14: "Tor"}


def translated(
    folder: Path, capsys: pytest.CaptureFixture[str], *flags: str, status: int = 0
) -> tuple[list[str], str]:
    (folder / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    assert main(["translate", str(folder), str(folder / "text"), "--beam", "2", *flags]) == status
    said = capsys.readouterr()
    return said.out.splitlines(), said.err


@pytest.fixture
def folder(model: SavedModel, tmp_path: Path) -> Path:
    save_model(model, tmp_path)
    return tmp_path


def test_flags_keep_urls_addresses_and_tags_and_say_terms_as_the_glossary_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "terms.tsv").write_text("kare\tTor\nmino\tder Mann\n", encoding="utf-8")
    found, said = translated(
        folder, capsys, "--protect", "--glossary", str(folder / "terms.tsv"), "--device", "cpu"
    )
    assert said == ""
    assert len(found) == len(LINES)
    for span in (URL, MAIL, TAG, "</b>"):
        assert [line.count(span) for line in found] == [line.count(span) for line in LINES]
    assert [len(re.findall(r"\bTor\b", line)) for line in found] == [1, 0, 0, 1, 0, 0]
    assert [len(re.findall(r"\bder Mann\b", line)) for line in found] == [0, 1, 0, 0, 0, 1]


def test_numbers_are_kept_if_asked_for_and_without_flags_nothing_changes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, _ = translated(folder, capsys)
    protected, _ = translated(folder, capsys, "--protect", "number")
    assert [line == other for line, other in zip(plain, protected, strict=True)] == [
        True, True, False, True, True, True
    ]  # fmt: skip
    assert protected[2].count(NUMBER) == 1


def test_lines_whose_terms_cannot_be_had_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subwords = Subwords(train_subwords(TEXTS, SubwordConfig(byte_fallback=False), 40))
    save_model(SavedModel(random_network(), subwords, subwords), tmp_path)
    found, said = translated(tmp_path, capsys, "--protect")
    assert len(found) == len(LINES)
    assert "lines with terms or protected parts: 2;" in said
    assert said.endswith(": 2\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--glossary", "{}/broken"], r"--glossary \S*/broken line 2 has 1 columns"),
        (["--glossary", "{}/missing"], r"missing does not exist"),
    ],
)
def test_a_glossary_that_cannot_be_used_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    (folder / "broken").write_text("a\tb\nc\n")
    found, error = translated(folder, capsys, *(f.format(folder) for f in flags), status=2)
    assert found == []
    assert re.search(said, error)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--sample"], "leave out --sample"),
        (["--diversity-groups", "5"], "leave out --diversity-groups 5"),
        *((["--engine", name], f"--engine {name} holds") for name in TARGETS if name != "onnx"),
    ],
    ids=str,
)
@pytest.mark.parametrize("terms", [["--protect"], ["--glossary", "g"], ["--protect", "url"]])
def test_a_search_without_terms_is_refused_before_anything_is_loaded(
    terms: list[str], flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "no-model", "no-input", *terms, *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {terms[0]}: ")
    assert said in error
    assert error.count("\n") == 1


def test_an_unknown_kind_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["translate", "model", "--protect", "urls"])
    assert stop.value.code == 2
    assert "--protect: invalid choice: 'urls'" in capsys.readouterr().err


def test_every_command_of_the_guide_runs_and_shows_every_flag(
    model: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(model, Path("runs/mine"))
    (glossary,) = (each for each in blocks(GUIDE, "text") if "\t" in each)
    Path("terms.tsv").write_text(glossary)
    Path("page.en").write_text(f"a car {TAG}\nthe car park {URL}\n5 km\n", encoding="utf-8")
    asked = [["<b>"], [URL], []], [[], [URL], ["5 km"]], [["Fahrzeug", TAG], ["Parkplatz", URL], []]
    commands = [line.split() for line in commands_in(GUIDE)]
    for words, terms in zip(commands, asked, strict=True):
        assert main(words[1:]) == 0
        lines = Path("page.de").read_text(encoding="utf-8").splitlines()
        assert [not_held(*pair) for pair in zip(terms, lines, strict=True)] == [[], [], []]
    parser = argparse.ArgumentParser(add_help=False)
    add_term_flags(parser)
    flags = {flag for each in parser._actions for flag in each.option_strings}
    assert flags <= {word for words in commands for word in words}


def test_the_python_of_the_guide_runs(
    model: SavedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(model, Path("runs/mine"))
    (example,) = (each for each in blocks(GUIDE, "text") if "import Translator" in each)
    exec(compile(example, "guide", "exec"), {})
    assert not not_held(["Fahrzeug", "example.org"], capsys.readouterr().out)
