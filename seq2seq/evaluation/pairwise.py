"""Every hypothesis against every reference, each as sacreBLEU scores one sentence.

n-grams are counted once a sentence, not once a pair: the k-th time that an n-gram occurs is a
feature of its own, so what two sentences have in common, with n-grams counted as often as both have
them, is the product of their vectors of features, and that of all pairs a matrix product.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from seq2seq.evaluation.words import scored_words

Matrix = NDArray[np.float64]
Units = str | tuple[str, ...]
"""Characters or tokens, what n-grams are of."""


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Matrix:
    """chrF2 of each pair (N, M), from 0 to 100."""
    matches, said, wanted = _counts(hypotheses, references, 6, lambda text: "".join(text.split()))
    orders = ((said > 0) & (wanted > 0)).sum(axis=0)  # (N, M)
    precision, recall = (
        _over(_over(matches, total).sum(axis=0), orders) for total in (said, wanted)
    )  # (N, M)
    return 100 * _over(5 * precision * recall, 4 * precision + recall)


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], split: Callable[[str], list[str]]
) -> Matrix:
    """Sentence BLEU of each pair (N, M), from 0 to 100: exponential smoothing, and only the orders
    that the hypothesis is long enough for."""
    matches, said, wanted = _counts(hypotheses, references, 4, lambda text: tuple(split(text)))
    exists, missed = said > 0, matches == 0
    # sacreBLEU takes 1/2, 1/4 ... of a match for the first, second ... order without one; orders
    # that do not exist are the last.
    smoothed = np.where(missed, 0.5 ** missed.cumsum(axis=0), matches)
    logs = np.log(_over(smoothed, said, empty=1.0))  # (4, N, M)
    brevity = np.minimum(0.0, 1 - _over(wanted[0], said[0]))  # of their tokens
    score = 100 * np.exp(brevity + _over(logs.sum(axis=0), exists.sum(axis=0)))
    return np.where(missed.all(axis=0), 0.0, score)


Pairwise = Callable[[Sequence[str], Sequence[str]], Matrix]

PAIRWISE: dict[str, Callable[[str], Pairwise]] = {
    "chrf": lambda target_lang: chrf,
    "bleu": lambda target_lang: partial(bleu, split=scored_words(target_lang)),
}
"""By the target language, which chooses BLEU's tokenizer and nothing else."""


def _counts(
    hypotheses: Sequence[str],
    references: Sequence[str],
    orders: int,
    split: Callable[[str], Units],
) -> tuple[Matrix, Matrix, Matrix]:
    """By order, the n-grams that each pair has in common (orders, N, M), those of each hypothesis
    (orders, N, 1) and those of each reference (orders, 1, M)."""
    texts = {text: row for row, text in enumerate(dict.fromkeys([*hypotheses, *references]))}
    units = list(map(split, texts))
    rows = [[texts[text] for text in side] for side in (hypotheses, references)]
    common, sizes = [], []
    for order in range(1, orders + 1):
        columns = defaultdict[object, int](count().__next__)
        features = [[columns[each] for each in _features(text, order)] for text in units]
        table = np.zeros((len(texts), len(columns)), dtype=np.float32)
        for row, mine in enumerate(features):
            table[row, mine] = 1
        common.append(table[rows[0]] @ table[rows[1]].T)
        sizes.append([len(mine) for mine in features])
    said, wanted = (np.array(sizes, dtype=np.float64)[:, side] for side in rows)
    return np.array(common, dtype=np.float64), said[:, :, None], wanted[:, None, :]


def _features(units: Units, order: int) -> Iterator[tuple[Units, int]]:
    seen = Counter[Units]()
    for start in range(len(units) - order + 1):
        ngram = units[start : start + order]
        seen[ngram] += 1
        yield ngram, seen[ngram]


def _over(part: Matrix, whole: Matrix, empty: float = 0.0) -> Matrix:
    """part / whole, and `empty` where the whole is 0."""
    quotient = np.full(np.broadcast_shapes(part.shape, whole.shape), empty)
    np.divide(part, whole, out=quotient, where=whole != 0)
    return quotient
