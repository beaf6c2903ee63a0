"""The flags that say which models translate, in what, and how much at a time."""

import argparse
from typing import TYPE_CHECKING, get_args

from seq2seq.config import RERANK_WEIGHT, SearchConfig, at_least
from seq2seq.errors import ConfigError
from seq2seq.interop.formats import TARGETS
from seq2seq.sentence import MAX_LENGTH, TooLong

if TYPE_CHECKING:
    from seq2seq.translator import Translator

DRAW_FOR_A_BATCH = {"ctranslate2", "huggingface"}
"""Engines whose samples depend on it."""


def same_translations(args: argparse.Namespace) -> set[str]:
    """The flags that have no say in what is written: --resume may change them."""
    if args.sample and args.engine in DRAW_FOR_A_BATCH:
        return set()
    return {"batch_tokens", "device", "workers"}


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Declare what `load_translator` reads, besides the model itself."""
    flag = parser.add_argument_group("engine").add_argument
    flag(
        "--ensemble",
        metavar="MODEL",
        nargs="+",
        default=[],
        help="more models, with the same subwords, that decide together with the first",
    )
    flag(
        "--rerank",
        metavar="MODEL",
        help="a model of the other direction, which has a say in what is best of the beam",
    )
    flag(
        "--rerank-weight",
        metavar="X",
        type=float,
        help=f"how much say it has (default: {RERANK_WEIGHT})",
    )
    flag(
        "--max-length",
        metavar="N",
        type=int,
        default=MAX_LENGTH,
        help=f"most subwords of a line, the end token counted (default: {MAX_LENGTH})",
    )
    flag(
        "--too-long",
        choices=get_args(TooLong),
        default="split",
        help="what becomes of a longer line (default: split)",
    )
    flag(
        "--batch-tokens",
        metavar="N",
        type=int,
        default=4096,
        help="source tokens of a batch (default: 4096)",
    )
    flag(
        "--workers",
        metavar="N",
        type=int,
        help="processes that translate (default: on a CPU one for each thread of torch, at most "
        "eight, if the input is a long file; else 1)",
    )
    flag(
        "--device",
        metavar="NAME",
        default="auto",
        help="cpu, cuda, cuda:1 ... (default: auto, a GPU where there is one)",
    )
    flag(
        "--engine",
        choices=["native", *TARGETS],
        default="native",
        help="what searches: our own network, or the library that the model was or may be exported "
        "to (default: native)",
    )
    flag(
        "--precision",
        metavar="TYPE",
        default="fp32",
        help="fp32, bf16 or fp16 (default: fp32, the safest)",
    )


def check_engine_flags(args: argparse.Namespace) -> None:
    """ConfigError for a number that cannot work."""
    at_least("--batch-tokens", args.batch_tokens, 1)
    at_least("--max-length", args.max_length, 2)
    at_least("--workers", 1 if args.workers is None else args.workers, 1)
    if args.rerank_weight is not None:
        at_least("--rerank-weight", args.rerank_weight, 0)
        if args.rerank is None:
            raise ConfigError(
                f"--rerank-weight {args.rerank_weight} is of a model of the other direction; name "
                f"it with --rerank."
            )


def load_translator(args: argparse.Namespace, config: SearchConfig, size: int) -> "Translator":
    """The translator of a command whose input has `size` bytes, 0 where nobody knows."""
    # torch is imported only after the arguments are known to be right.
    from seq2seq.process import prepare_process
    from seq2seq.translator import Translator
    from seq2seq.workers import default_workers

    prepare_process()
    if args.engine != "native":  # others have threads
        size = 0
    return Translator.load(
        args.model,
        config,
        device=args.device,
        precision=args.precision,
        engine=args.engine,
        batch_tokens=args.batch_tokens,
        max_length=args.max_length,
        too_long=args.too_long,
        workers=args.workers or default_workers(size, args.device),
        ensemble=args.ensemble,
        rerank=args.rerank,
        rerank_weight=RERANK_WEIGHT if args.rerank_weight is None else args.rerank_weight,
    )
