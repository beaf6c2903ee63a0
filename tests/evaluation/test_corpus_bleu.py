"""Scoring in parts must give the bits of scoring at once; sacreBLEU on the whole is the oracle."""

import random
from typing import Any

import pytest
import sacrebleu
import torch
import torchmetrics.functional.text

from seq2seq.evaluation.corpus_bleu import CorpusBLEU

WORDS = [f"{kind}{number}" for number in range(12) for kind in ("wörd", "字", "x.")]


def corpus(lines: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Hypotheses of 0 to 19 words, and two references that share some n-grams with each."""
    rng = random.Random(seed)
    hypotheses = [" ".join(rng.choices(WORDS, k=rng.randrange(20))) for _ in range(lines)]
    references = []
    for hypothesis in hypotheses:
        words = hypothesis.split()
        starts = [words[: rng.randint(0, len(words))] for _ in range(2)]
        references.append([" ".join(start + rng.choices(WORDS, k=4)) for start in starts])
    return hypotheses, references


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lang", ["de", "zh"])
def test_corpus_bleu_over_any_sharding_equals_sacrebleu_exactly(seed: int, lang: str) -> None:
    hypotheses, references = corpus(lines=211, seed=seed)
    cuts = sorted(random.Random(seed).choices(range(212), k=9))
    metric = CorpusBLEU(lang)
    for start, end in zip([0, *cuts], [*cuts, 211], strict=True):
        metric.update(hypotheses[start:end], references[start:end])
    oracle = sacrebleu.BLEU(trg_lang=lang, smooth_method="exp")
    whole = oracle.corpus_score(hypotheses, list(zip(*references, strict=True)))
    assert metric.compute().item() == whole.score
    assert metric.signature == oracle.get_signature().format()
    assert "nrefs:2|" in metric.signature


def test_every_process_gets_the_score_of_the_whole_even_one_that_saw_nothing() -> None:
    hypotheses, references = corpus(lines=50, seed=7)
    processes = [CorpusBLEU() for _ in range(3)]
    for rank, process in enumerate(processes[:2]):
        process.update(hypotheses[rank::2], references[rank::2])
    states = [dict(process.metric_state) for process in processes]
    for process in processes:
        # torchmetrics gathers state after state; here the list of tensors is already known.
        names = iter(states[0])
        process.dist_sync_fn = lambda _, group, names=names: gathered(states, next(names))
        process.distributed_available_fn = lambda: True
        whole = sacrebleu.BLEU().corpus_score(hypotheses, list(zip(*references, strict=True)))
        assert process.compute().item() == whole.score


def gathered(states: list[dict[str, Any]], name: str) -> list[torch.Tensor]:
    return [state[name] for state in states]


def test_forward_gives_the_score_of_the_part_and_keeps_the_whole() -> None:
    hypotheses, references = corpus(lines=20, seed=3)
    parts, part, whole = CorpusBLEU(), CorpusBLEU(), CorpusBLEU()
    parts(hypotheses[:15], references[:15])
    part.update(hypotheses[15:], references[15:])
    whole.update(hypotheses, references)
    assert parts(hypotheses[15:], references[15:]) == part.compute()
    assert parts.compute() == whole.compute()
    assert parts.signature == whole.signature


def test_without_a_common_4_gram_the_score_is_sacrebleus_and_not_zero() -> None:
    hypotheses, references = ["one two three four six"], [["one two three five six"]]
    metric = CorpusBLEU()
    metric.update(hypotheses, references)
    assert torchmetrics.functional.text.bleu_score(hypotheses, references) == 0
    assert metric.compute().item() == sacrebleu.corpus_bleu(hypotheses, references).score > 0


def test_a_varying_number_of_references_is_scored_and_signed_as_sacrebleu_does() -> None:
    hypotheses, references = corpus(lines=30, seed=1)
    for each in references[::3]:
        each.pop()
    metric = CorpusBLEU()
    metric.update(hypotheses[:11], references[:11])
    metric.update(hypotheses[11:], references[11:])
    oracle = sacrebleu.BLEU()
    first = [each[0] for each in references]
    second: list[Any] = [each[1] if len(each) == 2 else None for each in references]
    assert metric.compute().item() == oracle.corpus_score(hypotheses, [first, second]).score
    assert metric.signature == oracle.get_signature().format()


def test_nothing_seen_scores_zero_without_a_warning() -> None:
    never, empty = CorpusBLEU(), CorpusBLEU()
    empty.update([], [])
    assert never.compute().item() == empty.compute().item() == 0
    assert "nrefs:1|" in never.signature


def test_reset_forgets_everything() -> None:
    metric = CorpusBLEU()
    metric.update(["a b c d e"], [["a b c d e", "f"]])
    assert metric.compute() == pytest.approx(100)
    metric.reset()
    assert metric.compute() == 0
    assert "nrefs:1|" in metric.signature


def test_the_score_is_float64_even_after_the_module_is_cast() -> None:
    metric = CorpusBLEU().to(torch.bfloat16)
    metric.update(["a b c d e f"], [["a b c d e g"]])
    assert metric.counts.dtype == torch.int64
    assert metric.compute().dtype == torch.float64


def test_a_part_with_missing_references_is_a_bug_of_the_caller() -> None:
    metric = CorpusBLEU()
    with pytest.raises(ValueError, match="2 hypotheses, 1 lists"):
        metric.update(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="has no reference"):
        metric.update(["a", "b"], [["a"], []])
