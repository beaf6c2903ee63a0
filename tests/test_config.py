"""Every setting that cannot work is refused in one sentence that names it and its value."""

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any, Literal

import pytest

from seq2seq.config import (
    Diversity,
    Dropout,
    ModelConfig,
    Sampling,
    SearchConfig,
    SubwordConfig,
)
from seq2seq.errors import ConfigError
from seq2seq.training.recipe import Recipe

MISTAKES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (
        ModelConfig,
        {"d_model": 500, "heads": 8},
        r"model\.d_model=500 .* model\.heads=8 .* e\.g\. 496",
    ),
    (ModelConfig, {"d_model": 4, "heads": 8}, r"model\.d_model=4 .* model\.heads=8 .* e\.g\. 8"),
    (ModelConfig, {"d_model": 0}, r"model\.d_model=0 .* at least 1"),
    (ModelConfig, {"heads": -1}, r"model\.heads=-1 .* at least 1"),
    (ModelConfig, {"head_dim": 0}, r"model\.head_dim=0 .* at least 1"),
    (ModelConfig, {"ff_dim": 0}, r"model\.ff_dim=0 .* at least 1"),
    (ModelConfig, {"max_positions": 0}, r"model\.max_positions=0 .* at least 2"),
    (ModelConfig, {"encoder_layers": -1}, r"model\.encoder_layers=-1 .* at least 0"),
    (ModelConfig, {"decoder_layers": -2}, r"model\.decoder_layers=-2 .* at least 1"),
    (ModelConfig, {"src_vocab_size": -3}, r"model\.src_vocab_size=-3 .* at least 0"),
    (ModelConfig, {"tgt_vocab_size": -4}, r"model\.tgt_vocab_size=-4 .* at least 0"),
    (ModelConfig, {"d_model": True}, r"model\.d_model=True .* a whole number\.$"),
    (ModelConfig, {"heads": "4"}, r"model\.heads=4 .* a whole number\.$"),
    (ModelConfig, {"ff_dim": 2.5}, r"model\.ff_dim=2\.5 .* a whole number\.$"),
    (ModelConfig, {"head_dim": 8.0}, r"model\.head_dim=8\.0 .* a whole number, or null\.$"),
    (ModelConfig, {"encoder_layers": None}, r"model\.encoder_layers=None .* a whole number\.$"),
    (SubwordConfig, {"src_vocab_size": 1e4}, r"src_vocab_size=10000\.0 .* a whole number\.$"),
    (SearchConfig, {"beam": 2.5}, r"search\.beam=2\.5 .* a whole number\.$"),
    (SearchConfig, {"max_target_length": "9"}, r"max_target_length=9 .* number, or null\.$"),
    (Sampling, {"top_k": 2.5}, r"search\.sampling\.top_k=2\.5 .* a whole number, or null\.$"),
    (Sampling, {"seed": True}, r"search\.sampling\.seed=True .* a whole number\.$"),
    (Diversity, {"groups": 1.5}, r"search\.diversity\.groups=1\.5 .* a whole number\.$"),
    (Recipe, {"patience": 0.5}, r"training\.patience=0\.5 .* a whole number\.$"),
    (Recipe, {"keep_last": 0}, r"training\.keep_last=0 .* at least 1"),
    (ModelConfig, {"norm": "rms"}, r"model\.norm=rms .* one of pre, post"),
    (ModelConfig, {"activation": "tanh"}, r"activation=tanh .* relu, gelu, silu, swiglu"),
    (ModelConfig, {"positions": "rope"}, r"positions=rope .* sinusoidal, learned"),
    (ModelConfig, {"tie": "both"}, r"tie=both .* none, source-target, target-output, all"),
    (ModelConfig, {"start_token": "eos"}, r"start_token=eos .* one of bos, pad"),
    (
        ModelConfig,
        {"d_model": 9, "heads": 3},
        r"model\.d_model=9 is odd.* model\.positions=learned",
    ),
    (
        ModelConfig,
        {"tie": "all", "src_vocab_size": 80, "tgt_vocab_size": 90},
        r"model\.tie=all .* 80 source and 90 target .* model\.tie=target-output",
    ),
    (
        ModelConfig,
        {"tie": "source-target", "src_vocab_size": 80, "tgt_vocab_size": 90},
        r"model\.tie=source-target .* 80 source and 90 target",
    ),
    (Recipe, {"schedule": "step"}, r"training\.schedule=step .* inverse-sqrt, linear, cosine"),
    (Dropout, {"residual": 1.0}, r"training\.dropout\.residual=1\.0 .* up to, not including, 1"),
    (Dropout, {"attention": -0.1}, r"training\.dropout\.attention=-0\.1 "),
    (Dropout, {"activation": float("nan")}, r"training\.dropout\.activation=nan "),
    (SubwordConfig, {"kind": "wordpiece"}, r"data\.subwords\.kind=wordpiece .* unigram, bpe"),
    (SubwordConfig, {"normalization": "nfd"}, r"normalization=nfd .* nfkc, identity"),
    (SubwordConfig, {"src_vocab_size": 7}, r"data\.subwords\.src_vocab_size=7 .* at least 8"),
    (SubwordConfig, {"tgt_vocab_size": 5}, r"data\.subwords\.tgt_vocab_size=5 .* at least 8"),
    (
        SubwordConfig,
        {"src_vocab_size": 70, "tgt_vocab_size": 60},
        r"subwords\.src_vocab_size=70 .*subwords\.tgt_vocab_size=60 .*joint=true .* joint=false",
    ),
    (SearchConfig, {"beam": 0}, r"search\.beam=0 .* at least 1"),
    (SearchConfig, {"n_best": 0}, r"search\.n_best=0 .* at least 1"),
    (SearchConfig, {"n_best": 6, "beam": 5}, r"search\.n_best=6 .* search\.beam=5"),
    (SearchConfig, {"alpha": -1}, r"search\.alpha=-1 .* at least 0"),
    (SearchConfig, {"alpha": 500}, r"search\.alpha=500 .* at least 0, up to 10\.$"),
    (SearchConfig, {"alpha": float("nan")}, r"search\.alpha=nan .* at least 0, up to 10\.$"),
    (SearchConfig, {"max_length_ratio": 1e30}, r"search\.max_length_ratio=1e\+30 .* up to 1000000"),
    (SearchConfig, {"max_length_offset": 10**30}, r"search\.max_length_offset=.* up to 1000000"),
    (SearchConfig, {"min_target_length": 10**30}, r"search\.min_target_length=.* up to 1000000"),
    (SearchConfig, {"max_target_length": 10**30}, r"search\.max_target_length=.* up to 1000000"),
    (SearchConfig, {"max_length_ratio": -2}, r"search\.max_length_ratio=-2 .* at least 0"),
    (SearchConfig, {"max_length_offset": 0}, r"search\.max_length_offset=0 .* at least 1"),
    (SearchConfig, {"length_penalty": "wu"}, r"length_penalty=wu .* one of length, gnmt"),
    (SearchConfig, {"coverage_penalty": -0.5}, r"search\.coverage_penalty=-0\.5 .* at least 0"),
    (SearchConfig, {"min_target_length": -1}, r"search\.min_target_length=-1 .* at least 0"),
    (SearchConfig, {"max_target_length": 0}, r"search\.max_target_length=0 .* at least 1"),
    (
        SearchConfig,
        {"min_target_length": 9, "max_target_length": 8},
        r"search\.min_target_length=9 .* search\.max_target_length=8;",
    ),
    (SearchConfig, {"no_repeat_ngram": -2}, r"search\.no_repeat_ngram=-2 .* at least 0"),
    (SearchConfig, {"repetition_penalty": 0.9}, r"repetition_penalty=0\.9 .* at least 1"),
    (SearchConfig, {"repetition_penalty": 1e39}, r"repetition_penalty=1e\+39 .* up to 100\.$"),
    (SearchConfig, {"coverage_penalty": 1e39}, r"coverage_penalty=1e\+39 .* up to 100\.$"),
    (
        SearchConfig,
        {"max_length_ratio": float("inf")},
        r"max_length_ratio=inf .* at least 0, up to 1000000\.$",
    ),
    (
        Sampling,
        {"temperature": 0},
        r"search\.sampling\.temperature=0 .* 1e-06, up to 1000\.$",
    ),
    (
        Sampling,
        {"temperature": 1e39},
        r"sampling\.temperature=1e\+39 .* 1e-06, up to 1000\.$",
    ),
    (
        Sampling,
        {"temperature": float("nan")},
        r"sampling\.temperature=nan .* 1e-06, up to",
    ),
    (Sampling, {"top_p": 1.1}, r"search\.sampling\.top_p=1\.1 .* 1e-06, up to 1\.$"),
    (Sampling, {"top_p": 0.0}, r"search\.sampling\.top_p=0\.0 .* 1e-06, up to 1\.$"),
    (Sampling, {"top_k": 0}, r"search\.sampling\.top_k=0 .* at least 1"),
    (Diversity, {"groups": 0}, r"search\.diversity\.groups=0 .* at least 1"),
    (Diversity, {"strength": -1.0}, r"search\.diversity\.strength=-1\.0 .* at least 0"),
    (Diversity, {"strength": 1e39}, r"search\.diversity\.strength=1e\+39 .* up to 100\.$"),
    (
        SearchConfig,
        {"beam": 7, "diversity": Diversity(groups=3)},
        r"search\.beam=7 .* search\.diversity\.groups=3 .* e\.g\. 9\.",
    ),
    (
        SearchConfig,
        {"beam": 6, "diversity": Diversity(groups=3), "sampling": Sampling()},
        r"search\.diversity\.groups=3 .* search\.sampling .* one of the two",
    ),
    (
        SearchConfig,
        {"beam": 6, "diversity": Diversity(groups=3), "coverage_penalty": 0.2},
        r"search\.coverage_penalty=0\.2 .* search\.diversity\.groups=3 .* one of the two",
    ),
]


@pytest.mark.parametrize(
    ("kind", "settings", "expected"), MISTAKES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_a_mistake_names_setting_and_value(
    kind: Callable[..., Any], settings: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        kind(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_width_that_an_error_advises_works(positions: Literal["sinusoidal", "learned"]) -> None:
    for d_model in range(1, 40):
        for heads in range(1, 9):
            try:
                ModelConfig(d_model=d_model, heads=heads, positions=positions)
            except ConfigError as error:
                if advised := re.search(r"e\.g\. (\d+)", str(error)):
                    ModelConfig(d_model=int(advised[1]), heads=heads, positions=positions)


@pytest.mark.parametrize(
    "config",
    [ModelConfig(), Dropout(), SubwordConfig(), SearchConfig(), Sampling(), Diversity()],
)
def test_the_defaults_work_and_nothing_can_be_changed_afterwards(config: Any) -> None:
    for field in fields(config):
        with pytest.raises(FrozenInstanceError):
            setattr(config, field.name, getattr(config, field.name))


def test_what_goes_together_is_accepted() -> None:
    ModelConfig(d_model=500, heads=8, head_dim=64)
    ModelConfig(d_model=9, heads=3, positions="learned")
    ModelConfig(tie="target-output", src_vocab_size=80, tgt_vocab_size=90)
    ModelConfig(encoder_layers=0)
    SubwordConfig(joint=False, src_vocab_size=70, tgt_vocab_size=60)
    SearchConfig(beam=5, n_best=5, alpha=0)
    SearchConfig(beam=6, n_best=6, diversity=Diversity(groups=3))
    SearchConfig(beam=1, n_best=9, sampling=Sampling(top_p=1, temperature=0.1))
    SearchConfig(min_target_length=8, max_target_length=8)
    Dropout(residual=0.0, attention=0.99)


def test_a_head_is_as_wide_as_set_or_its_share_of_the_model() -> None:
    assert ModelConfig(d_model=12, heads=3).head_width == 4
    assert ModelConfig(d_model=12, heads=3, head_dim=5).head_width == 5


@pytest.mark.parametrize(
    ("ratio", "offset", "src_length", "most"), [(2.0, 10, 7, 24), (1.5, 1, 3, 5), (0, 4, 99, 4)]
)
def test_a_translation_is_at_most_ratio_times_source_plus_offset_long(
    ratio: float, offset: int, src_length: int, most: int
) -> None:
    config = SearchConfig(max_length_ratio=ratio, max_length_offset=offset)
    assert config.max_length(src_length) == most


@pytest.mark.parametrize(
    ("most", "prefix", "limit"),
    [(None, 0, 24), (None, 5, 29), (9, 0, 10), (99, 0, 24), (9, 12, 13)],
)
def test_the_maximum_length_bounds_what_ratio_and_offset_allow_but_cuts_no_prefix(
    most: int | None, prefix: int, limit: int
) -> None:
    assert SearchConfig(max_target_length=most).max_length(7, prefix) == limit
