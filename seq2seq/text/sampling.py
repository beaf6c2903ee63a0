"""Random segmentations, so that a network sees the same sentence spelled in many ways.

SentencePiece samples too, but its generator starts anew in every process, whatever the seed: a run
that goes on after a kill would see other segmentations. Here everything follows from the generator
that the caller brings.

Pieces never cross a space, so each word of a sentence is segmented for itself.
"""

import math
import re
from array import array
from bisect import bisect
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import NamedTuple

Segment = Callable[[str, float, Random], list[str]]
"""(normalised text, strength, generator) -> pieces; a character of no piece is its own."""

WORDS = re.compile("\u2581?[^\u2581]+|\u2581")
LONGEST_REMEMBERED = 20
"""Characters of a word whose lattice is kept for the next time; where words are not spaced it is a
sentence, which hardly comes again."""
UNKNOWN_PENALTY = 10.0
"""How much less likely than the rarest piece a character of no piece is, as in SentencePiece."""


class Lattice(NamedTuple):
    """For each place in a word where a piece may end: where it may begin, and the chances that it
    begins there or before, up to a factor. Arrays take a quarter of the memory of lists.
    """

    first: "array[int]"
    """What belongs to an end, counted from 1, stands in `begins` and `chances` from first[end - 1]
    up to, not including, first[end]."""
    begins: "array[int]"
    chances: "array[float]"


def unigram_sampler(scores: Mapping[str, float]) -> Segment:
    """Segmentations with probability P ** strength, normalised (Kudo 2018, section 3.3).

    scores: log-probability of each piece. Forward filtering, backward sampling over the lattice of
    a word's pieces (Scott 2002), so that all segmentations are drawn from, not the best few.
    """
    longest = max(map(len, scores))
    unknown = min(scores.values()) - UNKNOWN_PENALTY

    def lattice(word: str, strength: float) -> Lattice:
        totals = [0.0]  # log of the summed weights of all segmentations up to here
        first, begins, chances = array("i", [0]), array("i"), array("d")
        for end in range(1, len(word) + 1):
            starts, weights = [], []
            for start in range(max(0, end - longest), end):
                score = scores.get(word[start:end])
                if score is None and start == end - 1:
                    score = unknown
                if score is not None:
                    starts.append(start)
                    weights.append(totals[start] + strength * score)
            largest = max(weights)
            begins.extend(starts)
            chances.extend(accumulate(math.exp(weight - largest) for weight in weights))
            totals.append(largest + math.log(chances[-1]))
            first.append(len(begins))
        return Lattice(first, begins, chances)

    remembered = lru_cache(1 << 16)(lattice)

    def segment(text: str, strength: float, random: Random) -> list[str]:
        pieces = []
        for word in WORDS.findall(text):
            find = remembered if len(word) <= LONGEST_REMEMBERED else lattice
            first, begins, chances = find(word, strength)
            end, backwards = len(word), []
            while end:
                last = first[end] - 1
                chance = random.random() * chances[last]
                start = begins[bisect(chances, chance, first[end - 1], last)]
                backwards.append(word[start:end])
                end = start
            backwards.reverse()
            pieces += backwards
        return pieces

    return segment


def bpe_sampler(scores: Mapping[str, float], unused: Collection[str] = ()) -> Segment:
    """BPE-dropout (Provilkov et al. 2020, algorithm 1): in every round each possible merge is left
    out with probability `strength`, and the best of the others is made.

    scores: higher for pieces that were merged earlier. Merges lead through the unused ones among
    them, too; where a word ends with one, it is taken apart again.
    """

    def used(piece: str, halves: Mapping[str, list[str]]) -> list[str]:
        if piece not in halves:
            return [piece]
        return [each for half in halves[piece] for each in used(half, halves)]

    def segment(text: str, strength: float, random: Random) -> list[str]:
        pieces: list[str] = []
        halves: dict[str, list[str]]
        for word in WORDS.findall(text):
            parts, halves = list(word), {}
            while merges := [
                (scores[merged], -place)
                for place in range(len(parts) - 1)
                if (merged := parts[place] + parts[place + 1]) in scores
                and random.random() >= strength
            ]:
                place = -max(merges)[1]
                merged = parts[place] + parts[place + 1]
                if merged in unused:
                    halves[merged] = parts[place : place + 2]
                parts[place : place + 2] = [merged]
            pieces += [each for part in parts for each in used(part, halves)] if halves else parts
        return pieces

    return segment
