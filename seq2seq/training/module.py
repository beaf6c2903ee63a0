"""The Transformer as Lightning trains it: steps, scores, optimizer, checkpoints."""

import math
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_info, rank_zero_only, rank_zero_warn
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.data.batch import Batch, with_other_sources
from seq2seq.data.dataset import TextBatch
from seq2seq.engine import NativeEngine
from seq2seq.errors import ConfigError
from seq2seq.evaluation.corpus_bleu import CorpusBLEU
from seq2seq.evaluation.metrics import doubt
from seq2seq.memory import attempt
from seq2seq.model_folder import SavedModel, load_model
from seq2seq.nn.attention import avoid_cudnn_attention
from seq2seq.nn.transformer import Transformer
from seq2seq.sentence import MAX_LENGTH, Sentence
from seq2seq.training.card import put_on_card, written_at
from seq2seq.training.compatibility import (
    check_architecture,
    check_checkpoint,
    check_lengths,
    check_tie,
    identity,
    validates_all,
    yardstick,
)
from seq2seq.training.counting import count_batch, end_of, find_place, validate_after_whole_steps
from seq2seq.training.datamodule import CorpusDataModule
from seq2seq.training.hardware import hardware_line
from seq2seq.training.learner import Learner
from seq2seq.training.loss import cross_entropy_sum, token_logits
from seq2seq.training.optimizer import optimizer_of, prefer_settings
from seq2seq.training.outputs import Outputs
from seq2seq.training.parts import halves, too_large
from seq2seq.training.pilot import try_longest
from seq2seq.training.processes import gathered
from seq2seq.training.quality import mean_loss
from seq2seq.training.recipe import Recipe
from seq2seq.training.schedule import factor
from seq2seq.training.throughput import Throughput
from seq2seq.translator import Translation, Translator


def numbered(batch: TextBatch) -> list[Sentence]:
    """Its sources with their lines in the corpus: what is sampled must not depend on the batch."""
    lines = zip(batch.indices, batch.pairs, strict=True)
    return [Sentence(pair.src, number=index) for index, pair in lines]


class TranslationModule(pl.LightningModule):
    """Trains, validates, tests and predicts with one network.

    The network is made when the data is known (`configure_model`), since the subword model decides
    the vocabulary, or it comes from the model folder `init_from`. Everything drawn in a training
    step follows from (seed, step, micro-batch, rank), so a resumed run draws the same.
    """

    network: Transformer

    def __init__(
        self,
        config: ModelConfig,
        recipe: Recipe,
        search: SearchConfig,
        *,
        seed: int = 1,
        init_from: str | None = None,
        output: Path = Path(),
    ) -> None:
        """`output` is the folder that gets translations of test and predict."""
        super().__init__()
        self.config, self.recipe, self.search = config, recipe, search
        self.seed, self.init_from, self.outputs = seed, init_from, Outputs(output)
        self.validation_loss = mean_loss()
        self.throughput = Throughput()
        self.grad_norms: deque[Tensor] = deque(maxlen=1000)
        """Of the last steps, on their device."""
        self.step_tokens: int
        """Target tokens of this process in the step so far."""
        self.step_loss: Tensor
        """Their loss in `_loss_unit`."""
        self.step_numbers: dict[str, Tensor] = {}
        """What there is to log of the last step, on its device."""
        self.learner: Learner

    # -- the network

    def setup(self, stage: str) -> None:
        data = self.data
        for name, pairs in data.texts.items():
            if name != "predict" and (said := doubt([pair.tgt for pair in pairs], data.tgt_lang)):
                rank_zero_warn(f"data.{name.replace('/', '.')}: {said}")
        self.validation_bleu = CorpusBLEU(data.tgt_lang)

    def configure_model(self) -> None:
        """Build the network, once."""
        if not hasattr(self, "network"):
            recipe, data = self.recipe, self.data
            if self.init_from is not None:
                saved = load_model(self.init_from, rates=recipe.dropout, attention=recipe.attention)
                self._written = written_at(self.init_from)
                if self.trainer.state.fn == "fit":
                    check_architecture(self.config, saved.network.config, self.init_from)
                self.network = saved.network.train()
            else:
                check_tie(self.config, data)
                config = replace(
                    self.config,
                    src_vocab_size=len(data.src_subwords),
                    tgt_vocab_size=len(data.tgt_subwords),
                )
                self.network = Transformer(config, rates=recipe.dropout, attention=recipe.attention)
            if recipe.compile:
                self.network.compile_layers()
            self.config = self.network.config
            # Tables of sinusoids grow where they are needed, in each process for itself.
            derived = [name for name, _ in self.named_buffers()]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, derived)
        self.data.start_id = self.network.config.start_id
        check_lengths(self.network, self.data)

    @property
    def data(self) -> CorpusDataModule:
        """The corpora of this run."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, CorpusDataModule)
        return data

    @property
    def translator(self) -> Translator:
        """The network as it is now, searched with the settings `search.*`."""
        return self.translator_of(self.network)

    def translator_of(self, network: Transformer) -> Translator:
        """The same with other weights."""
        subwords = self.data.src_subwords, self.data.tgt_subwords
        return Translator(NativeEngine(network), *subwords, self.search, max_length=MAX_LENGTH)

    def saved_model(self) -> SavedModel:
        """What a model folder holds, as it is now."""
        data = self.data
        return SavedModel(
            self.network, data.src_subwords, data.tgt_subwords, data.src_lang, data.tgt_lang
        )

    # -- learning

    def on_train_start(self) -> None:
        if len(chosen := set(gathered(str(self.trainer.precision)))) > 1:
            raise ConfigError(
                f"the processes have chosen {' and '.join(sorted(chosen))}, as each timed its own "
                f"machine; set trainer.precision."
            )
        self.learner = Learner(self.network, self.recipe, self._loss_unit, self._backward)
        with self.trainer.precision_plugin.forward_context():
            # Other strategies wrap the model, for hooks that recordings lack.
            records = self.trainer.strategy.model is self and self.learner.can_record
        line = hardware_line(self.trainer, self.recipe)
        rank_zero_info(f"training {line}{', steps recorded' if records else ''}")
        validate_after_whole_steps(self.trainer)
        find_place(self.trainer)
        if records:
            self.learner.record()
        if self.device.type == "cuda":
            avoid_cudnn_attention()
            with self.trainer.precision_plugin.forward_context():
                try_longest(self.learner, self.data, self.trainer.optimizers[0])
        self._begin_step()
        self.throughput.restart()

    def on_train_batch_start(self, parts: list[Batch], batch_index: int) -> None:
        count_batch(self.trainer, batch_index)

    def training_step(self, parts: list[Batch], batch_index: int) -> Tensor:
        """Computes the gradients itself, part by part; what it returns has none left to compute."""
        accumulated = self.trainer.accumulate_grad_batches
        if batch_index % accumulated == 0:
            self._begin_step()
        draw = hash((self.seed, self.global_step, batch_index % accumulated, self.global_rank))
        # torch.manual_seed would prepare all kinds of devices for it, each time.
        torch.default_generator.manual_seed(draw % 2**63)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(draw % 2**63)
        total = self.learner.learn(parts)
        self.step_tokens += sum(part.tokens for part in parts)
        self.step_loss += total
        self.throughput.count(parts)
        if not isinstance(self.trainer.strategy.model, DistributedDataParallel):
            return total.requires_grad_()
        # DistributedDataParallel averages gradients when each parameter gets one, here these zeros.
        return total + torch.stack([0 * p.sum() for p in self.learner.parameters]).sum()

    def _begin_step(self) -> None:
        self.learner.begin()
        self.step_tokens, self.step_loss = 0, torch.zeros((), device=self.device)

    def optimizer_zero_grad(self, *_: Any) -> None:
        """Does nothing: Lightning calls it when the gradients are already there."""

    def _backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss."""
        with torch.autocast(self.device.type, enabled=False):
            self.trainer.strategy.backward(loss, None)

    @property
    def _loss_unit(self) -> int:
        """What sums over tokens are divided by until the tokens of the whole step are known."""
        return self.data.batch_tokens

    def configure_optimizers(self) -> Any:
        recipe, total = self.recipe, end_of(self.trainer)
        if recipe.schedule != "inverse-sqrt" and total < 1:
            raise ConfigError(
                f"training.schedule={recipe.schedule} ends at trainer.max_steps={total}; set the "
                f"number of steps, or use inverse-sqrt."
            )
        optimizer = optimizer_of(recipe, self.network, bf16="bf16" in str(self.trainer.precision))
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda done: factor(recipe.schedule, done + 1, recipe.warmup_steps, total),
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Make the gradients those of the loss per target token of the step, of all its
        micro-batches and processes; clip by the norm of all and log both. No step is taken where
        the norm is not finite."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None:  # Lightning leaves it to fused optimizers, after the clipping
            scaler.unscale_(optimizer)
        gradients = [p.grad for p in self.learner.parameters if p.grad is not None]
        own = torch.full_like(self.step_loss, self.step_tokens)  # waits for nothing
        whole = torch.stack([self.step_loss, own])
        if self.trainer.world_size > 1:  # Lightning's own reduction waits for the device
            torch.distributed.all_reduce(whole)
        loss, tokens = whole
        # Lightning has averaged over processes.
        scale = self._loss_unit * self.trainer.world_size / tokens
        norm = torch.nn.utils.get_total_norm(gradients) * scale
        bound = gradient_clip_val if gradient_clip_val else math.inf
        torch._foreach_mul_(gradients, scale * (bound / norm).clamp(max=1.0))
        self.grad_norms.append(norm)
        # A fused optimizer looks at this on the device, and then changes nothing.
        optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
        self.step_numbers = {
            "loss": loss * self._loss_unit / tokens,
            "grad_norm": norm,
            # A number would be sent to the device, which would have to be waited for.
            "lr": torch.tensor(optimizer.param_groups[0]["lr"]),
        }

    def on_train_batch_end(self, outputs: Any, parts: list[Batch], batch_index: int) -> None:
        if self.is_logged(batch_index):
            rate, padding = self.throughput.measured()
            self.log_dict(self.step_numbers)
            self.log("tokens_per_second", rate * self.trainer.world_size)
            self.log("padding", padding)
            self.throughput.restart()

    def is_logged(self, batch_index: int) -> bool:
        """Whether the batch ends a step after which numbers are logged; the last step is one."""
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        stepped = (batch_index + 1) % self.trainer.accumulate_grad_batches == 0
        return stepped and (self.global_step % every == 0 or self.trainer.should_stop)

    # -- checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        measure = yardstick(self.trainer, self.data, self.search)
        checkpoint.update(identity(self.saved_model()), yardstick=measure)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        check_checkpoint(self.saved_model(), checkpoint, str(self.trainer.ckpt_path))
        if self.trainer.state.fn == "fit":
            prefer_settings(self.recipe, checkpoint, end_of(self.trainer, checkpoint))

    # -- scores

    def validation_step(self, batch: TextBatch, batch_index: int) -> dict[str, Any]:
        """Also the loss with other sources, which should be worse."""
        loss, tokens = self.loss_of(self.network, batch.batch), batch.batch.tokens
        self.validation_loss.update(loss / tokens, weight=tokens)
        hypotheses = self.translator.translate(numbered(batch))
        self.validation_bleu.update(hypotheses, [[pair.tgt] for pair in batch.pairs])
        return {
            "loss": loss,
            "other_loss": self.loss_of(self.network, with_other_sources(batch.batch)),
            "tokens": tokens,
            "translations": hypotheses,
        }

    def loss_of(self, network: Transformer, batch: Batch) -> Tensor:
        """Summed over target tokens, without label smoothing; of halves, where the whole does not
        fit into memory."""
        loss = attempt(partial(self._whole_validation_loss, network, batch))
        if loss is not None:
            return loss
        if len(batch.src) == 1:
            raise ConfigError(too_large(batch, "take it out of data.validation"))
        return torch.stack([self.loss_of(network, half) for half in halves(batch)]).sum()

    def _whole_validation_loss(self, network: Transformer, batch: Batch) -> Tensor:
        logits, said = token_logits(network, batch)
        return cross_entropy_sum(logits, said[: batch.tokens])

    def on_validation_epoch_end(self) -> None:
        perplexity = self.validation_loss.compute().exp()
        bleu = self.validation_bleu.compute().float()
        self.validation_loss.reset()
        self.validation_bleu.reset()
        self.log_dict({"val_ppl": perplexity, "val_bleu": bleu})
        part = "" if validates_all(self.trainer) else ", of a part of the set"
        found = f"validation BLEU {bleu:.2f}, perplexity {perplexity:.2f}{part}"
        if self.trainer.state.fn == "fit":
            rank_zero_info(f"step {self.global_step}: {found}")
        else:
            rank_zero_info(f"{found}; BLEU {self.validation_bleu.signature}")

    def on_validation_end(self) -> None:
        """After the callbacks, which write checkpoints: neither is training time."""
        self.throughput.restart()

    def test_step(self, batch: TextBatch, batch_index: int, dataloader_idx: int = 0) -> None:
        self._collect(list(self.data.test)[dataloader_idx], batch)

    def predict_step(self, batch: TextBatch, batch_index: int) -> list[Translation]:
        return self._collect("predict", batch)

    def on_test_end(self) -> None:
        found, incomplete = {}, []
        for name in self.data.test:
            pairs = self.data.texts[f"test/{name}"]
            found[name], whole = self.outputs.score(name, pairs, self.data.tgt_lang)
            if not whole:
                incomplete.append(name)
        if self.init_from is None or self.trainer.ckpt_path:
            return
        if incomplete:
            rank_zero_info(
                f"not on the model card, since lines were left out: {', '.join(incomplete)}"
            )
            return
        folder = Path(self.init_from)
        rank_zero_only(put_on_card)(folder, self._written, self.data, self.search, found)

    def on_predict_end(self) -> None:
        self.outputs.write_predictions(self.data.texts["predict"])

    def _collect(self, name: str, batch: TextBatch) -> list[Translation]:
        found = self.translator.n_best(numbered(batch))
        best = [translations[0] for translations in found]
        self.outputs.add(name, batch.indices, best)
        return best
