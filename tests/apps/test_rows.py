"""What `seq2seq translate` reads and writes: columns of text, fields of JSON, heat maps."""

import json
import math
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from test_plot import save_tiny_model

from seq2seq.apps.attention import MOST_SENTENCES
from seq2seq.apps.rows import (
    Line,
    format_of,
    pharaoh,
    read_json,
    read_text,
    write_json,
)
from seq2seq.cli import main
from seq2seq.config import SearchConfig
from seq2seq.data.json_lines import json_fields
from seq2seq.errors import CorpusError
from seq2seq.interop.formats import TARGETS
from seq2seq.sentence import Sentence
from seq2seq.translator import Translator

TEXTS = ["kare mino", "", "mino & kare script", "<kare>"]
RECORDS: list[dict[str, Any]] = [
    {"id": 7, "text": "kare mino", "translation": "old", "deep": {"a": [1, None, True, 0.1]}},
    {"text": "", "note": "blank, \u4eca"},
    {"src": "mino & kare script", "tgt": "in no way"},
    {"text": "<kare>", "src": "not this", "prefix": "mino ka"},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in run/, the same sentences as text and as JSON."""
    monkeypatch.chdir(tmp_path)
    save_tiny_model(Path("run/model"))
    Path("in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    Path("in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))
    return tmp_path


def translator(beam: int = 5, n_best: int = 1, **options: Any) -> Translator:
    return Translator.load("run", SearchConfig(beam=beam, n_best=n_best), device="cpu", **options)


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["translate", "run", *arguments, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines.pop() == ""
    return lines


def objects_of(path: str) -> list[dict[str, Any]]:
    text = Path(path).read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_what_is_asked_for_are_columns_behind_the_translation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = rows_of(capsys, "in.txt")
    assert plain == translator().translate(TEXTS)
    (found,) = zip(*translator().n_best(TEXTS), strict=True)
    aligned = list(map(pharaoh, translator().align(TEXTS, found)))
    assert aligned[1] == ""
    assert rows_of(capsys, "in.txt", "--alignment") == [
        f"{text}\t{links}" for text, links in zip(plain, aligned, strict=True)
    ]
    for row, text, links, scores in zip(
        rows_of(capsys, "in.txt", "--alignment", "--token-scores"),
        plain,
        aligned,
        translator().score(TEXTS, found),
        strict=True,
    ):
        columns = row.split("\t")
        assert columns[:3] == [text, links, " ".join(scores.tokens)]
        assert list(map(float, columns[3].split())) == pytest.approx(scores.log_probs, abs=6e-5)


def test_of_n_best_each_has_its_own_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, "in.txt", "--n-best", "2", "--alignment")
    expected = []
    for number, found in enumerate(translator(n_best=2).n_best(TEXTS)):
        for each in found:
            (links,) = translator().align([TEXTS[number]], [each])
            expected.append(f"{number}\t{each.score:.4f}\t{each.text}\t{pharaoh(links)}")
    assert rows == expected
    assert len(rows) == 7


def test_objects_come_back_with_their_fields_and_the_translation() -> None:
    assert main(["translate", "run", "in.jsonl", "--output", "out.jsonl", "--device", "cpu"]) == 0
    sentences = [Sentence(text) for text in TEXTS[:3]]
    sentences.append(Sentence(TEXTS[3], prefix="mino ka"))
    found = [each[0] for each in translator().n_best(sentences)]
    assert found[3].text.startswith("mino ka")
    rows = objects_of("out.jsonl")
    assert rows == [
        {**record, "translation": each.text, "score": pytest.approx(each.score, abs=1e-6)}
        for record, each in zip(RECORDS, found, strict=True)
    ]
    assert list(rows[0]) == ["id", "text", "deep", "translation", "score"]


def test_what_an_earlier_run_told_is_not_handed_on(capsys: pytest.CaptureFixture[str]) -> None:
    formats = ["--input-format", "jsonl", "--output-format", "jsonl"]
    for earlier, later in permutations([[], ["--alignment", "--token-scores"], ["--n-best=2"]], 2):
        command = ["translate", "run", "in.jsonl", "--output", "first.jsonl", "--device", "cpu"]
        assert main([*command, *earlier]) == 0
        again = rows_of(capsys, "first.jsonl", *formats, *later)
        assert again == rows_of(capsys, "in.jsonl", *formats, *later)


def test_text_becomes_objects_and_objects_become_text(capsys: pytest.CaptureFixture[str]) -> None:
    extras = ["--alignment", "--token-scores", "--n-best", "2"]
    command = ["translate", "run", "in.txt", "--output", "out.jsonl", "--device", "cpu", *extras]
    assert main(command) == 0
    rows = iter(rows_of(capsys, "in.txt", *extras))
    for text, record in zip(TEXTS, objects_of("out.jsonl"), strict=True):
        assert list(record) == ["text", "translations"]
        assert record["text"] == text
        for each in record["translations"]:
            columns = next(rows).split("\t")
            assert columns[2:4] == [each["translation"], each["alignment"]]
            assert columns[4].split() == each["tokens"]
            assert len(each["tokens"]) == len(each["token_scores"])
            total = sum(each["token_scores"]) / max(1, len(each["tokens"]))
            assert each["score"] == pytest.approx(total, abs=1e-4)
    prefixless = rows_of(capsys, "in.txt")
    assert rows_of(capsys, "in.jsonl")[:3] == prefixless[:3]


def test_formats_can_be_named_where_there_is_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b'{"text": "kare"}\n')))
    formats = ["--input-format", "jsonl", "--output-format", "jsonl"]
    (row,) = map(json.loads, rows_of(capsys, *formats))
    assert row["translation"] == translator().translate(["kare"])[0]
    assert [format_of(name) for name in (None, "a.txt", "a.jsonl", "b/a.JSONL.gz", ".jsonl")] == [
        "text",
        "text",
        "jsonl",
        "jsonl",
        "text",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "is blank; expected one JSON object"),
        ('{"text": "a"', "column 13 is not JSON"),
        ('["a"]', r"is \['a'\]; expected a JSON object"),
        ('{"txt": "a", "id": 7}', r'has no field "text" or "src"; its fields are "txt", "id"\.'),
        ("{}", r"its fields are \(none\)"),
        ('{"text": 7}', '"text" is 7, not text'),
        ('{"text": null, "src": "a"}', '"text" is None, not text'),
        ('{"src": "a", "prefix": ["b"]}', r"\"prefix\" is \['b'\], not text"),
        ('{"src": "a", "terms": "b"}', r"\"terms\" is 'b', not a list of texts"),
        ('{"src": "a", "terms": ["b", 1]}', r"\"terms\" is \['b', 1\], not a list of texts"),
    ],
)
def test_a_bad_object_is_told_with_its_line_and_nothing_is_written(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CorpusError, match=f"^x line 3:? .*{said}"):
        read_json(line, "x line 3")
    Path("bad.jsonl").write_text(f'{{"text": "kare"}}\n{line}\n')
    assert main(["translate", "run", "bad.jsonl", "--output", "out.txt"]) == 2
    assert capsys.readouterr().err.startswith("error: bad.jsonl line 2")
    assert not Path("out.txt").exists()


@pytest.mark.parametrize(
    ("begin", "end", "depth", "status"),
    [
        ("[", "]", 100, 0),
        ("[", "]", 5000, 2),
        ('{"a": ', "}", 100, 0),
        ('{"a": ', "}", 600, 2),
        ('{"a": ', "}", 5000, 2),
    ],
)
def test_what_is_nested_too_deep_is_told_and_the_rest_handed_on(
    begin: str, end: str, depth: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = f"{begin * depth}1{end * depth}"
    Path("deep.jsonl").write_text(f'{{"text": "kare", "deep": {deep}}}\n')
    command = ["translate", "run", "deep.jsonl", "--output", "out.jsonl", "--device", "cpu"]
    assert main(command) == status
    if status == 0:
        assert f'"deep": {deep}, "translation": ' in Path("out.jsonl").read_text()
    else:
        said = "error: deep.jsonl line 1 cannot be read: maximum recursion depth exceeded"
        assert capsys.readouterr().err.startswith(said)


def test_what_is_handed_on_stays_as_it_came_and_what_is_no_number_is_null() -> None:
    line = '{"text": "a", "half": "\\ud800", "big": 123456789012345678901234567890, "x": 1.5e-9}'
    far = '{"text": "a", "far": 1e999, "deep": {"list": [{"y": NaN}]}}'
    (row,) = write_json(0, read_json(far, ""), [{"translation": "b"}], 1)
    nulls = {"far": None, "deep": {"list": [{"y": None}]}}
    assert json.loads(row, parse_constant=pytest.fail) == {"text": "a", "translation": "b", **nulls}
    told = {"translation": "b", "score": -math.inf, "token_scores": [math.nan, -1.5]}
    (row,) = write_json(0, read_json(line, ""), [told], 1)
    assert row.encode()
    expected = {"translation": "b", "score": None, "token_scores": [None, -1.5]}
    assert json.loads(row) == {**json.loads(line), **expected}
    assert json_fields(told) == expected
    (readable,) = write_json(0, read_text("\u4eca \u2028", ""), [{"translation": "\u00e4"}], 1)
    assert readable == '{"text": "\u4eca \u2028", "translation": "\u00e4"}'
    assert read_text("  a\t", "") == Line(Sentence("  a\t"), {"text": "  a\t"})


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_minimum_bayes_risk_chooses_by_what_the_model_would_say_otherwise(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    oracles: dict[str, Any] = {"chrf": sacrebleu.sentence_chrf, "bleu": sacrebleu.sentence_bleu}
    oracle = oracles[name]
    rows = rows_of(capsys, "in.txt", "--mbr", name, "--beam", "6", "--n-best", "2")
    for number, candidates in enumerate(translator(6, 6).n_best(TEXTS)):
        lengths = [len(each.tokens or []) + 1 for each in candidates]
        each = zip(candidates, lengths, strict=True)
        weights = [math.exp(candidate.score * length) for candidate, length in each]
        expected = {
            one.text: sum(
                weight * oracle(one.text, [other.text]).score
                for other, weight in zip(candidates, weights, strict=True)
            )
            / sum(weights)
            for one in candidates
        }
        best = sorted(expected.items(), key=lambda item: item[1], reverse=True)[:2]
        mine = [row.split("\t")[1:] for row in rows if row.startswith(f"{number}\t")]
        assert [float(score) for score, _ in mine] == pytest.approx(
            [score for _, score in best], abs=1e-3
        )
        assert mine[0][1] == best[0][0]
    assert rows_of(capsys, "in.txt", "--mbr", name, "--candidates", "1") == rows_of(
        capsys, "in.txt"
    )


def test_what_is_written_is_best_where_the_other_direction_has_a_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["in.txt", "--rerank", "run", "--rerank-weight", "3", "--beam", "4"]
    reranked = translator(4, 4, rerank="run", rerank_weight=3.0)
    rows = rows_of(capsys, *flags)
    assert rows == [each[0].text for each in reranked.n_best(TEXTS)]
    assert rows != rows_of(capsys, "in.txt", "--beam", "4")
    assert rows_of(capsys, *flags[:3], "--beam", "4") == [
        each[0].text for each in translator(4, 4, rerank="run", rerank_weight=0.2).n_best(TEXTS)
    ]
    # Scores that are no probabilities are no weights of candidates.
    chosen = rows_of(capsys, *flags, "--mbr", "chrf")
    for text, found in zip(chosen, reranked.n_best(TEXTS), strict=True):
        likeness = {
            one.text: sum(sacrebleu.sentence_chrf(one.text, [each.text]).score for each in found)
            for one in found
        }
        assert likeness[text] == pytest.approx(max(likeness.values()))


def test_links_are_written_as_aligners_write_them() -> None:
    assert pharaoh([(0, 0), (2, 1), (10, 1)]) == "0-0 2-1 10-1"
    assert pharaoh([]) == ""


def test_translating_brings_no_sacrebleu_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("seq2seq.evaluation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    rows_of(capsys, "in.txt", "--alignment", "--token-scores")
    with pytest.raises(ImportError):
        main(["translate", "run", "in.txt", "--mbr", "chrf"])


@pytest.mark.parametrize("name", ["maps.html", "maps.png"])
def test_heat_maps_are_drawn_of_the_translations_that_are_written(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(capsys, "in.txt", "--attention", name, "--beam", "2")
    content = Path(name).read_bytes()
    if name.endswith(".png"):
        assert content.startswith(b"\x89PNG")
        return
    page = content.decode()
    headings = ["1. kare mino", "2. mino & kare script", "3. <kare>"]
    body = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert ["".join(each.itertext()) for each in body.iter("h2")] == headings
    assert rows[0] in [each.text for each in body.iter("p")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--attention", "a.jpg"], "--attention a.jpg must end in .html or .png"),
        (["--attention", "none/a.html"], "--attention none/a.html cannot be written"),
        (["--attention", "in.txt/a.html"], "in.txt is not a folder"),
        *(
            ([*flag, "--engine", engine], f"--engine {engine} does not tell")
            for engine in TARGETS
            for flag in (["--attention", "a.html"], ["--alignment"])
        ),
        (["--candidates", "3"], "--candidates 3 needs --mbr"),
        (["--rerank-weight", "0.3"], "name it with --rerank"),
        (["--rerank", "run", "--rerank-weight", "-1"], "--rerank-weight=-1.0 is out of range"),
        (["--rerank", "nowhere"], "nowhere does not exist"),
        (["--mbr", "chrf", "--n-best", "4", "--candidates", "3"], "--n-best 4 is more than the 3"),
        (["--mbr", "chrf", "--candidates", "9"], "--candidates 9 is more than --beam 5"),
        (["--mbr", "chrf", "--candidates", "0"], "--n-best 1 is more than the 0 candidates"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_exits_with_2(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "run", "in.txt", *arguments]) == 2
    out, error = capsys.readouterr()
    assert not out
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error


def test_the_first_sentences_with_text_get_heat_maps() -> None:
    Path("many.txt").write_text("\n" + "kare\n" * (MOST_SENTENCES + 1))
    assert main(["translate", "run", "many.txt", "--attention", "a.html", "--output", "out"]) == 0
    assert Path("a.html").read_text().count("<h2") == MOST_SENTENCES
    assert len(Path("out").read_text().splitlines()) == MOST_SENTENCES + 2


def test_without_a_whole_sentence_there_is_nothing_to_draw(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("blank.txt").write_text("\n\x00\n", newline="\n")
    Path("long.txt").write_text("kare mino " * 4 + "\n")
    said = "--attention a.html is not written: no sentence was translated whole\n"
    command = ["translate", "run", "--attention", "a.html", "--max-length", "8"]
    assert main([*command, "blank.txt"]) == 0
    assert capsys.readouterr() == ("\n\n", said)
    assert main([*command, "long.txt"]) == 0
    split = "lines of more than 8 subwords, which were split: 1 (see --max-length and --too-long)\n"
    assert capsys.readouterr().err == split + said
    assert not Path("a.html").exists()
