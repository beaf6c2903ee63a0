"""Search with CTranslate2: its greedy search is ours, its beam search stops by another rule, and it
draws as we do, but by other random numbers."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import SearchConfig, one_of
from seq2seq.data.batch import Ids
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import NEVER_SAID, limits_of
from seq2seq.errors import ConfigError
from seq2seq.interop.exported import Exported
from seq2seq.interop.formats import extra
from seq2seq.interop.refusal import refuse_search
from seq2seq.interop.scored import scored, seed_of, within_limits

PRECISIONS = {"fp32": "default", "bf16": "bfloat16", "fp16": "float16"}
"""Ours under its names; by default it computes in the type that is stored."""
CHUNK = 32
"""Sentences that a thread of the CPU translates at a time."""
SEED = Lock()
"""CTranslate2 has one seed for the whole process."""


class CTranslate2Engine:
    """An `Engine`: ids go in and come out, and are pieces in between."""

    def __init__(self, load: Callable[[int], Any], parallel: int, exported: Exported) -> None:
        """`load` gives a translator with so many workers."""
        self.load, self.parallel, self.max_length = load, parallel, exported.longest
        self.translator = load(parallel)
        self.src, self.tgt = exported.src_subwords, exported.tgt_subwords
        pieces = self.tgt.pieces(range(len(self.tgt)))
        self.ids = {piece: number for number, piece in enumerate(pieces)}
        self.options: dict[str, Any] = {
            "max_batch_size": CHUNK if self.translator.device == "cpu" else 0,
            "max_input_length": 0,  # it would cut longer ones
        }

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        refuse_search("ctranslate2", batch, config)
        limits = limits_of(batch, config, self.max_length)
        if config.sampling is not None:
            return self._scored(batch, self._draw(batch, max(limits), config), limits, config)
        found = within_limits(self._translate, batch, limits, config, lambda each: len(each.tokens))
        ruled = config.min_target_length > 0 or config.no_repeat_ngram > 0
        again: list[int] = []
        for row, (request, limit) in enumerate(zip(batch, limits, strict=True)):
            # Forbidding tokens changes the scores of the others: done only where they are said.
            said = [each.tokens for each in found[row][: config.n_best]]
            odd = any(not set(NEVER_SAID).isdisjoint(tokens) for tokens in said)
            if odd:
                (found[row],) = self._translate([request], limit, config, forbidden=NEVER_SAID)
            # It scores neither a prefix nor the end that a limit brings.
            full = any(len(each.tokens) >= limit - 1 for each in found[row])
            if odd or ruled or request.prefix or full:
                again.append(row)
        best = self._scored(
            [batch[row] for row in again],
            [found[row] for row in again],
            [limits[row] for row in again],
            config,
        )
        for row, hypotheses in zip(again, best, strict=True):
            found[row] = hypotheses
        return [each[: config.n_best] for each in found]

    def _draw(
        self, batch: Sequence[Request], limit: int, config: SearchConfig
    ) -> list[list[Hypothesis]]:
        """In a new thread: each goes on drawing from the seed that was set when it began."""
        import ctranslate2

        assert config.sampling is not None
        with SEED:
            ctranslate2.set_random_seed(seed_of(batch, config.sampling.seed))
            found = self._translate(batch, limit, config, self.load(1), NEVER_SAID)
        return [each * (config.n_best // len(each)) for each in found]

    def _scored(
        self,
        batch: Sequence[Request],
        found: Sequence[Sequence[Hypothesis]],
        limits: Sequence[int],
        config: SearchConfig,
    ) -> list[list[Hypothesis]]:
        pairs = zip(found, limits, strict=True)
        cut = [[h.tokens[: limit - 1] for h in each] for each, limit in pairs]
        return scored(self, batch, cut, config)

    def _translate(
        self,
        batch: Sequence[Request],
        limit: int,
        config: SearchConfig,
        translator: Any = None,
        forbidden: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        told = (translator or self.translator).translate_batch(
            [self.src.pieces(each.src) for each in batch],
            [self.tgt.pieces(each.prefix) for each in batch],
            min_decoding_length=min(config.min_target_length, limit - 1),
            no_repeat_ngram_size=config.no_repeat_ngram,
            max_decoding_length=max(limit - 1, 1),  # what stands before the end that a limit brings
            suppress_sequences=[[piece] for piece in self.tgt.pieces(forbidden)] or None,
            return_scores=True,
            **self._way(config),
            **self.options,
        )
        return [
            [
                Hypothesis([self.ids[piece] for piece in pieces], score)
                for pieces, score in zip(each.hypotheses, each.scores, strict=True)
            ]
            for each in told
        ]

    def _way(self, config: SearchConfig) -> dict[str, Any]:
        """To search, which gives the whole beam, or to draw."""
        if config.sampling is None:
            return {
                "beam_size": config.beam,
                "num_hypotheses": config.beam,
                "length_penalty": config.alpha,
            }
        return {
            "beam_size": 1,
            # Of one token it draws nothing: it is a greedy search, which gives one.
            "num_hypotheses": 1 if config.sampling.top_k == 1 else config.n_best,
            "sampling_topk": min(config.sampling.top_k or 0, len(self.tgt)),
            "sampling_topp": config.sampling.top_p,
            "sampling_temperature": config.sampling.temperature,
        }

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        """Of given translations, see `ScoringEngine`; -inf for what is never said, as in ours."""
        told = self.translator.score_batch(
            [self.src.pieces(each) for each in src],
            [self.tgt.pieces(each) for each in tgt],
            **self.options,
        )
        never, found = torch.tensor(NEVER_SAID), []
        for each, tokens in zip(told, tgt, strict=True):
            row = torch.tensor(each.log_probs)  # (T,)
            row[:-1][torch.isin(torch.tensor(tokens, dtype=torch.int64), never)] = -torch.inf
            found.append(row)
        return found


def open_engine(exported: Exported, device: str, precision: str) -> CTranslate2Engine:
    """On a CPU it translates in as many threads as torch has, each of them a `CHUNK`."""
    with extra("ctranslate2"):
        import ctranslate2
    one_of("precision", precision, PRECISIONS)
    if device == "auto":
        device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    kind, _, number = device.partition(":")
    cpu, threads = kind == "cpu", torch.get_num_threads()

    def load(workers: int) -> Any:
        return ctranslate2.Translator(
            str(exported.folder),
            kind,
            device_index=int(number or 0),
            compute_type=PRECISIONS[precision],
            inter_threads=workers,
            intra_threads=threads // workers if cpu else 1,
        )

    try:
        return CTranslate2Engine(load, threads if cpu else 1, exported)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"engine=ctranslate2 device={device} precision={precision} cannot be used for "
            f"{exported.folder}: {error}"
        ) from None
