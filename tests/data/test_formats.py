"""A format must give back the pairs that were written, and say where it cannot.

The writers here are the standard library's, or follow the format's definition by hand.
"""

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import formats
from seq2seq.data.corpus import CorpusFiles, Languages, Pair, stream_pairs
from seq2seq.data.formats import READERS, Sides, read_jsonl, read_tmx, read_tsv
from seq2seq.errors import ConfigError, CorpusError

Pairs = Iterable[tuple[str, str]]

NASTY = [
    Pair("a < b & c > d", "\"quoted\" and 'so', &amp; as it is"),
    Pair("one\u2028line\u2029still\x85one", "a\\nb \\ c % {x} \\u0041"),
    Pair("👩\u200d🚀 flies", "字 と かな, ไทย"),
    Pair("e\u0301 is not é", "\u200fعربي"),
    Pair("  spaces around ", "\u3000wide\u3000"),
    Pair("]]> <!-- no comment --> <?no pi?>", '{"src": "no record"}'),
]
WITH_BREAK = Pair("two\nlines", "zwei\n\nZeilen")


def tsv(pairs: Pairs) -> str:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)


def jsonl(pairs: Pairs) -> str:
    return "".join(json.dumps({"src": s, "id": 7, "tgt": t}) + "\n" for s, t in pairs)


def xml(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


def tmx(pairs: Pairs, src: str = "en", tgt: str = "de") -> str:
    units = "".join(
        f'<tu><note>no text</note><tuv xml:lang="{src}"><prop type="x">no text</prop>'
        f'<seg>{xml(s)}</seg></tuv><tuv xml:lang="{tgt}"><seg>{xml(t)}</seg></tuv></tu>\n'
        for s, t in pairs
    )
    head = '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4">'
    return f'{head}<header srclang="{src}"/><body>{units}</body></tmx>'


def xliff1(pairs: Pairs, src: str = "en", tgt: str = "de") -> str:
    units = "".join(
        f'<group><trans-unit id="{i}"><source>{xml(s)}</source><target state="new">{xml(t)}'
        f"</target><alt-trans><source>no</source><target>no</target></alt-trans></trans-unit>"
        f"</group>"
        for i, (s, t) in enumerate(pairs)
    )
    return (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        f'<file original="x" source-language="{src}" target-language="{tgt}"><header/>'
        f"<body>{units}</body></file></xliff>"
    )


def xliff2(pairs: Pairs, src: str = "en", tgt: str = "de") -> str:
    units = "".join(
        f'<unit id="{i}"><notes><note>no text</note></notes><segment><source>{xml(s)}</source>'
        f"<target>{xml(t)}</target></segment><ignorable><source> </source><target> </target>"
        f"</ignorable></unit>"
        for i, (s, t) in enumerate(pairs)
    )
    return (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" '
        f'srcLang="{src}" trgLang="{tgt}"><file id="f">{units}</file></xliff>'
    )


def quoted(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(char, escaped)
    return f'"{text}"'


def po(pairs: Pairs) -> str:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return head + "".join(f"msgid {quoted(s)}\nmsgstr {quoted(t)}\n\n" for s, t in pairs)


WRITERS: dict[str, list[Callable[[Pairs], str]]] = {
    ".tsv": [tsv],
    ".jsonl": [jsonl],
    ".tmx": [tmx],
    ".xlf": [xliff1, xliff2],
    ".xliff": [xliff1, xliff2],
    ".po": [po],
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
}


def read(path: Path, text: str, **settings: Any) -> list[Pair]:
    """What a corpus of this one English-German file holds."""
    path.write_text(text, encoding="utf-8", newline="")
    return list(stream_pairs(CorpusFiles(path=str(path), **settings), ("en", "de")))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("suffix", READERS)
def test_every_format_gives_back_what_was_written(
    tmp_path: Path, suffix: str, packing: str
) -> None:
    pairs = NASTY if suffix == ".tsv" else [*NASTY, WITH_BREAK]
    path = tmp_path / f"a.b{suffix}{packing}"
    for write in WRITERS[suffix]:
        path.write_bytes(PACKINGS[packing](write(pairs).encode()))
        files = CorpusFiles(path=str(path))
        assert list(stream_pairs(files, ("en", "de"))) == pairs


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("suffix", READERS)
def test_a_missing_and_a_damaged_file_are_named_in_every_format(
    tmp_path: Path, suffix: str, packing: str
) -> None:
    path = tmp_path / f"a{suffix}{packing}"
    files = CorpusFiles(path=str(path))
    with pytest.raises(CorpusError, match=rf"^{path} does not exist"):
        list(stream_pairs(files, ("en", "de")))
    packed = PACKINGS[packing](b"\xff\xfe\xfa no text of any format " * 99)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorpusError, match=rf"^{path} "):
        list(stream_pairs(files, ("en", "de")))


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    assert read(tmp_path / "a.TMX", tmx(NASTY)) == NASTY


TEXT = st.text(st.characters(codec="utf-8"))
TSV_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\t\n"))
XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r\x7f\x85")
)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT)))
def test_jsonl_survives_any_text(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    for ascii_only in (True, False):
        lines = (json.dumps({"src": s, "tgt": t}, ensure_ascii=ascii_only) for s, t in pairs)
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        assert list(read_jsonl(str(path), Sides(), "strict")) == pairs


@settings(deadline=None)
@given(st.lists(st.tuples(TSV_TEXT, TSV_TEXT)))
def test_tsv_survives_any_text_without_tab_and_line_end(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tsv"
    path.write_bytes(tsv(pairs).encode())
    assert list(read_tsv(str(path), Sides(), "strict")) == pairs


@settings(deadline=None)
@given(st.lists(st.tuples(XML_TEXT, XML_TEXT)))
def test_tmx_survives_any_text_of_xml(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tmx"
    path.write_bytes(tmx(pairs).encode())
    assert list(read_tmx(str(path), Sides(src_lang="en", tgt_lang="de"), "strict")) == pairs


def test_fields_of_jsonl_are_named_by_settings_and_dots_go_inward(tmp_path: Path) -> None:
    record = {"id": 1, "translation": {"en": "one", "de": "eins"}, "x": {"y": {"z": "deep"}}}
    text = "\ufeff" + json.dumps(record) + " \r\n"
    fields = {"src_field": "translation.en", "tgt_field": "x.y.z"}
    assert read(tmp_path / "a.jsonl", text, **fields) == [("one", "deep")]


def test_byte_order_marks_of_files_of_jsonl_that_were_joined_are_no_text(tmp_path: Path) -> None:
    """Of an empty file there is only the mark, before that of the next one."""
    line = '{"src": "a", "tgt": "b"}\n'
    for marks in ("\ufeff", "\ufeff\ufeff"):
        assert read(tmp_path / "a.jsonl", f"{marks}{line}{marks}{line}") == [("a", "b")] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", r"line 2 is blank"),
        ("\ufeff", r"line 2 is blank"),
        (" ", r"line 2 is blank"),
        ('{"src": "a"', r"line 2 column 12 is not JSON: Expecting ',' delimiter"),
        ('["a", "b"]', r"line 2 is \['a', 'b'\]; expected a JSON object"),
        ("NaN", r"line 2 is nan; expected"),
        ("[" * 100_000, r"line 2 cannot be read: .*recursion"),
        ('{"src": ' + "1" * 5000 + "}", r"line 2 cannot be read: .*4300 digits"),
        (
            '{"src": "a", "b": {"c": 1, "d": 2}}',
            r'tgt_field=tgt; its fields are "src", "b\.c", "b\.d"\.',
        ),
        ("{}", r"line 2 has no field src_field=src; its fields are \(none\)\."),
        ('{"src": "a", "tgt": NaN}', r"line 2: tgt_field=tgt is nan, not text"),
        ('{"src": null, "tgt": "a"}', r"line 2: src_field=src is None, not text"),
        ('{"src": {"en": "a"}, "tgt": "a"}', r"src_field=src is \{'en': 'a'\}, not text"),
        (r'{"src": "ab\ud800", "tgt": ""}', r"src_field=src holds \\ud800, half .* character 3"),
        (r'{"src": "", "tgt": "\udfff\ud83d"}', r"line 2: tgt_field=tgt holds \\udfff, half"),
    ],
    ids=lambda value: value[:20],
)
def test_a_bad_line_of_jsonl_is_told_with_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(CorpusError, match=rf"^{path} line 2.*{said.removeprefix('line 2')}"):
        read(path, f'{{"src": "\\ud83d\\ude00", "tgt": "", "x": NaN}}\n{line}\n')


def test_a_dot_into_what_has_no_fields_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r'has no field src_field=src\.en; its fields are "src"'):
        read(tmp_path / "a.jsonl", '{"src": "en"}\n', src_field="src.en")


INLINE = [
    ("plain", "plain"),
    ('<bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> on', "bold on"),
    ('a <ph x="1">{0}</ph>b<it pos="begin">&lt;i></it>c<ut>u</ut>', "a bc"),
    ('<hi type="x">high <hi>er</hi></hi> up', "high er up"),
    ('<bpt i="1">code <sub>of <hi>a link</hi></sub></bpt>here', "here"),
    ('<g id="1">in <g id="2">and</g></g><x id="3"/> out', "in and out"),
    ('<pc id="1">one <mrk id="m" type="term">two</mrk></pc><ph id="2"/> three', "one two three"),
    ("a<!-- no -->b<?no pi?>c<![CDATA[<d>]]>", "abc<d>"),
]


@pytest.mark.parametrize(("inline", "text"), INLINE)
@pytest.mark.parametrize("write", [tmx, xliff1, xliff2])
def test_inline_codes_are_dropped_and_the_text_that_they_mark_is_kept(
    tmp_path: Path, write: Callable[[Pairs], str], inline: str, text: str
) -> None:
    whole = write([("SRC", "TGT")]).replace("SRC", inline).replace("TGT", f"t {inline} t")
    path = tmp_path / ("a.tmx" if write is tmx else "a.xlf")
    assert read(path, whole) == [(text, f"t {text} t")]


def unit(*variants: tuple[str, str]) -> str:
    return f"<tu>{''.join(f'<tuv {lang}><seg>{text}</seg></tuv>' for lang, text in variants)}</tu>"


def chosen(folder: Path, *units: str, src_lang: str = "en", tgt_lang: str = "de") -> list[Pair]:
    path = folder / "a.tmx"
    path.write_text(f"<tmx><body>{''.join(units)}</body></tmx>")
    return list(stream_pairs(CorpusFiles(path=str(path)), (src_lang, tgt_lang)))


@pytest.mark.parametrize(
    ("langs", "src_lang", "expected"),
    [
        (["en"], "en", "en"),
        (["EN"], "en", "EN"),
        (["en-US"], "en", "en-US"),
        (["en_us"], "en", "en_us"),
        (["en-US"], "EN-us", "en-US"),
        (["en-GB", "en", "en-US"], "en", "en"),
        (["en-GB", "en-US"], "en", "en-GB"),
        (["en-GB", "en-US"], "en-US", "en-US"),
        (["fr", "zh-Hant-TW", "zh-Hans"], "zh-Hant", "zh-Hant-TW"),
        (["de-AT"], "de-AT", "de-AT"),
    ],
)
def test_a_language_is_found_by_its_code_or_as_a_kind_of_it(
    tmp_path: Path, langs: Sequence[str], src_lang: str, expected: str
) -> None:
    variants = [(f'xml:lang="{lang}"', lang) for lang in [*langs, "de"]]
    assert chosen(tmp_path, unit(*variants), src_lang=src_lang) == [(expected, "de")]


def test_two_kinds_of_one_language_are_never_the_same_variant(tmp_path: Path) -> None:
    both = unit(('xml:lang="pt-BR"', "ônibus"), ('xml:lang="pt-PT"', "autocarro"))
    assert chosen(tmp_path, both, src_lang="pt", tgt_lang="pt-BR") == [("autocarro", "ônibus")]
    assert chosen(tmp_path, both, src_lang="pt-BR", tgt_lang="pt") == [("ônibus", "autocarro")]


def test_units_without_one_of_the_languages_are_left_out_and_order_does_not_matter(
    tmp_path: Path,
) -> None:
    en, de, fr = ('xml:lang="en"', "one"), ('lang="de"', "eins"), ('xml:lang="fr"', "un")
    units = [unit(en, fr), unit(de, fr, en), unit(de), "<tu/>", unit(("", "none"), de)]
    assert chosen(tmp_path, *units) == [("one", "eins")]


def test_a_tmx_without_the_pair_of_languages_is_told_with_those_that_it_has(tmp_path: Path) -> None:
    units = [unit(('xml:lang="sv"', "ett"), ('xml:lang="en-US"', "one")), unit(("", "?"))]
    said = r"data\.src_lang=en and data\.tgt_lang=de; its languages are \(none\), en-US, sv\."
    with pytest.raises(CorpusError, match=said):
        chosen(tmp_path, *units)
    with pytest.raises(CorpusError, match="the corpus is empty"):
        chosen(tmp_path)


@pytest.mark.parametrize("langs", [("", ""), ("en", ""), ("", "de")], ids=" ".join)
def test_a_tmx_asks_for_languages_that_are_not_set(tmp_path: Path, langs: Languages) -> None:
    with pytest.raises(ConfigError, match=r"a\.tmx .* set src_lang and tgt_lang.* ''"):
        list(stream_pairs(CorpusFiles(path=str(tmp_path / "a.tmx")), langs))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no element found"),
        ("one\teins\n", "Start tag expected"),
        ("<tmx><body><tu>", "line 1"),
        ("<tmx><body></tmx>", "mismatch"),
        ("<tmx>" + "<body>" * 300, "Excessive depth"),
        ("<tmx><body><tu>\n&x;</tu></body></tmx>", r"'x' not defined \(line 2\)"),
        ('<?xml version="1.0" encoding="nope"?><tmx/>', "Unsupported encoding: nope"),
    ],
    ids=lambda value: value[:16],
)
def test_what_is_no_xml_is_told_with_the_parsers_words(
    tmp_path: Path, text: str, said: str
) -> None:
    for name in ("a.tmx", "a.xlf"):
        with pytest.raises(CorpusError, match=rf"{name} cannot be read as XML: .*{said}"):
            read(tmp_path / name, text)


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_xml_says_its_own_encoding(tmp_path: Path, encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    text = tmx([("zwölf", "Boxkämpfer")]).replace('<?xml version="1.0"?>', head)
    path = tmp_path / "a.tmx"
    path.write_bytes(text.encode(encoding))
    files = CorpusFiles(path=str(path))
    assert list(stream_pairs(files, ("en", "de"))) == [("zwölf", "Boxkämpfer")]


def with_entities(text: str, declared: str) -> str:
    root = "tmx" if "<tmx" in text else "xliff"
    body = text[text.index(f"<{root} ") :]
    return f'<?xml version="1.0"?><!DOCTYPE {root} [{declared}]>{body}'


@pytest.mark.parametrize("write", [tmx, xliff1, xliff2])
def test_no_entity_of_a_file_is_expanded(tmp_path: Path, write: Callable[[Pairs], str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    declared = (
        f'<!ENTITY x0 "ha"><!ENTITY outside SYSTEM "{secret.as_uri()}">'
        f'<!ENTITY % more SYSTEM "{secret.as_uri()}">'
    )
    for n in range(1, 4):
        declared += f'<!ENTITY x{n} "{f"&x{n - 1};" * 9}">'
    text = with_entities(write([("a SRC b", "TGT")]), declared)
    text = text.replace("SRC", "&x3;").replace("TGT", "&outside;")
    path = tmp_path / ("a.tmx" if write is tmx else "a.xlf")
    assert read(path, text) == [("a &x3; b", "&outside;")]


def test_an_entity_bomb_is_refused_even_in_an_attribute(tmp_path: Path) -> None:
    bomb = '<!ENTITY x0 "ha">' + "".join(
        f'<!ENTITY x{n} "{f"&x{n - 1};" * 10}">' for n in range(1, 15)
    )
    for place in ('"en"', ">one<"):
        text = with_entities(tmx([("one", "eins")]), bomb)
        text = text.replace(place, place.replace("en", "&x14;").replace("one", "&x14;"))
        with pytest.raises(CorpusError, match="amplification"):
            read(tmp_path / "a.tmx", text)


@pytest.mark.parametrize("write", [tmx, xliff1, xliff2, jsonl, tsv])
def test_reading_a_large_file_takes_no_more_memory_than_a_small_one(
    tmp_path: Path, write: Callable[[Pairs], str]
) -> None:
    suffix = next(suffix for suffix, writers in WRITERS.items() if write in writers)

    def peak(count: int) -> int:
        path = tmp_path / f"{count}{suffix}"
        path.write_text(write((f"sentence {n} {'x' * 200}", "Satz") for n in range(count)))
        pairs = READERS[suffix](str(path), Sides(src_lang="en", tgt_lang="de"), "strict")
        tracemalloc.start()
        assert sum(1 for _ in pairs) == count
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(10)
    assert peak(3000) < peak(300) + 50_000


@pytest.mark.parametrize("write", [tmx, xliff1, xliff2])
def test_elements_that_were_read_leave_the_tree(
    tmp_path: Path, write: Callable[[Pairs], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    text_of = formats._text

    def measured(element: Any) -> str:
        sizes.append(sum(1 for _ in element.getroottree().iter()))
        return text_of(element)

    monkeypatch.setattr(formats, "_text", measured)
    path = tmp_path / ("a.tmx" if write is tmx else "a.xlf")
    # libxml2 reads ahead by one block, so small units would all be there at once.
    assert len(read(path, write([("x" * 40_000, "y" * 40_000)] * 40))) == 40
    assert max(sizes) < 40


@pytest.mark.parametrize("write", [xliff1, xliff2])
def test_segments_of_xliff_without_a_translation_are_left_out(
    tmp_path: Path, write: Callable[[Pairs], str]
) -> None:
    text = write([("one", "eins"), ("two", ""), ("three", "GONE"), ("", "vier")])
    for state in ("", ' state="new"'):
        text = text.replace(f"<target{state}>GONE</target>", "")
    assert read(tmp_path / "a.xlf", text) == [("one", "eins")]


def test_segments_of_one_xliff_unit_are_pairs_of_their_own(tmp_path: Path) -> None:
    two = xliff2([("one", "eins")]).replace(
        "</segment>",
        "</segment><segment><source>two</source><target>zwei</target></segment>",
    )
    assert read(tmp_path / "a.xlf", two) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize("write", [xliff1, xliff2])
def test_declared_languages_of_xliff_decide_which_side_is_which(
    tmp_path: Path, write: Callable[..., str]
) -> None:
    path, forward = tmp_path / "a.xlf", [("one", "eins")]
    assert read(path, write(forward, "en-US", "de-AT")) == forward
    assert read(path, write([("eins", "one")], "de", "en")) == forward
    with pytest.raises(CorpusError, match=r"data\.tgt_lang=de; its languages are en, fr\."):
        read(path, write(forward, "en", "fr"))
    assert list(stream_pairs(CorpusFiles(path=str(path)))) == forward


def test_xliff_without_declared_languages_is_taken_as_it_stands(tmp_path: Path) -> None:
    text = xliff1([("one", "eins")])
    for attribute in (' target-language="de"', ' source-language="en"'):
        text = text.replace(attribute, "")
        assert read(tmp_path / "a.xlf", text) == [("one", "eins")]


PO = r"""
# A comment of the translator.
#. of the programmer
#: file.c:7
#, c-format
#| msgid "old"
msgctxt "menu"
msgid ""
"Open \"%s\" and a tab\t"
"goes\n"
msgstr "Öffne "
"\"%s\""

#, fuzzy
msgid "fuzzy"
msgstr "unscharf"

msgid "untranslated"
msgstr ""

msgid "a file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"

msgid "a half"
msgid_plural "%d halves"
msgstr[0] "ein halbes"
msgstr[1] ""

msgid "three"
msgid_plural "%d threes"
msgstr[0] "0"
msgstr[1] "1"
msgstr[2] "2"

#~ msgid "obsolete"
#~ msgstr "weg"
"""


def test_of_po_only_finished_entries_count_and_plurals_of_two_forms_are_two_pairs(
    tmp_path: Path,
) -> None:
    assert read(tmp_path / "a.po", po([("one", "eins")]) + PO) == [
        ("one", "eins"),
        ('Open "%s" and a tab\tgoes\n', 'Öffne "%s"'),
        ("a file", "eine Datei"),
        ("%d files", "%d Dateien"),
    ]


@pytest.mark.parametrize(
    ("language", "src", "tgt", "turned"),
    [
        ("de", "en", "de", False),
        ("de", "de", "en", True),
        ("de_AT", "de", "en", True),
        ("de", "", "", False),
        ("", "de", "en", False),
        ("de", "de", "de", False),
    ],
)
def test_a_po_in_the_language_of_the_source_is_turned_around(
    tmp_path: Path, language: str, src: str, tgt: str, turned: bool
) -> None:
    text = f'msgid ""\nmsgstr "Language: {language}\\n"\n\nmsgid "one"\nmsgstr "eins"\n'
    (tmp_path / "a.po").write_text(text)
    sides = Sides(src_lang=src, tgt_lang=tgt)
    found = list(READERS[".po"](str(tmp_path / "a.po"), sides, "strict"))
    assert found == [("eins", "one") if turned else ("one", "eins")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('msgid "one"\nmsgstr "ein', 2),
        ('msgid "one\nmsgstr "eins"\n', 1),
        ('msgid "one"\nmsgstr ""\n"ei\n"ns"\n', 3),
        ('msgctxt "a\\"\nmsgid "one"\nmsgstr "eins"\n', 1),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c\nmsgstr[1] "d"\n', 3),
        ('msgid "one"\nmsgstr "\n', 2),
    ],
    ids=repr,
)
def test_a_po_whose_string_does_not_end_is_told_with_the_line(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "a.po"
    path.write_text(text)
    with pytest.raises(CorpusError, match=rf"^{path} line {line}: the string has no closing"):
        list(stream_pairs(CorpusFiles(path=str(path))))


def test_strings_of_a_po_may_hold_marks_and_comments_anything(tmp_path: Path) -> None:
    text = po([]) + '# an "open one\n#| msgid "old\nmsgid "a \\"b\\" \\\\"\nmsgstr  "c"  \n'
    (tmp_path / "a.po").write_text(text)
    assert list(stream_pairs(CorpusFiles(path=str(tmp_path / "a.po")))) == [('a "b" \\', "c")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
def test_a_comment_of_a_po_needs_no_space_behind_its_sign(tmp_path: Path, end: str) -> None:
    comments = '#msgid "no"\n#"\n#=c-format\n#~|msgid "no"\n'
    text = f'{comments}{po([])}{comments}#,fuzzy\nmsgid "no"\nmsgstr "nein"\n{comments}'
    text += '#~msgid "old"\n#~msgstr "alt"\n  #,c-format\nmsgid "a"\nmsgstr "b"\n'
    (tmp_path / "a.po").write_bytes(text.replace("\n", end).encode())
    assert list(stream_pairs(CorpusFiles(path=str(tmp_path / "a.po")))) == [("a", "b")]


def test_po_says_its_own_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    text = po([("twelve", "zwölf")]).replace("UTF-8", "ISO-8859-1")
    path.write_bytes(text.encode("iso-8859-1"))
    assert list(stream_pairs(CorpusFiles(path=str(path)))) == [("twelve", "zwölf")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"<tmx/>\n", r"Syntax error in po file \(line 1\)"),
        (b'msgid "a"\nmsgstr "b" "c"\n', r"\(line 2\): unescaped double quote"),
        (b'msgid "a"\nmsgstr "\xff"\n', "can't decode byte 0xff"),
        (
            b'msgid ""\nmsgstr "Content-Type: text/plain; charset=hex\\n"\n',
            "no text encoding|'hex' is not",
        ),
    ],
    ids=repr,
)
def test_what_is_no_po_is_told_with_the_line(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "a.po"
    path.write_bytes(text)
    with pytest.raises(CorpusError, match=rf"^{path} is not a gettext file: .*{said}"):
        list(stream_pairs(CorpusFiles(path=str(path))))
