"""Corpus scores, computed by sacreBLEU (Post 2018) and by nothing else.

References come in sets: each set is one whole reference translation, and line n of every set
belongs to hypothesis n. A new metric is one function that makes sacreBLEU's object, and one line
in METRICS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacrebleu import BLEU, CHRF, TER

from seq2seq.config import one_of
from seq2seq.errors import ConfigError, CorpusError
from seq2seq.text.scripts import language_of, scripts_in, unit_of

TWO_LETTERS = {"jpn": "ja", "kor": "ko", "zho": "zh", "chi": "zh", "cmn": "zh"}
"""ISO 639-3 and 639-2 codes of the languages with a tokenizer of their own -> ISO 639-1; cmn is
Mandarin."""


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


def new_bleu(target_lang: str = "", lowercase: bool = False) -> BLEU:
    """BLEU (Papineni et al. 2002), the only one of this project: `target_lang` ("zh", "zho_Hans",
    "pt-BR") chooses nothing but its tokenizer, which is zh, ja-mecab or ko-mecab for these
    languages and 13a for all others."""
    lang = _two_letters(target_lang)
    try:
        return BLEU(trg_lang=lang, lowercase=lowercase, smooth_method="exp")
    except RuntimeError as error:
        raise ConfigError(
            f"target language {target_lang}: BLEU needs the MeCab tokenizer, which is not "
            f'installed; run: pip install "seq2seq-lightning[{lang}]".'
        ) from error


def new_chrf(target_lang: str = "", lowercase: bool = False) -> CHRF:
    """chrF2 (Popović 2015): n-grams of characters, the same for every language."""
    return CHRF(lowercase=lowercase)


def new_ter(target_lang: str = "", lowercase: bool = False) -> TER:
    """Translation edit rate (Snover et al. 2006) over lower-cased words between spaces, the same
    for every language: of little use where words are written without spaces."""
    return TER()


METRICS: dict[str, Callable[[str, bool], BLEU | CHRF | TER]] = {
    "bleu": new_bleu,
    "chrf": new_chrf,
    "ter": new_ter,
}


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    target_lang: str = "",
    metrics: Sequence[str] = ("bleu", "chrf"),
    *,
    lowercase: bool = False,
) -> list[Score]:
    """The scores named by `metrics`, in that order."""
    check_lines(hypotheses, references)
    return [
        _score(metric, hypotheses, references)
        for metric in new_metrics(metrics, target_lang, lowercase).values()
    ]


def bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], target_lang: str = ""
) -> Score:
    """BLEU alone."""
    return evaluate(hypotheses, references, target_lang, ["bleu"])[0]


def new_metrics(
    names: Sequence[str], target_lang: str = "", lowercase: bool = False
) -> dict[str, BLEU | CHRF | TER]:
    """sacreBLEU's own objects, by name."""
    for name in names:
        one_of("metrics", name, METRICS)
    return {name: METRICS[name](target_lang, lowercase) for name in names}


def check_tokenizer(target_lang: str) -> None:
    """Raise ConfigError if BLEU's tokenizer is not installed: ask before training, not after."""
    new_bleu(target_lang)


def doubt(references: Sequence[str], target_lang: str) -> str:
    """What makes BLEU worthless: texts without spaces between words, of a language of which no
    tokenizer is known, or sentences that are all shorter than its n-grams. "" where nothing
    does."""
    some = references[:1000]
    known = _two_letters(target_lang) in TWO_LETTERS.values()
    if not known and unit_of(scripts_in("".join(some)), some) != "words":
        return (
            f"there are no spaces between the words of the references, so that BLEU takes a whole "
            f"sentence for a word with the tokenizer of target language {target_lang!r}; zh and ja "
            f"have tokenizers of their own, and chrF needs none."
        )
    metric = new_bleu(target_lang)
    order = metric.max_ngram_order
    if not references or any(len(metric.tokenizer(text).split()) >= order for text in references):
        return ""
    return (
        f"no reference has the {order} tokens in a row that BLEU looks for, so that it is 0 even "
        f"for perfect translations; chrF tells more."
    )


def _two_letters(target_lang: str) -> str:
    lang = language_of(target_lang)
    return TWO_LETTERS.get(lang, lang)


def check_lines(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise CorpusError unless every set of references has a line for each hypothesis."""
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


def _score(
    metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    result = metric.corpus_score(hypotheses, references)
    return Score(result.name, result.score, metric.get_signature().format())
