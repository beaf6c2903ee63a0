"""Which of a teacher's translations a student learns from (Kim and Rush 2016)."""

from collections import Counter
from collections.abc import Sequence

from seq2seq.data.corpus import Pair
from seq2seq.decoding.mbr import Utility
from seq2seq.text.normalize import clean
from seq2seq.text.repetition import repeats
from seq2seq.translation import Translation
from seq2seq.translator import Translator

EMPTY = "empty"
CUT = "as long as the search allows"
ENDLESS = "endless repetitions"
COPY = "copies of the source"
BROKEN = "bytes that are no characters"

REPLACEMENT = "\ufffd"
"""What stands in the place of such bytes."""


class Distillation:
    """Chooses translations of one pair's source after the other, and counts them.

    With a utility it keeps of each source the one that is most like the reference, where there is
    one: sequence-level interpolation (section 3.3). Without, all of them (section 3.2).
    """

    def __init__(self, translator: Translator, utility: Utility | None = None) -> None:
        self.translator, self.utility = translator, utility
        self.kept = 0
        self.left_out: Counter[str] = Counter()
        """Translations that nobody should learn from, by what is wrong with them."""

    def choose(self, pair: Pair, found: Sequence[Translation]) -> list[Translation]:
        """Those of `found` to learn from, in its order, each text once; none for a blank source."""
        pair = Pair(clean(pair.src), clean(pair.tgt))
        if not pair.src:
            return []
        distinct: dict[str, Translation] = {}
        for each in found:
            distinct.setdefault(clean(each.text), each)
        limit = self._limit(pair.src)
        sound = []
        for each in distinct.values():
            if fault := fault_of(pair, each, limit):
                self.left_out[fault] += 1
            else:
                sound.append(each)
        if sound and self.utility is not None and pair.tgt:
            likeness = self.utility([each.text for each in sound], [pair.tgt])
            sound = [sound[max(range(len(sound)), key=lambda place: likeness[place][0])]]
        self.kept += len(sound)
        return sound

    def _limit(self, src: str) -> int:
        """Most subwords of a translation, the end token counted."""
        bound = self.translator.config.max_length(len(self.translator.src_subwords.encode(src)))
        return min(filter(None, (bound, self.translator.engine.max_length)))


def fault_of(pair: Pair, found: Translation, limit: int) -> str:
    """What is wrong with a translation of a clean pair, the first that is seen; "" for nothing.

    `limit` is the most subwords that it could have, the end token counted; of lines that were split
    nobody knows how many it has.
    """
    text = clean(found.text)
    if not text:
        return EMPTY
    if found.tokens is not None and len(found.tokens) + 1 >= limit:
        return CUT
    if repeats(text) and not repeats(pair.src):
        return ENDLESS
    if REPLACEMENT in text and REPLACEMENT not in pair.src:
        return BROKEN
    said, given, wanted = (each.casefold().split() for each in (text, *pair))
    # Numbers and signs alone may well be the same in both languages.
    if said == given != wanted and any(map(str.isalpha, text)):
        return COPY
    return ""
