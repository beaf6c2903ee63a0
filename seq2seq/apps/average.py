"""Average the weights of a run's last checkpoints into a model folder.

The mean of the last few checkpoints is often a little better than any one of them (Vaswani et al.
2017, section 6.1).
"""

import argparse
from pathlib import Path

from seq2seq.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `run` reads."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument(
        "--last", metavar="K", type=int, default=5, help="number of checkpoints (default: 5)"
    )
    parser.add_argument(
        "--output", metavar="MODEL", type=Path, help="model folder (default: RUN/model-averaged)"
    )


def run(args: argparse.Namespace) -> None:
    """Write the averaged model folder."""
    from seq2seq.config import at_least
    from seq2seq.model_folder import find_model, load_model, save_model
    from seq2seq.training.checkpoints import average, last_checkpoints

    at_least("last", args.last, 1)
    checkpoints = last_checkpoints(args.run)
    if len(checkpoints) < args.last:
        raise ConfigError(
            f"--last {args.last}: {args.run / 'checkpoints'} holds {len(checkpoints)} checkpoints; "
            f"ask for fewer, or train with a larger training.keep_last."
        )
    chosen = checkpoints[-args.last :]
    model = load_model(find_model(args.run))
    average(model.network, chosen)
    output = args.output or args.run / "model-averaged"
    save_model(model, output)
    print(f"{output}: mean of {', '.join(path.name for path in chosen)}")
