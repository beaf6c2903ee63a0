"""Which model a finished run keeps: a checkpoint, a mean of checkpoints, or the moving average."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_info, rank_zero_only

from seq2seq.data.json_lines import json_fields, json_row
from seq2seq.evaluation.corpus_bleu import CorpusBLEU
from seq2seq.model_folder import CONFIG, SavedModel
from seq2seq.nn.transformer import Transformer
from seq2seq.training.callbacks import BestModelFolder
from seq2seq.training.checkpoints import (
    FOLDER,
    KeptCheckpoints,
    average,
    is_complete,
    is_in,
    step_of,
    written_whole,
)
from seq2seq.training.ema import ExponentialMovingAverage
from seq2seq.training.module import TranslationModule, numbered
from seq2seq.training.processes import share_weights
from seq2seq.training.quality import Quality, mean_loss


class Candidate(NamedTuple):
    """A model that might be kept."""

    name: str
    steps: list[int]
    """Of the checkpoints that it is the mean of."""
    load: Callable[[SavedModel], None] | None
    """Sets a model's weights to the candidate's; None where the model folder alone holds it, and in
    all processes but the first."""


Scores = list[tuple[Candidate, Quality]]


class ModelChoice(Callback):
    """At the end of a fit, stores the candidate with the best validation as the model folder.

    The candidates are the best checkpoint, whose validation is known, the mean of the last
    checkpoints, the mean of the best ones, and the moving average; each is scored as in a
    validation, every process its share. They are loaded into a network of their own: what was
    trained stays as it is. The first process alone reads checkpoints, and gives their weights to
    the others. What was measured is written to `table`, as JSON lines. If a run goes on after its
    end, the model that it had kept stays unless a candidate is better; where no step was left to
    take, what is in the table is not scored again.
    """

    def __init__(
        self,
        table: Path,
        stored: BestModelFolder,
        last: KeptCheckpoints,
        best: KeptCheckpoints,
        ema: ExponentialMovingAverage | None,
    ) -> None:
        self.table, self.stored = table, stored
        self.last, self.best, self.ema = last, best, ema
        self.kept: Scores = []
        """What an earlier session of the run has kept."""
        self._known: dict[tuple[object, ...], Quality] = {}
        """Names and steps of what it has scored."""
        self._start = 0
        """The step at which this session began."""

    def on_load_checkpoint(
        self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        assert trainer.ckpt_path is not None
        if is_in(self.table.with_name(FOLDER), trainer.ckpt_path):  # or it is another run's
            there = (self.stored.folder / CONFIG).is_file()
            before = _read(self.table) if there and trainer.is_global_zero else ([], [])
            scores, self.kept = trainer.strategy.broadcast(before)  # others may lack the files
            self._known = {(each.name, *each.steps): found for each, found in scores}
            self._start = checkpoint["global_step"]
            self.stored.chosen = max((found.rank for _, found in self.kept), default=-math.inf)

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.stored.best is None or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        assert isinstance(module, TranslationModule)
        found = list(self._candidates(trainer.global_step)) if trainer.is_global_zero else []
        named = trainer.strategy.broadcast([(each.name, each.steps) for each in found])
        known = self._known if trainer.global_step == self._start else {}
        network = Transformer(module.network.config, attention=module.recipe.attention).eval()
        model = replace(module.saved_model(), network=network.to(trainer.strategy.root_device))
        first, *others = found or [Candidate(*each, None) for each in named]
        scores: Scores = [(first, self.stored.best)]
        rank_zero_info(f"{first.name}: validation BLEU {self.stored.best.bleu:.2f}")
        for candidate in others:
            quality = known.get((candidate.name, *candidate.steps))
            if quality is None:
                if candidate.load is not None:
                    candidate.load(model)
                share_weights(model.network)
                quality = _validate(model, trainer, module)
            scores.append((candidate, quality))
            rank_zero_info(f"{candidate.name}: validation BLEU {quality.bleu:.2f}")
        best_now = max(quality.rank for _, quality in scores)
        scores += [each for each in self.kept if each[1].rank > best_now]
        place = max(range(len(scores)), key=lambda i: scores[i][1].rank)  # the first of equals
        kept, quality = scores[place]
        if kept.load is not None:
            kept.load(model)
            self.stored.save(trainer, module, model, kept.name, kept.steps, quality.bleu)
        self._conclude(scores, place)

    def _candidates(self, step: int) -> Iterator[Candidate]:
        """The best checkpoint, even if its file is gone, and then the others; no two are equal, and
        none of the others needs a file that is damaged."""
        best = Path(self.best.best_model_path)
        assert self.stored.best is not None
        if self.best.best_model_score == self.stored.best.rank and is_complete(best):
            load = partial(average, checkpoints=[best])
            yield Candidate("best checkpoint", [step_of(best)], load)
        else:
            yield Candidate("best checkpoint", [], None)
        seen = []
        for which, callback in (("last", self.last), ("best", self.best)):
            whole = filter(is_complete, map(Path, callback.best_k_models))
            checkpoints = sorted(whole, key=step_of)
            steps = [step_of(path) for path in checkpoints]
            if len(steps) > 1 and steps not in seen:
                seen.append(steps)
                name = f"mean of the {which} {len(steps)} checkpoints"
                yield Candidate(name, steps, partial(average, checkpoints=checkpoints))
        if self.ema is not None and self.ema.weights:
            copy = self.ema.copy_to
            yield Candidate("moving average", [step], lambda model: copy(model.network))

    @rank_zero_only
    def _conclude(self, scores: Scores, place: int) -> None:
        rows = [
            {
                "model": each.name,
                "steps": each.steps,
                "val_bleu": quality.bleu,
                "val_ppl": quality.perplexity,
                "kept": i == place,
            }
            for i, (each, quality) in enumerate(scores)
        ]
        with written_whole(self.table) as file:
            file.write("".join(f"{json_row(json_fields(row))}\n" for row in rows).encode())
        kept, (bleu, _) = scores[place]
        rank_zero_info(f"model: {self.stored.folder} ({kept.name}, validation BLEU {bleu:.2f})")


def _read(table: Path) -> tuple[Scores, Scores]:
    """What the table says, and which of that is in the model folder."""
    if not table.is_file():
        return [], []
    rows = list(map(json.loads, table.read_text(encoding="utf-8").splitlines()))
    scores = [
        (
            Candidate(row["model"], row["steps"], None),
            Quality(row["val_bleu"], row.get("val_ppl") or math.inf),
        )
        for row in rows
    ]
    return scores, [each for each, row in zip(scores, rows, strict=True) if row["kept"]]


@torch.no_grad()
def _validate(model: SavedModel, trainer: pl.Trainer, module: TranslationModule) -> Quality:
    """As during the run, in the precision of the training."""
    translator, device = module.translator_of(model.network), trainer.strategy.root_device
    bleu, loss = CorpusBLEU(model.tgt_lang).to(device), mean_loss().to(device)
    loader, limit = module.data.val_dataloader(), trainer.limit_val_batches
    batches = limit if isinstance(limit, int) else int(len(loader) * limit)
    with trainer.precision_plugin.val_step_context():
        for batch in islice(loader, batches):
            hypotheses = translator.translate(numbered(batch))
            bleu.update(hypotheses, [[pair.tgt] for pair in batch.pairs])
            tokens = batch.batch.tokens
            total = module.loss_of(model.network, batch.batch.to(device))
            loss.update(total / tokens, weight=tokens)
    return Quality(float(bleu.compute().float()), float(loss.compute().exp()))
