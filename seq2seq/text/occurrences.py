"""How often phrases stand in a text, as whole words where they begin or end with one.

An occurrence may overlap another. With a mark put wherever a word begins or ends, also at both ends
of the text, "whole word" needs no rule of its own: the marked phrase stands in the marked text, or
not.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from seq2seq.text.words import in_words

MARK = "\x00"
"""Stands in no cleaned text."""


def marked(text: str) -> str:
    """The text with a MARK wherever a word begins or ends."""
    parts, inside = [], False
    for character in text:
        if in_words(character) != inside:
            parts.append(MARK)
            inside = not inside
        parts.append(character)
    return "".join([*parts, MARK] if inside else parts)


def occurrences(phrase: str, text: str) -> int:
    """How often the phrase stands in the text."""
    wanted, there = marked(phrase), marked(text)
    return sum(there.startswith(wanted, at) for at in range(len(there)))


class Matcher:
    """Reads a text by character and knows which patterns end there (Aho and Corasick 1975).

    A node is a beginning of patterns, 0 the empty one. Having read a text, we are at the node of
    the longest beginning that the text ends with.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._shorter = [0]
        self._ends: list[list[int]] = [[]]
        for index, pattern in enumerate(patterns):
            self._ends[self._grow(pattern)].append(index)
        waiting = deque(self._next[0].values())
        while waiting:  # by length, so that what is shorter is known
            node = waiting.popleft()
            for character, following in self._next[node].items():
                self._shorter[following] = self.step(self._shorter[node], character)
                waiting.append(following)
            self._ends[node] += self._ends[self._shorter[node]]

    def _grow(self, pattern: str) -> int:
        node = 0
        for character in pattern:
            if character not in self._next[node]:
                self._next[node][character] = len(self._next)
                self._next.append({})
                self._shorter.append(0)
                self._ends.append([])
            node = self._next[node][character]
        return node

    def step(self, node: int, character: str) -> int:
        while node and character not in self._next[node]:
            node = self._shorter[node]
        return self._next[node].get(character, 0)

    def ends(self, node: int) -> Sequence[int]:
        """Numbers of the patterns that end here."""
        return self._ends[node]

    def beginnings(self, node: int) -> Iterator[int]:
        """All beginnings that the text read so far ends with, longest first, the empty one last."""
        while node:
            yield node
            node = self._shorter[node]
        yield 0
