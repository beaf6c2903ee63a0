"""What a fit tells of itself on the card of its model."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_only, rank_zero_warn

from seq2seq.evaluation.corpus_bleu import CorpusBLEU
from seq2seq.model_facts import as_parent
from seq2seq.provenance import (
    Parent,
    Provenance,
    Score,
    Training,
    Weights,
    with_command,
    with_corpora,
)
from seq2seq.software import software
from seq2seq.training.checkpoints import FOLDER, content_of, is_in
from seq2seq.training.compatibility import validates_all
from seq2seq.training.hardware import hardware
from seq2seq.training.module import TranslationModule


class Record(Callback):
    """Gathers facts when a fit starts and counts its time; checkpoints carry on what only its
    sessions know."""

    def __init__(self, config: dict[str, Any]) -> None:
        """`config` holds all settings of the fit."""
        self.config, self.software = config, software()
        self._sessions = Training(steps=0, seconds=0.0, hardware=[])
        """Up to the start of this one."""
        self._before: dict[str, Any] = {}
        """The `_decisive` facts of the session before."""
        self._began_at: str | None = None
        """The checkpoint of another run at which this one began."""
        self._parent: Parent | None = None
        """The model that the run began with, as it was then."""
        self._started = time.monotonic()
        self._facts = Provenance()

    def on_fit_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, TranslationModule)
        self._started = time.monotonic()
        if trainer.ckpt_path and not is_in(
            Path(trainer.default_root_dir) / FOLDER, trainer.ckpt_path
        ):
            self._began_at = str(trainer.ckpt_path)
        current = hardware(trainer, module.recipe)
        if current not in self._sessions["hardware"]:
            self._sessions["hardware"].append(current)
        self._gather(module, goes_on=trainer.ckpt_path is not None)

    @rank_zero_only
    def _gather(self, module: TranslationModule, goes_on: bool) -> None:
        start = [] if self._began_at is None else ["--ckpt_path", self._began_at]
        facts = with_command(Provenance(), "fit", "--config", "config.yaml", *start)
        facts["config"] = self.config
        if self.config.get("license"):
            facts["license"] = self.config["license"]
        origin = self.config.get("init_from")
        if origin is not None and not goes_on:
            self._parent = as_parent(origin)
        if self._parent is not None:
            facts["parent"] = self._parent
        facts["software"] = self.software
        self._facts = with_corpora(facts, *module.data.origins("train", "validation"))
        now = dict(_flat(self._decisive))
        for name, then in _flat(self._before):
            if then != now.get(name):
                self._sessions.setdefault("changed", {}).setdefault(name, []).append(then)
                if name.startswith("sha256.") and name in now:
                    path = name.removeprefix("sha256.")
                    rank_zero_warn(f"{path} is not what it was before; the run goes on with it")

    def training(self, steps: int) -> Training:
        """The training of all sessions until now."""
        seconds = self._sessions["seconds"] + time.monotonic() - self._started
        return {**self._sessions, "steps": steps, "seconds": round(seconds, 1)}

    def provenance(
        self,
        trainer: pl.Trainer,
        module: TranslationModule,
        kind: str,
        steps: Sequence[int],
        bleu: float | None,
    ) -> Provenance:
        """The facts about weights of this kind, from these steps, with their validation BLEU if it
        is known; only the first process has them."""
        facts: Provenance = {
            **self._facts,
            "weights": Weights(kind=kind, steps=list(steps)),
            "training": self.training(trainer.global_step),
        }
        if bleu is None or not validates_all(trainer):
            return facts  # a score of some batches is not a score of the corpus
        signature = CorpusBLEU(module.data.tgt_lang).signature
        (corpus,) = (each for each in facts["data"] if each["role"] == "validation")
        corpus = {**corpus, "scores": [Score(name="BLEU", value=bleu, signature=signature)]}
        corpus["search"] = asdict(module.search)
        return with_corpora(facts, [corpus], {})

    @property
    def _decisive(self) -> dict[str, Any]:
        """What decides the result and may differ between sessions."""
        corpora = (each for each in self._facts.get("data", []) if each["role"] == "train")
        files = {file["path"]: file["sha256"] for each in corpora for file in each["files"]}
        return {**self.config, "software": self.software, "sha256": files}

    def state_dict(self) -> dict[str, Any]:
        return {
            "training": self.training(0),
            "config": self._decisive,
            "began_at": self._began_at,
            "parent": self._parent,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._sessions, self._before = state_dict["training"], state_dict["config"]
        self._began_at, self._parent = state_dict["began_at"], state_dict["parent"]


def training_until(checkpoint: Path) -> Training | None:
    """What a checkpoint says of the training so far; None where it has weights alone."""
    content = content_of(checkpoint)
    if "callbacks" not in content:
        return None
    training: Training = content["callbacks"][Record.__name__]["training"]
    return {**training, "steps": content["global_step"]}


def _flat(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their full names: ("training.lr", 0.001)."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
