"""Terms that a translation must hold exactly as often as asked, watched while it is written.

What is counted is text, however it is cut into subwords.
"""

from bisect import bisect
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple, Protocol

from seq2seq.config import UNK_ID
from seq2seq.text.normalize import clean
from seq2seq.text.occurrences import MARK, Matcher, marked, occurrences
from seq2seq.text.pieces import Piece
from seq2seq.text.words import SPACED, in_words


class Speller(Protocol):
    """What `Terms` needs of `Subwords`."""

    @property
    def spellings(self) -> Sequence[bytes]: ...
    def spell(self, text: str, *, glued: bool = False) -> list[int]: ...


class Place(NamedTuple):
    """Which beginnings of terms a text ends with."""

    node: int
    """Of the `Matcher`."""
    last: str
    """The last character, if any."""
    cut: bytes
    """The beginning of a character whose other bytes are still to come."""


class State(NamedTuple):
    """Of a text that is being written."""

    place: Place
    counts: tuple[int, ...]
    """How often each term stands there for sure; one at the very end may yet turn out longer."""


class Standing(NamedTuple):
    """Of a text that ends here, a `decoding.constraint.Standing`."""

    missing: int
    rest: int
    inside: int | None
    over: bool
    complete: bool


class Way(NamedTuple):
    """One step along a term."""

    term: int
    token: int
    left: int
    """Tokens from here to the term's end, this one counted."""
    node: int
    """Where the token leads to."""


BEGINNING = Place(0, "", b"")


def how_often(terms: Iterable[str]) -> dict[str, int]:
    """How often each term stands in a text that holds them all as often as they are listed: "sea"
    and "sea horse" make "sea" stand there twice."""
    listed = Counter(filter(None, map(clean, terms)))
    return {
        text: sum(times * occurrences(text, other) for other, times in listed.items())
        for text in listed
    }


def not_held(terms: Iterable[str], text: str) -> list[str]:
    """The terms that do not stand in the cleaned text as often as `how_often` says."""
    return [term for term, times in how_often(terms).items() if occurrences(term, text) != times]


def shared(
    terms: Iterable[str], origins: Iterable[int | None], pieces: Sequence[Piece]
) -> list[list[str]]:
    """The terms of each piece of a cleaned source text. A term with an origin, see `Sentence`, goes
    to the piece that the origin is in; one without goes to pieces that it stands in, as often as it
    does there, and what is left over to the first piece."""
    starts, shares = [piece.start for piece in pieces], [list[str]() for _ in pieces]
    left = Counter[str]()
    for term, origin in zip(map(clean, terms), chain(origins, repeat(None)), strict=False):
        if origin is None:
            left[term] += 1
        else:
            shares[max(bisect(starts, origin) - 1, 0)].append(term)
    for share, piece in zip(shares, pieces, strict=True):
        here = {term: min(left[term], occurrences(term, piece.text)) for term in left}
        share += [term for term, times in here.items() for _ in range(times)]
        left -= Counter(here)
    shares[0] += left.elements()
    return shares


class Terms:
    """A `decoding.constraint.Constraint`: each term as often as `how_often` says.

    Those that the subwords cannot write are left out.
    """

    def __init__(self, terms: Sequence[str], speller: Speller) -> None:
        self._spellings = speller.spellings
        asked = how_often([term for term in terms if UNK_ID not in speller.spell(clean(term))])
        self.asked = tuple(asked.values())
        patterns = [marked(text) for text in asked]
        # With the space before a term, so that a lone space is a beginning of it.
        self._matcher = Matcher([*patterns, *(f" {pattern}" for pattern in patterns)])
        self._ways: dict[tuple[int, bytes], list[Way]] = {}
        self._sizes = []
        for term, text in enumerate(asked):
            spaced = speller.spell(text)
            self._sizes.append(len(spaced))
            self._pave(term, spaced)
            self._pave(term, speller.spell(text, glued=True))
        self._read: dict[tuple[Place, int], tuple[Place, list[int]]] = {}
        self._standings: dict[State, Standing] = {}
        self._helpful: dict[State, list[int]] = {}
        self.start = State(BEGINNING, (0,) * len(self.asked))

    def _pave(self, term: int, tokens: Sequence[int]) -> None:
        """Note each step of this way to write a term, where it is taken."""
        node, cut, written = 0, b"", b""
        for done, token in enumerate(tokens):
            before = (node, cut)
            written += self._spellings[token]
            whole, cut = whole_characters(written)
            node = 0
            for character in marked(whole).removesuffix(MARK):
                node = self._matcher.step(node, character)
            way = Way(term, token, len(tokens) - done, node)
            self._ways.setdefault(before, []).append(way)

    def read(self, state: State, token: int) -> State:
        place, ended = self._followed(state.place, token)
        return State(place, counted(state.counts, ended))

    def _followed(self, place: Place, token: int) -> tuple[Place, list[int]]:
        """Where a token leads to, and the terms that end on the way."""
        if (place, token) not in self._read:
            self._read[place, token] = self._follow(place, token)
        return self._read[place, token]

    def _follow(self, place: Place, token: int) -> tuple[Place, list[int]]:
        whole, cut = whole_characters(place.cut + self._spellings[token])
        node, last, ended = place.node, place.last, list[int]()
        for character in whole:
            if in_words(character) != in_words(last):
                node = self._matcher.step(node, MARK)
                ended += self._matcher.ends(node)
            node, last = self._matcher.step(node, character), character
            ended += self._matcher.ends(node)
        return Place(node, last, cut), ended

    def _counts_at_end(self, state: State) -> tuple[int, ...]:
        """How often each term stands there if it ends here; a mark after no word ends none."""
        return counted(state.counts, self._matcher.ends(self._matcher.step(state.place.node, MARK)))

    def standing(self, state: State) -> Standing:
        if state not in self._standings:
            self._standings[state] = self._stand(state)
        return self._standings[state]

    def _stand(self, state: State) -> Standing:
        counts = self._counts_at_end(state)
        missing = [max(asked - count, 0) for count, asked in zip(counts, self.asked, strict=True)]
        rest = sum(times * size for times, size in zip(missing, self._sizes, strict=True))
        begun = next((way for inside, way in self._ways_on(state, counts) if inside), None)
        if begun is not None:
            rest += begun.left - self._sizes[begun.term]
        return Standing(
            missing=sum(missing),
            rest=rest,
            inside=None if begun is None else begun.term,
            over=any(count > asked for count, asked in zip(state.counts, self.asked, strict=True)),
            complete=counts == self.asked,
        )

    def helpful(self, state: State) -> list[int]:
        if state not in self._helpful:
            self._helpful[state] = self._help(state)
        return self._helpful[state]

    def _help(self, state: State) -> list[int]:
        place, counts = state.place, self._counts_at_end(state)
        ways = (
            way.token
            for inside, way in self._ways_on(state, counts)
            if self._leads(place, way) and (inside or not self._glues(place, way.token))
        )
        return list(dict.fromkeys(ways))

    def _ways_on(self, state: State, counts: Sequence[int]) -> Iterator[tuple[bool, Way]]:
        """Steps along missing terms: those inside of one, the longest beginning first, then those
        that begin one."""
        cut = state.place.cut
        for node in self._matcher.beginnings(state.place.node):
            for way in self._ways.get((node, cut), ()):
                if counts[way.term] < self.asked[way.term]:
                    yield bool(node or cut), way

    def _leads(self, place: Place, way: Way) -> bool:
        """Whether the step, taken here, reaches its node: not if it only continues a word."""
        there, _ = self._followed(place, way.token)
        return way.node in self._matcher.beginnings(there.node)

    def _glues(self, place: Place, token: int) -> bool:
        """The token would glue a word to a comma."""
        first = self._spellings[token].decode(errors="ignore")[:1]
        return place.last in SPACED and in_words(first)


def counted(counts: tuple[int, ...], ended: Sequence[int]) -> tuple[int, ...]:
    """The counts with one more for each of those; a pattern with a space before it is no term."""
    if not ended:
        return counts
    return tuple(count + ended.count(term) for term, count in enumerate(counts))


def whole_characters(written: bytes) -> tuple[str, bytes]:
    """The characters of this UTF-8, and the bytes of the last one if it is cut; bytes that belong
    to none become U+FFFD."""
    decoder = getincrementaldecoder("utf-8")("replace")
    return decoder.decode(written), decoder.getstate()[0]
