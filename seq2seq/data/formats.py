"""File formats of corpora, told by their suffix: one reader each.

A reader yields the pairs of a file in the file's order and in constant memory (a PO file, never
large, is held whole). If errors are not strict, TSV and JSONL take what is not UTF-8, and a line
without a tab, or without both fields, is a source without translation. A new format is one function
and one line in READERS.
"""

import re
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any, NamedTuple

import polib
from lxml import etree

from seq2seq.data.json_lines import Fields, check_characters, json_object, listed
from seq2seq.data.lines import OPENERS, Errors, open_bytes, read_lines
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.text.normalize import clean


class Pair(NamedTuple):
    """A sentence and its translation."""

    src: str
    tgt: str

    @property
    def full(self) -> bool:
        """Whether there is text on both sides."""
        return all(map(clean, self))


class NoPair(Pair):
    """A line or row that holds none, as a source without translation; an error where errors are
    strict."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What source and translation are called: as languages, and as fields of a record."""

    src_lang: str = ""
    tgt_lang: str = ""
    src_field: str = "src"
    tgt_field: str = "tgt"

    def pair_in(self, record: Mapping[str, Any], where: str, errors: Errors) -> Pair:
        """The two fields of a record; `where` begins the errors."""
        return Pair(
            _field(record, "src_field", self.src_field, where, errors),
            _field(record, "tgt_field", self.tgt_field, where, errors),
        )


def steps_to(field: str, names: Container[str]) -> list[str]:
    """The names that lead to a field, from those of its record inwards: of `translation.en` two,
    unless the record has a field of this name, as a flattened dataset does."""
    return [field] if field in names else field.split(".")


def _field(record: Mapping[str, Any], setting: str, field: str, where: str, errors: Errors) -> str:
    value: Any = record
    for name in steps_to(field, record):
        if not isinstance(value, Mapping) or name not in value:
            names = listed(_names(record))
            raise CorpusError(f"{where} has no field {setting}={field}; its fields are {names}.")
        value = value[name]
    if not isinstance(value, str):
        raise CorpusError(f"{where}: {setting}={field} is {short_repr(value)}, not text.")
    check_characters(value, f"{where}: {setting}={field}", errors)
    return value


def _names(record: Mapping[str, Any]) -> Iterator[str]:
    """Its fields as the settings name them, two levels deep."""
    for name, value in record.items():
        inner = value if isinstance(value, Mapping) else ()
        yield from (f"{name}.{below}" for below in inner) if inner else (name,)


def read_tsv(path: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """Source TAB translation; further columns are ignored."""
    for number, line in enumerate(read_lines(path, errors=errors), start=1):
        src, tab, columns = line.partition("\t")
        if tab:
            yield Pair(src, columns.partition("\t")[0])
        elif errors == "strict":
            raise CorpusError(f"{path} line {number} has no tab; expected source TAB translation.")
        else:
            yield NoPair(line, "")


def read_jsonl(path: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """One JSON object a line."""
    lines = enumerate(read_lines(path, errors=errors), start=1)
    rows = ((f"{path} line {number}", line) for number, line in lines)
    return pairs_in_rows(rows, sides, errors)


def pairs_in_rows(
    rows: Iterable[tuple[str, str | Fields]], sides: Sides, errors: Errors
) -> Iterator[Pair]:
    """rows: for each its place, with which its errors begin, and a record or the line of JSON that
    holds one. If errors are not strict, a row without the two fields is a NoPair; if no row has
    them, that is an error."""
    first: CorpusError | None = None
    found = False
    for where, row in rows:
        try:
            record = json_object(row, where) if isinstance(row, str) else row
            pair = sides.pair_in(record, where, errors)
            found = True
        except CorpusError as error:
            if errors == "strict":
                raise
            first, pair = first or error, NoPair(str(row), "")
        yield pair
    if first is not None and not found:
        raise first


def read_tmx(path: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """TMX 1.4: of every translation unit the variants in the two languages, if it has both."""
    if not (sides.src_lang and sides.tgt_lang):
        raise ConfigError(
            f"{path} may hold many languages: set src_lang and tgt_lang, which are "
            f"{sides.src_lang!r} and {sides.tgt_lang!r}."
        )
    units = (
        [
            (variant.get(XML_LANG) or variant.get("lang") or "", _text(segment))
            for variant in unit.iterfind("{*}tuv")
            if (segment := variant.find("{*}seg")) is not None
        ]
        for unit in _elements(path, "tu")
    )
    return _in_languages(units, path, sides)


def read_xliff(path: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """XLIFF 1.2 and 2.x: every trans-unit (2.x: segment) with text in source and target.

    Where the file declares its languages and they are set, too, they decide which side is which;
    otherwise source is source.
    """
    units = (
        [
            (_declared(unit, sides.src_lang, "source-language", "srcLang"), _text(source)),
            (_declared(unit, sides.tgt_lang, "target-language", "trgLang"), _text(target)),
        ]
        # The last three have no sides of their own: they are named here to leave the tree, too.
        for unit in _elements(path, "trans-unit", "segment", "unit", "group", "file")
        if (source := unit.find("{*}source")) is not None
        if (target := unit.find("{*}target")) is not None
    )
    return (pair for pair in _in_languages(units, path, sides) if pair.src and pair.tgt)


def read_po(path: str, sides: Sides, errors: Errors) -> Iterator[Pair]:
    """gettext PO: msgid and msgstr of what is translated, not fuzzy and not obsolete.

    An entry with a plural is two pairs if the language has two forms, and left out otherwise:
    which of its forms translates which of the two English ones is not the same in all languages.
    Where the file's header says that the language of its msgstr is the source, not the target, the
    pairs are turned around.
    """
    # polib reads files only: a text handed to it is split at U+2028 too.
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "messages.po"
        with open_bytes(path) as packed:
            plain.write_bytes(_FLAGS.sub(rb"\1 ", _COMMENT.sub(b"#", packed.read())))
        try:
            encoding = polib.detect_encoding(str(plain))
            with plain.open(encoding=encoding) as lines:
                _check_strings(lines, path)
            entries = polib.pofile(str(plain), encoding=encoding)
        except (OSError, UnicodeError, LookupError) as error:  # an encoding of another kind
            said = str(error).replace(f"{plain} ", "").replace(str(plain), path)
            raise CorpusError(f"{path} is not a gettext file: {said}.") from None
    theirs = [(entries.metadata.get("Language", ""), "")]
    turned = _spoken(theirs, sides.src_lang) and not _spoken(theirs, sides.tgt_lang)
    for pair in _translated(entries):
        yield Pair(pair.tgt, pair.src) if turned else pair


# polib wants a space behind the sign of a comment; gettext does not. Flags and obsolete entries get
# one; other comments, which nobody reads, lose their text.
_COMMENT = re.compile(rb"(?<![^\r\n])[ \t]*#(?!,|~(?!\|))[^\r\n]*")
_FLAGS = re.compile(rb"(?<![^\r\n])[ \t]*(#[,~])")
_UNCLOSED = re.compile(
    r'(?:(?:msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"(?:[^"\\]|\\.)*\\?'
)


def _check_strings(lines: Iterable[str], path: str) -> None:
    """CorpusError for a string that does not end in its line: polib takes its last character for
    the quotation mark."""
    for number, line in enumerate(lines, start=1):
        if _UNCLOSED.fullmatch(line.strip()):
            raise CorpusError(
                f"{path} line {number}: the string has no closing quotation mark; is the file cut "
                f"short?"
            )


def _translated(entries: Iterable[Any]) -> Iterator[Pair]:
    for entry in entries:
        if not entry.translated():
            continue
        if not entry.msgid_plural:
            yield Pair(entry.msgid, entry.msgstr)
        elif len(entry.msgstr_plural) == 2:
            yield Pair(entry.msgid, entry.msgstr_plural[0])
            yield Pair(entry.msgid_plural, entry.msgstr_plural[1])


XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
MARKED_TEXT = {"hi", "g", "mrk", "pc"}
"""Inline elements around text; the content of all others is code of the original document."""


def _elements(path: str, *names: str) -> Iterator[Any]:
    """The elements of these names as they end; what stands before one then leaves the tree."""
    with open_bytes(path) as file:
        ends = etree.iterparse(
            file,
            tag=[f"{{*}}{name}" for name in names],
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            for _, element in ends:
                yield element
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            last = ends.error_log.last_error
            said = f"{last.message} (line {last.line})" if last is not None else error.msg
            raise CorpusError(f"{path} cannot be read as XML: {said}.") from None


def _text(element: Any) -> str:
    """Its text without codes; an entity of the file's own stays as it is written, `&name;`."""
    parts = [element.text or ""]
    for child in element:
        if child.tag is etree.Entity:
            parts.append(child.text)
        elif etree.QName(child).localname in MARKED_TEXT:
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _declared(unit: Any, wanted: str, *names: str) -> str:
    """The language in one of these attributes around a unit, or else `wanted`; "" if that is ""."""
    values = (around.get(name) for around in unit.iterancestors() for name in names)
    return next(filter(None, values), wanted) if wanted else ""


def _in_languages(
    units: Iterable[Sequence[tuple[str, str]]], path: str, sides: Sides
) -> Iterator[Pair]:
    """The pairs of those units that have both languages; a unit is several (language, text)."""
    found, languages = False, set[str]()
    for unit in units:
        sources, targets = _spoken(unit, sides.src_lang), _spoken(unit, sides.tgt_lang)
        both = [Pair(src[1], tgt[1]) for src in sources for tgt in targets if src is not tgt]
        if both:
            found = True
            yield both[0]
        else:
            languages.update(language or "(none)" for language, _ in unit)
    if languages and not found:
        raise CorpusError(
            f"{path} has no entry in both data.src_lang={sides.src_lang} and "
            f"data.tgt_lang={sides.tgt_lang}; its languages are {', '.join(sorted(languages))}."
        )


def _spoken(unit: Sequence[tuple[str, str]], wanted: str) -> list[tuple[str, str]]:
    """What of a unit is in a language: first `en` itself, then `en-US` and others of its kind."""
    wanted = _tag(wanted)
    exact = [said for said in unit if _tag(said[0]) == wanted]
    return exact + [said for said in unit if _tag(said[0]).startswith(f"{wanted}-")]


def _tag(language: str) -> str:
    return language.lower().replace("_", "-")


Reader = Callable[[str, Sides, Errors], Iterator[Pair]]

READERS: dict[str, Reader] = {
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".tmx": read_tmx,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".po": read_po,
}
"""By the suffix that is left without .gz and .zst."""


def reader_of(path: str) -> Reader | None:
    """What reads this file; None if its suffix is not known."""
    name = Path(path)
    if name.suffix in OPENERS:
        name = name.with_suffix("")
    return READERS.get(name.suffix.lower())


def check_sentences(path: str) -> None:
    """Raise ConfigError for a file whose lines are no sentences, as its suffix tells."""
    if reader_of(path):
        raise ConfigError(
            f"{path} is not a text of one side, as its ending tells; rename it if its lines are "
            f"sentences, or take them out of it."
        )
