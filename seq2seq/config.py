"""Settings that outlive one file: the network, the subwords, the search. Standard library only.

What is stored with a model uses closed names ("pre", "relu"), never import paths, so that renaming
a module cannot break an old model folder.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin, get_type_hints

from seq2seq.errors import ConfigError

# The first four ids of every vocabulary: the contract between subwords, network and search.
PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3

AttentionForm = Literal["auto", "folded", "fast"]
"""Which of two equal computations of attention runs; a run-time choice, never stored."""
MOST_SUBWORDS = 1_000_000
"""No sentence is longer, so no bound on lengths needs to be larger."""
RERANK_WEIGHT = 0.2
"""How much say a model of the other direction has: best on the validation set of Multi30k, see
docs/results.md."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything needed to rebuild the network, nothing about how it was trained."""

    src_vocab_size: int = 0
    """Source subwords; 0 until the subword model is known, a network needs the real number."""
    tgt_vocab_size: int = 0
    """Target subwords; 0 until the subword model is known."""
    d_model: int = 256
    """Width D of every hidden vector; even with sinusoids, and a multiple of `heads` unless
    `head_dim` is set."""
    heads: int = 4
    """Attentions side by side, H."""
    head_dim: int | None = None
    """Width E of one head; d_model / heads when not set."""
    ff_dim: int = 1024
    """Inner width F of the feed-forward layers."""
    encoder_layers: int = 3
    """Depth of the encoder."""
    decoder_layers: int = 3
    """Depth of the decoder, whose layers alone see the source."""
    norm: Literal["pre", "post"] = "pre"
    """LayerNorm before each sublayer (Xiong et al. 2020) or after it (Vaswani et al. 2017)."""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """Of the feed-forward layers; swiglu (Shazeer 2020) has a third matrix."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Sinusoids reach any length; a learned table ends at `max_positions`."""
    max_positions: int = 512
    """Rows of the learned position table; sinusoids ignore it."""
    tie: Literal["none", "source-target", "target-output", "all"] = "all"
    """Which of source embedding, target embedding and output projection are one matrix (Press and
    Wolf 2017). "source-target" and "all" need one joint vocabulary."""
    bias: bool = True
    """Attention projections and feed-forward layers carry a bias."""
    output_bias: bool = False
    """The output projection carries a bias."""
    scale_embeddings: bool = True
    """Multiply embeddings by the square root of d_model (Vaswani et al. 2017, section 3.4)."""
    start_token: Literal["bos", "pad"] = "bos"
    """What the decoder reads first; "pad" is the zero row, as Marian starts."""

    def __post_init__(self) -> None:
        check_kinds("model", self)
        for name in ("d_model", "heads", "ff_dim", "decoder_layers"):
            at_least(f"model.{name}", getattr(self, name), 1)
        at_least("model.max_positions", self.max_positions, 2)  # a subword and the end
        for name in ("src_vocab_size", "tgt_vocab_size", "encoder_layers"):
            at_least(f"model.{name}", getattr(self, name), 0)
        if self.head_dim is not None:
            at_least("model.head_dim", self.head_dim, 1)
        elif self.d_model % self.heads:
            odd = self.positions == "sinusoidal" and self.heads % 2
            step = 2 * self.heads if odd else self.heads
            nearest = max(self.d_model // step, 1) * step
            raise ConfigError(
                f"model.d_model={self.d_model} cannot be split into model.heads={self.heads} equal "
                f"heads; use a multiple of {step}, e.g. {nearest}, or set model.head_dim."
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(
                f"model.d_model={self.d_model} is odd, but sinusoidal positions are pairs of sine "
                f"and cosine; use an even number or model.positions=learned."
            )
        if self.shares_languages and self.src_vocab_size != self.tgt_vocab_size:
            raise cannot_share(
                self.tie,
                f"there are {self.src_vocab_size} source and {self.tgt_vocab_size} target subwords",
            )

    @property
    def head_width(self) -> int:
        """E, whether or not `head_dim` was set."""
        return self.head_dim if self.head_dim is not None else self.d_model // self.heads

    @property
    def max_length(self) -> int | None:
        """Most tokens of a source or a target, or None where positions have no end."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def start_id(self) -> int:
        """The token that the decoder reads first."""
        return BOS_ID if self.start_token == "bos" else PAD_ID

    @property
    def shares_languages(self) -> bool:
        """Whether both languages have one embedding, so that an id means one subword in both."""
        return self.tie in ("source-target", "all")


def cannot_share(tie: str, because: str) -> ConfigError:
    """What to raise where `model.tie` shares one matrix between two vocabularies."""
    return ConfigError(
        f"model.tie={tie} shares one matrix between both languages, but {because}; use "
        f"data.subwords.joint=true, or model.tie=target-output."
    )


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Dropout rates, each in [0, 1): how the network is trained, so no part of ModelConfig."""

    residual: float = 0.1
    """On embeddings and on each sublayer's output before it is added."""
    attention: float = 0.0
    """On attention weights."""
    activation: float = 0.0
    """Inside the feed-forward layers, after the activation."""

    def __post_init__(self) -> None:
        for name in ("residual", "attention", "activation"):
            rate = getattr(self, name)
            if not 0 <= rate < 1:
                raise ConfigError(
                    f"training.dropout.{name}={rate} is not a rate; use 0 up to, not including, 1."
                )


@dataclass(frozen=True, kw_only=True)
class SubwordConfig:
    """How the subword models are trained (SentencePiece, Kudo and Richardson 2018)."""

    kind: Literal["unigram", "bpe"] = "unigram"
    """Unigram language model (Kudo 2018) or byte-pair encoding (Sennrich et al. 2016)."""
    joint: bool = True
    """One model for both languages, trained on both sides."""
    src_vocab_size: int = 8000
    """Subwords of the source language, special ones included. Where the corpus has fewer, unigram
    has those and bpe is refused."""
    tgt_vocab_size: int = 8000
    """Subwords of the target language; must equal `src_vocab_size` when joint."""
    byte_fallback: bool = True
    """Spell unseen characters as bytes, so that nothing is unknown."""
    normalization: Literal["nfkc", "identity"] = "nfkc"
    """Unicode normalisation before segmentation."""

    def __post_init__(self) -> None:
        check_kinds("data.subwords", self)
        for name in ("src_vocab_size", "tgt_vocab_size"):
            at_least(f"data.subwords.{name}", getattr(self, name), 8)
        if self.joint and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"data.subwords.src_vocab_size={self.src_vocab_size} and "
                f"data.subwords.tgt_vocab_size={self.tgt_vocab_size} differ, but "
                f"data.subwords.joint=true trains one vocabulary; make them equal, or joint=false."
            )


@dataclass(frozen=True, kw_only=True)
class SubwordSampling:
    """Another segmentation of every training sentence in every epoch."""

    src: float | None = None
    """Of source sentences, more than 0 and at most 1; null for the best segmentation always. With
    unigram subwords the exponent alpha of a segmentation's probability (Kudo 2018, section 3.3): 1
    follows the model, towards 0 all are equally likely; 0.2 is usual. With BPE the share of merges
    left out (Provilkov et al. 2020); 0.1 is usual."""
    tgt: float | None = None
    """The same of target sentences."""

    def __post_init__(self) -> None:
        for side in ("src", "tgt"):
            strength = getattr(self, side)
            if strength is not None and not 0 < strength <= 1:
                raise ConfigError(
                    f"data.subword_sampling.{side}={strength} is out of range; use a number above "
                    f"0, up to 1, or null for none."
                )


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Translations are drawn at random, `search.n_best` of them, instead of searched for.

    Random numbers follow from the seed and the number of the sentence in the input, so the batch
    that a sentence is in has no say in its translations (but in those of the libraries that a model
    may be exported to, which draw for a batch).
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it: 1 follows the model, towards 0, with 1e-6, the
    least, it is greedy search; with 1000, the most, all tokens are nearly as likely."""
    top_k: int | None = None
    """Only the k likeliest tokens may be drawn (Fan et al. 2018); null for all."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have probability p may be drawn (Holtzman et al.
    2020): as few as reach it, of what `top_k` leaves; 1 for all."""
    seed: int = 1
    """Another seed gives other translations."""

    def __post_init__(self) -> None:
        check_kinds("search.sampling", self)
        at_least("search.sampling.temperature", self.temperature, 1e-6, 1000)
        at_least("search.sampling.top_p", self.top_p, 1e-6, 1)
        if self.top_k is not None:
            at_least("search.sampling.top_k", self.top_k, 1)


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """The beam is split into groups that avoid each other (Vijayakumar et al. 2018)."""

    groups: int = 1
    """Groups of equal width; 1 is plain beam search."""
    strength: float = 0.5
    """What a token costs, in log-probability, for each translation of an earlier group that has it
    in the same place, at most 100; scores do not count it."""

    def __post_init__(self) -> None:
        check_kinds("search.diversity", self)
        at_least("search.diversity.groups", self.groups, 1)
        at_least("search.diversity.strength", self.strength, 0, 100)


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How translations are searched for: by a `Translator`, or, as settings `search.*` of a run, in
    its validations and tests."""

    beam: int = 5
    """Hypotheses kept per sentence, W; 1 is greedy search. Sampling ignores it."""
    n_best: int = 1
    """Hypotheses returned per sentence, at most `beam` unless they are sampled."""
    length_penalty: Literal["length", "gnmt"] = "length"
    """What divides a hypothesis's log-probability: length ** alpha, or ((5 + length) / 6) ** alpha
    (Wu et al. 2016, eq. 14)."""
    alpha: float = 1.0
    """Exponent of the length penalty, at most 10; 0 switches it off."""
    coverage_penalty: float = 0.0
    """Weight beta of how much of the source was looked at (Wu et al. 2016, eq. 14), which joins the
    scores of finished hypotheses; 0.1 or 0.2 with length_penalty=gnmt, 0 switches it off."""
    min_target_length: int = 0
    """A translation has at least so many subwords; the limits below win."""
    max_target_length: int | None = None
    """A translation has at most so many subwords, and what the next two settings allow; null for
    these alone. Terms that it must hold are added to both."""
    max_length_ratio: float = 2.0
    """A translation and its end token have at most ratio * (source subwords) + offset subwords."""
    max_length_offset: int = 10
    """See `max_length_ratio`."""
    no_repeat_ngram: int = 0
    """No translation has the same n subwords in a row twice (Paulus et al. 2018); 0 for no rule."""
    repetition_penalty: float = 1.0
    """Multiplies the log-probability of a subword that the translation has already (after Keskar et
    al. 2019), in its score, too; 1 switches it off."""
    diversity: Diversity = field(default_factory=Diversity)
    sampling: Sampling | None = None
    """Sample instead; null for search."""

    def __post_init__(self) -> None:
        check_kinds("search", self)
        at_least("search.beam", self.beam, 1)
        at_least("search.n_best", self.n_best, 1)
        at_least("search.alpha", self.alpha, 0, 10)
        at_least("search.coverage_penalty", self.coverage_penalty, 0, 100)
        at_least("search.min_target_length", self.min_target_length, 0, MOST_SUBWORDS)
        at_least("search.max_length_ratio", self.max_length_ratio, 0, MOST_SUBWORDS)
        at_least("search.max_length_offset", self.max_length_offset, 1, MOST_SUBWORDS)
        at_least("search.no_repeat_ngram", self.no_repeat_ngram, 0)
        at_least("search.repetition_penalty", self.repetition_penalty, 1, 100)
        if self.max_target_length is not None:
            at_least("search.max_target_length", self.max_target_length, 1, MOST_SUBWORDS)
            if self.min_target_length > self.max_target_length:
                raise ConfigError(
                    f"search.min_target_length={self.min_target_length} is more than "
                    f"search.max_target_length={self.max_target_length}; no translation can "
                    f"be both."
                )
        groups = self.diversity.groups
        if self.sampling is not None:
            if groups > 1:
                raise ConfigError(
                    f"search.diversity.groups={groups} are groups of a beam, but search.sampling "
                    f"has none; use one of the two."
                )
            return
        if groups > 1 and self.coverage_penalty:
            raise ConfigError(
                f"search.coverage_penalty={self.coverage_penalty} chooses among all hypotheses, "
                f"but search.diversity.groups={groups} are searched for the best of each; use one "
                f"of the two."
            )
        if self.n_best > self.beam:
            raise ConfigError(
                f"search.n_best={self.n_best} is more than search.beam={self.beam}; "
                f"a search returns at most as many hypotheses as it keeps."
            )
        if self.beam % groups:
            next_multiple = self.beam + -self.beam % groups
            raise ConfigError(
                f"search.beam={self.beam} cannot be split into search.diversity.groups={groups} "
                f"equal groups; use a multiple of {groups}, e.g. {next_multiple}."
            )

    def max_length(self, src_length: int, prefix_length: int = 0) -> int:
        """Most target subwords, the end token included, for a source of `src_length` subwords.

        A forced prefix always fits, and its subwords do not count against ratio and offset.
        """
        relative = prefix_length + int(self.max_length_ratio * src_length) + self.max_length_offset
        if self.max_target_length is None:
            return relative
        return min(relative, max(self.max_target_length, prefix_length) + 1)


def check_kinds(group: str, settings: object) -> None:
    """Raise ConfigError unless every setting of a `Literal` type is one of its choices, and every
    one of type `int` or `int | None` a whole number, or None."""
    for name, kind in get_type_hints(type(settings)).items():
        setting, value = f"{group}.{name}", getattr(settings, name)
        if get_origin(kind) is Literal:
            one_of(setting, value, get_args(kind))
        elif kind in (int, int | None) and type(value) not in (int, *get_args(kind)):
            null = ", or null" if get_args(kind) else ""
            raise ConfigError(f"{setting}={value} is out of range; use a whole number{null}.")


def one_of(setting: str, value: object, choices: Collection[object]) -> None:
    """Raise ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(map(str, choices))
        raise ConfigError(f"{setting}={value} is unknown; choose one of {listed}.")


def at_least(setting: str, value: float, least: float, most: float = math.inf) -> None:
    """Raise ConfigError unless `value` is a finite number of at least `least`, up to `most`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most or value == math.inf:
        upper = "" if most == math.inf else f", up to {most}"
        raise ConfigError(
            f"{setting}={value} is out of range; use a number of at least {least}{upper}."
        )
