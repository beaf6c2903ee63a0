"""A fit that kills itself: python killed_fit.py fit ... with KILL_AT=STEP/WHERE in the environment.

WHERE is step (when the batch of step STEP + 1 has arrived), validation (in the middle of the one
after step STEP) or checkpoint (when half of the first file of step STEP is written). The signal is
SIGKILL, to all processes of the run; nothing of the run can react to it.
"""

import io
import os
import signal
import sys
from typing import Any

import torch

from seq2seq.cli import main
from seq2seq.training.module import TranslationModule

step, where = os.environ["KILL_AT"].split("/")


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def kill_before(name: str) -> None:
    hook = getattr(TranslationModule, name)

    def killing(self: TranslationModule, *arguments: Any) -> Any:
        if self.global_step == int(step) and self.trainer.state.fn == "fit":
            die()
        return hook(self, *arguments)

    setattr(TranslationModule, name, killing)


def cut_checkpoints() -> None:
    save = torch.save

    def cut(checkpoint: dict[str, Any], file: Any) -> None:
        if checkpoint["global_step"] != int(step):
            save(checkpoint, file)
            return
        whole = io.BytesIO()
        save(checkpoint, whole)
        file.write(whole.getvalue()[: whole.tell() // 2])
        file.flush()
        die()

    vars(torch)["save"] = cut


if __name__ == "__main__":
    if where == "checkpoint":
        cut_checkpoints()
    else:
        kill_before("training_step" if where == "step" else "validation_step")
    sys.exit(main())
