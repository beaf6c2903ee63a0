"""Our scores for what another library's search has found."""

from collections.abc import Sequence

from seq2seq.config import SearchConfig
from seq2seq.data.batch import Ids
from seq2seq.decoding.search import Hypothesis, length_penalty
from seq2seq.engine import ScoringEngine


def scored(
    engine: ScoringEngine, src: Ids, translations: Sequence[Ids], config: SearchConfig
) -> list[Hypothesis]:
    """Translations of one sentence, best first, equal ones once."""
    different = [list(tokens) for tokens in dict.fromkeys(map(tuple, translations))]
    rows = engine.log_probs([src] * len(different), different)
    scores = [float(row.sum()) / length_penalty(len(row), config) for row in rows]
    found = map(Hypothesis, different, scores)
    return sorted(found, key=lambda each: each.score, reverse=True)
