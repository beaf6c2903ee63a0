"""Corpus scores, computed by sacreBLEU (Post 2018) and by nothing else.

A metric is `metric(hypotheses, references, target_lang) -> Score`. References come in sets: each
set is one whole reference translation, and line n of every set belongs to hypothesis n. A new
metric is one function and one line in METRICS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacrebleu import BLEU, CHRF, TER

from seq2seq.config import one_of
from seq2seq.errors import ConfigError, CorpusError


@dataclass(frozen=True)
class Score:
    """A number that anyone can reproduce."""

    name: str
    value: float
    """From 0 to 100; TER counts errors, so lower is better, and it may exceed 100."""
    signature: str
    """sacreBLEU's: number of references, tokenizer, smoothing, version ..."""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  {self.signature}"


def bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], target_lang: str = ""
) -> Score:
    """BLEU (Papineni et al. 2002) on the target language's own tokens, case kept."""
    return _score(new_bleu(target_lang), hypotheses, references)


def chrf(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], target_lang: str = ""
) -> Score:
    """chrF2 (Popović 2015): n-grams of characters, the same for every language."""
    return _score(CHRF(), hypotheses, references)


def ter(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], target_lang: str = ""
) -> Score:
    """Translation edit rate (Snover et al. 2006) over words between spaces, the same for every
    language: of little use where words are written without spaces."""
    return _score(TER(), hypotheses, references)


METRICS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]], str], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
}


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
) -> list[Score]:
    """The scores named by `metrics`, in that order."""
    for name in metrics:
        one_of("metrics", name, METRICS)
    return [METRICS[name](hypotheses, references, target_lang) for name in metrics]


def new_bleu(target_lang: str) -> BLEU:
    """The only BLEU of this project: `target_lang` ("zh", "pt-BR") chooses nothing but its
    tokenizer, which is zh, ja-mecab or ko-mecab for these languages and 13a for all others."""
    lang = target_lang.replace("_", "-").split("-")[0].lower()
    try:
        return BLEU(trg_lang=lang, smooth_method="exp")
    except RuntimeError as error:
        raise ConfigError(
            f"target language {target_lang}: BLEU needs the MeCab tokenizer, which is not "
            f'installed; run: pip install "seq2seq-lightning[{lang}]".'
        ) from error


def check_tokenizer(target_lang: str) -> None:
    """Raise ConfigError if BLEU's tokenizer is not installed: ask before training, not after."""
    new_bleu(target_lang)


def _score(
    metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    if not references:
        raise CorpusError(f"{len(hypotheses)} hypotheses but 0 sets of references; give one.")
    for number, reference in enumerate(references, start=1):
        if len(reference) != len(hypotheses):
            raise CorpusError(
                f"{len(hypotheses)} hypotheses but {len(reference)} lines in reference set "
                f"{number}; line n of one must translate the same sentence as line n of the other."
            )
    if not hypotheses:
        raise CorpusError("0 hypotheses and 0 reference lines; there is nothing to score.")
    result = metric.corpus_score(hypotheses, references)
    return Score(result.name, result.score, metric.get_signature().format())
