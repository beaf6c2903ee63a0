"""--output, --output-format and --resume: where rows go that are made of the lines of an input."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from seq2seq.apps.flag_names import flag_of
from seq2seq.apps.rows import WRITERS, format_of
from seq2seq.data.lines import PACKERS
from seq2seq.data.output import Output, check_output, open_output
from seq2seq.errors import ConfigError, UserError


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Declare --output and --resume."""
    parser.add_argument("--output", metavar="FILE", type=Path, help="default: stdout")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on after the last line of the input that an interrupted run has finished",
    )


def add_format_flag(parser: argparse.ArgumentParser) -> None:
    """Declare --output-format, for commands that write text or JSON."""
    parser.add_argument(
        "--output-format",
        choices=WRITERS,
        help="default: jsonl for a file that ends in .jsonl, or else text",
    )


def output_format(args: argparse.Namespace) -> str:
    """As asked for, or as the name of the file tells."""
    return args.output_format or format_of(args.output)


def check_output_flags(args: argparse.Namespace, inputs: Iterable[str | None]) -> None:
    """ConfigError where there is no file to go on with, where the file is one of the inputs, and
    where its name promises what is not written."""
    if args.output is None:
        if args.resume:
            raise ConfigError("--resume goes on with a file: name it with --output.")
        return
    check_output("--output", args.output, inputs)
    if args.output.suffix in PACKERS:
        raise ConfigError(
            f"--output {args.output}: lines are written plain, so that --resume can go on; name it "
            f"{args.output.with_suffix('')}, and pack it afterwards."
        )


@contextmanager
def opened(
    args: argparse.Namespace, settings: Mapping[str, str], *, number_column: int | None = None
) -> Iterator[Output]:
    """Where rows go. An error, or Ctrl-C, says how far it is and how to go on."""
    with open_output(
        args.output, settings, resume=args.resume, number_column=number_column
    ) as output:
        try:
            yield output
        except UserError as error:
            raise type(error)(f"{error} {output.state}") from None
        except KeyboardInterrupt:
            raise KeyboardInterrupt(output.state) from None


def skip_finished(lines: Iterator[object], done: int) -> None:
    """Pass over what an interrupted run has finished; ConfigError if the input has fewer lines."""
    if (found := sum(1 for _ in islice(lines, done))) < done:
        raise ConfigError(f"--resume: the input has {found} lines, but more are finished.")


def made_with(
    args: argparse.Namespace, inputs: Mapping[str, str | None], free: Set[str]
) -> dict[str, str]:
    """The settings that decide what is written, as --resume compares them: the models, the files
    that are read, and all flags but the `free` ones."""
    from seq2seq.model_folder import EXPORTED, WEIGHTS, find_model

    models = {"MODEL": args.model}
    others = getattr(args, "ensemble", ())
    models |= {f"--ensemble {number}": path for number, path in enumerate(others, start=1)}
    if getattr(args, "rerank", None) is not None:
        models["--rerank"] = args.rerank
    decisive = dict[str, Path]()
    for name, path in models.items():
        exported = Path(path) / EXPORTED
        decisive[name] = exported if exported.is_file() else find_model(path) / WEIGHTS
    if getattr(args, "glossary", None) is not None:
        decisive["--glossary"] = Path(args.glossary)
    told = dict[str, str]()
    for name, file in decisive.items():
        told[name] = str(file.resolve())
        if file.exists():  # or else whoever reads it says so
            told[f"{name} written at"] = str(file.stat().st_mtime_ns)
    for name, path in inputs.items():
        told[name.upper()] = "standard input" if path is None else str(Path(path).resolve())
    flags = (
        vars(args).keys()
        - {"model", "ensemble", "rerank", "glossary", "output", "resume"}
        - inputs.keys()
        - free
    )
    return told | {flag_of(name): str(getattr(args, name)) for name in sorted(flags)}
