"""What goes wrong in trainings, in plain words: numbers and texts in, a Symptom or None out.

A new check is a function here, and the line in health.py that feeds it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch

from seq2seq.data.glance import Glance
from seq2seq.data.overlap import KINDS
from seq2seq.text.normalize import shortened
from seq2seq.text.repetition import repeats
from seq2seq.training.recipe import Recipe

INSPECT = "look at the corpus with `seq2seq inspect`"


class Symptom(NamedTuple):
    """What is seen, with its numbers, and what to do about it."""

    name: str
    grade: int
    """How bad it is; the same symptom is told again when this has grown."""
    says: str


def calmer(recipe: Recipe) -> str:
    """What to do when training is too wild, or does nothing."""
    if recipe.lr == 0:
        return "raise training.lr=0"
    return f"lower training.lr={recipe.lr} or lengthen training.warmup_steps={recipe.warmup_steps}"


def no_learning_rate(recipe: Recipe, steps: float) -> Symptom | None:
    """`steps` are those of the whole run: infinity where it has no end."""
    if recipe.lr == 0:
        says = f"training.lr=0, so no weight ever changes; the default is {Recipe().lr}."
        return Symptom("learning-rate", 1, says)
    if recipe.warmup_steps <= steps:
        return None
    says = (
        f"training.warmup_steps={recipe.warmup_steps} is more than the {steps:.0f} steps of this "
        f"run: the learning rate ends at {steps / recipe.warmup_steps:.0%} of training.lr="
        f"{recipe.lr}, still rising; shorten the warm-up, or raise trainer.max_steps."
    )
    return Symptom("learning-rate", 1, says)


def skipped_steps(skipped: int, recipe: Recipe) -> Symptom | None:
    """Told again whenever their number has doubled."""
    if not skipped:
        return None
    says = (
        f"{skipped} {'step was' if skipped == 1 else 'steps were'} skipped: loss or gradients were "
        f"not finite (NaN or infinity). The weights have not been touched. If it goes on, "
        f"{calmer(recipe)}, or {INSPECT}."
    )
    return Symptom("skipped-steps", skipped.bit_length(), says)


def vanishing_loss_scale(scale: float, skipped: int, recipe: Recipe) -> Symptom | None:
    """The loss scale of fp16 halves at a skipped step, and doubles after 2,000 steps in a row that
    were not; below 1 it makes gradients smaller, until they are zero."""
    if scale >= 1:
        return None
    says = (
        f"the loss scale of 16-mixed has fallen to {scale:.3g}; {skipped} steps were skipped. It "
        f"makes small gradients zero, and then nothing is learned. Set trainer.precision to "
        f"bf16-mixed or 32-true, {calmer(recipe)}, or {INSPECT}."
    )
    return Symptom("loss-scale", 1, says)


def exploding_gradients(
    worst: float, usual: Sequence[float], recipe: Recipe, bound: float | None
) -> Symptom | None:
    """The largest gradient norm since the last look, and the usual ones of earlier looks.

    The loss is a mean over tokens, so norms are near 1 wherever networks learn, and 2 to 10 at
    their first step: what is below 10 may be many times the usual, late in an easy task, and means
    nothing; what is above 100 means something even where it is usual.
    """
    if worst <= 10.0:  # nearly always, and the median of all looks takes its time
        return None
    most = 5.0  # that is taken for usual
    normal = min(median(usual) if len(usual) >= 3 else most, most)
    if worst <= 20 * normal:
        return None
    where = (
        f"the median of this run is {normal:.3g}"
        if normal < most
        else "networks that learn stay below 10"
    )
    cut = f"trainer.gradient_clip_val={bound}" if bound else "nothing"
    first = "" if bound else "set trainer.gradient_clip_val=1.0, or "
    says = (
        f"the gradient norm went up to {worst:.3g}, where {where}; {cut} cuts it off. If it "
        f"happens again, {first}{calmer(recipe)}."
    )
    return Symptom("exploding-gradients", int(math.log10(worst / max(normal, 1e-9))), says)


def ignored_source(true: float, other: float, recipe: Recipe) -> Symptom | None:
    """Validation loss, in nats a token, with each sentence's source and with its neighbour's.

    A decoder that translates loses by a nat or more; one that only knows the language, by nothing.
    """
    if not other - true < 0.05:
        return None
    perplexity, others = torch.tensor([true, other]).exp().tolist()  # as that of the validation
    says = (
        f"the decoder hardly uses its source: perplexity is {perplexity:.4g} with the true sources "
        f"and {others:.4g} with those of other sentences. Do lines with the same number "
        f"translate each other ({INSPECT})? If so, train longer, or {calmer(recipe)}."
    )
    return Symptom("ignored-source", 1, says)


def one_for_all(translations: Sequence[str], references: Sequence[str]) -> Symptom | None:
    """More than half of the translations are one and the same, and of the references not half, and
    fewer by one in ten."""
    (same, count), (_, usual) = (
        Counter(texts).most_common(1)[0] for texts in (translations, references)
    )
    number = len(translations)
    if not usual <= number / 2 < count or (count - usual) / number <= 0.1:
        return None
    seen = f"{count} of {number} validation sentences get one and the same translation"
    return _degenerate("one-for-all", count / number, f"{seen}, {shortened(same)!r}")


def empty_output(translations: Sequence[str], references: Sequence[str]) -> Symptom | None:
    """One in twenty, if references are not empty as well."""
    share, excess = _shares(translations, references, lambda text: not text.strip())
    if excess <= 0.05:
        return None
    return _degenerate(
        "empty-output", share, f"{share:.0%} of the validation translations are empty"
    )


def endless_output(translations: Sequence[str], references: Sequence[str]) -> Symptom | None:
    """One in ten, if references do not repeat themselves as well."""
    share, excess = _shares(translations, references, repeats)
    if excess <= 0.1:
        return None
    seen = f"{share:.0%} of the validation translations repeat themselves without end"
    example = shortened(next(filter(repeats, translations)))
    return _degenerate("endless-output", share, f"{seen}, such as {example!r}")


def odd_length(translations: Sequence[str], references: Sequence[str]) -> Symptom | None:
    """All translations together, against their references."""
    ratio = sum(map(len, translations)) / max(1, sum(map(len, references)))
    if 0.5 <= ratio <= 2:
        return None
    seen = f"validation translations are {ratio:.1f} times as long as their references"
    return _degenerate("odd-length", 0.0, seen)


OUTPUT = (empty_output, one_for_all, endless_output, odd_length)


def degenerate_output(translations: Sequence[str], references: Sequence[str]) -> Symptom | None:
    """The first that fits, not all that do."""
    found = (check(translations, references) for check in OUTPUT) if translations else ()
    return next(filter(None, found), None)


def overlapping_validation(found: Glance, validation: int) -> Symptom | None:
    """`validation` pairs were looked for; three must be found, and more are guessed where not all
    of train was looked at."""
    scale = found.of / found.looked_at / validation
    spoilt = (
        found.pairs * scale > KINDS["overlap-pair"].spoils_above
        or found.sources * scale > KINDS["overlap-source"].spoils_above
    )
    if found.sources < 3 or not spoilt:
        return None
    says = (
        f"{found.pairs} of {validation} validation pairs, and {found.sources} of their sources, "
        f"are in data.train as well, judging by {found.looked_at} of {found.of} training pairs. "
        f"Validation BLEU is too good then, and chooses a model that knows answers by heart: "
        f"{INSPECT}, and take them out of data.train with `seq2seq clean --against`."
    )
    return Symptom("overlapping-validation", 1, says)


def _degenerate(name: str, share: float, seen: str) -> Symptom:
    advice = f"if it stays so, train longer, lower training.lr, or {INSPECT}"
    return Symptom(name, 2 if share > 0.9 else 1, f"{seen}; {advice}.")


def _shares(
    translations: Sequence[str], references: Sequence[str], fault: Callable[[str], bool]
) -> tuple[float, float]:
    """The share of translations that have a fault, and by how much it exceeds the references'."""
    found, usual = (sum(map(fault, texts)) for texts in (translations, references))
    return found / len(translations), (found - usual) / len(translations)
