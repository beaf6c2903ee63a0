"""Average the weights of checkpoints into a model folder.

The mean of a few checkpoints is often a little better than any one of them (Junczys-Dowmunt et al.
2016; Vaswani et al. 2017, section 6.1). A fit does the same at its end, and keeps what is best.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from seq2seq.apps.new_folder import check_new, check_writable
from seq2seq.config import at_least
from seq2seq.errors import ConfigError
from seq2seq.provenance import Provenance, with_command, without_scores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a run folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", metavar="K", type=int, help="the last K checkpoints (default: 5, or fewer)"
    )
    which.add_argument(
        "--best", metavar="K", type=int, help="the K checkpoints with the best validation BLEU"
    )
    which.add_argument(
        "--checkpoints",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="these checkpoints, of this run or of others with its architecture and subwords",
    )
    parser.add_argument(
        "--output",
        metavar="MODEL",
        type=Path,
        help="a new model folder (default: RUN/model-averaged, which is written anew)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the averaged model folder."""
    from seq2seq.model_folder import find_model, load_model, save_model
    from seq2seq.training.checkpoints import average

    default = args.run / "model-averaged"
    output = args.output or default
    folder = find_model(args.run)
    if os.path.realpath(output) == os.path.realpath(default):
        check_writable(output)
    else:
        check_new(output)
    model = load_model(folder)
    chosen = args.checkpoints or _kept_by(args)
    if len(set(map(os.path.realpath, chosen))) < len(chosen):
        raise ConfigError(f"--checkpoints {' '.join(map(str, chosen))} has the same file twice.")
    average(model, chosen)
    model = replace(model, provenance=_provenance(args.run, chosen, output))
    save_model(model, output)
    named = chosen if args.checkpoints else [path.name for path in chosen]
    print(f"{output}: mean of {', '.join(map(str, named))}")


def _kept_by(args: argparse.Namespace) -> list[Path]:
    """The last or the best checkpoints of the run."""
    from seq2seq.training.checkpoints import FOLDER, best_checkpoints, last_checkpoints

    which, count, find = "last", args.last, last_checkpoints
    if args.best is not None:
        which, count, find = "best", args.best, best_checkpoints
    folder, kept = args.run / FOLDER, find(args.run)
    if not kept:
        best = " of the best validations" if which == "best" else ""
        raise ConfigError(f"{folder} holds no checkpoints{best} to average.")
    if count is None:
        count = min(5, len(kept))
    at_least(f"--{which}", count, 1)
    if len(kept) < count:
        raise ConfigError(
            f"--{which} {count}: {folder} holds {len(kept)} such checkpoints; "
            f"ask for fewer, or train with a larger training.keep_{which}."
        )
    return kept[-count:]


def _provenance(run: Path, checkpoints: Sequence[Path], output: Path) -> Provenance:
    """What is known of the run, unless other runs have a share in it."""
    from seq2seq.model_facts import load_provenance
    from seq2seq.software import software
    from seq2seq.training.checkpoints import FOLDER, is_in, step_of
    from seq2seq.training.record import training_until

    own = all(is_in(run / FOLDER, path) for path in checkpoints)
    known = without_scores(load_provenance(run)) if own else Provenance()
    steps = [step_of(path) for path in checkpoints]
    known["weights"] = {
        "kind": f"mean of {len(steps)} checkpoint{'s' * (len(steps) > 1)}",
        "steps": steps if min(steps) >= 0 else [],
        "files": [str(path) for path in checkpoints],
    }
    known.pop("training", None)
    if own and (training := training_until(max(checkpoints, key=step_of))):
        known["training"] = training
    known.setdefault("software", software())
    words = "average", run, "--checkpoints", *checkpoints, "--output", output
    return with_command(known, *words)
