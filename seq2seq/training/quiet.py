"""What Lightning and its loggers say that nobody needs."""

import logging
import os
import re
import warnings


def quiet_lightning() -> None:
    """Keep Lightning's advertisements, and advice that does not apply here, off the terminal."""
    # Lightning still calls what jsonargparse 4 deprecates; constraints keep 5 away.
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    # health.py says what TensorBoard's warning of NaN and infinity means.
    unwanted = "litlogger|litmodels|TPU available: False|NaN or Inf found in input tensor"
    for name in (
        "pytorch_lightning.utilities.rank_zero",
        "lightning_fabric.utilities.rank_zero",
        "tensorboardX.x2num",
    ):
        logging.getLogger(name).addFilter(
            lambda record: not re.search(unwanted, record.getMessage())
        )
    for pattern in (
        ".*does not have many workers.*",
        ".*smaller than the logging interval.*",
        ".*Checkpoint directory .* exists and is not empty.*",  # so it is when a run goes on
        ".*callbacks used to create the checkpoint.*",  # a test has no use for those of a fit
        r".*isinstance\(treespec, LeafSpec\).*",
        ".*recommended to use `self.log.*sync_dist=True.*",  # what is logged is of all processes
    ):
        warnings.filterwarnings("ignore", pattern)
