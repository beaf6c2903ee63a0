"""Search with CTranslate2: its greedy search is ours, its beam search stops by another rule."""

from collections.abc import Sequence
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
from seq2seq.interop.extras import extra
from seq2seq.interop.refusal import refuse_search
from seq2seq.interop.scored import scored

PRECISIONS = {"fp32": "default", "bf16": "bfloat16", "fp16": "float16"}
"""Ours under its names; by default it computes in the type that is stored."""
CHUNK = 32
"""Sentences that a thread of the CPU translates at a time."""


class CTranslate2Engine:
    """An `Engine`: ids go in and come out, and are pieces in between."""

    def __init__(self, translator: Any, exported: Exported) -> None:
        assert exported.about.max_length is not None
        self.translator, self.max_length = translator, exported.about.max_length
        self.parallel = translator.num_translators
        self.src, self.tgt = exported.src_subwords, exported.tgt_subwords
        pieces = self.tgt.pieces(range(len(self.tgt)))
        self.ids = {piece: number for number, piece in enumerate(pieces)}
        self.options: dict[str, Any] = {
            "max_batch_size": CHUNK if translator.device == "cpu" else 0,
            "max_input_length": 0,  # it would cut longer ones
        }

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        refuse_search("ctranslate2", batch, config)
        limits = limits_of(batch, config, self.max_length)
        found = self._translate(batch, max(limits), config)
        ruled = config.min_target_length > 0 or config.no_repeat_ngram > 0
        for row, (request, limit) in enumerate(zip(batch, limits, strict=True)):
            # To forbid tokens changes the scores of the others: only where they are said.
            best = found[row][: config.n_best]
            odd = any(not set(NEVER_SAID).isdisjoint(each.tokens) for each in best)
            if odd:
                (found[row],) = self._translate([request], limit, config, NEVER_SAID)
            # It scores neither a prefix nor the end that a limit brings.
            if odd or ruled or request.prefix or any(len(each.tokens) >= limit for each in best):
                cut = [each.tokens[: limit - 1] for each in found[row]]
                found[row] = scored(self, request.src, cut, config)
        return [each[: config.n_best] for each in found]

    def _translate(
        self,
        batch: Sequence[Request],
        limit: int,
        config: SearchConfig,
        forbidden: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        told = self.translator.translate_batch(
            [self.src.pieces(each.src) for each in batch],
            [self.tgt.pieces(each.prefix) for each in batch],
            beam_size=config.beam,
            num_hypotheses=config.beam,
            length_penalty=config.alpha,
            min_decoding_length=min(config.min_target_length, limit - 1),
            no_repeat_ngram_size=config.no_repeat_ngram,
            max_decoding_length=limit,
            suppress_sequences=[[piece] for piece in self.tgt.pieces(forbidden)] or None,
            return_scores=True,
            **self.options,
        )
        return [
            [
                Hypothesis([self.ids[piece] for piece in pieces], score)
                for pieces, score in zip(each.hypotheses, each.scores, strict=True)
            ]
            for each in told
        ]

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

    def cross_attention(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        """It keeps that to itself."""
        raise ConfigError(
            "engine=ctranslate2 does not tell where each layer and head looks: alignments and "
            "attention are the native engine's."
        )


def open_engine(exported: Exported, device: str, precision: str) -> CTranslate2Engine:
    """On a CPU it translates in as many threads as torch has, each of them a `CHUNK`."""
    with extra("ctranslate2"):
        import ctranslate2
    one_of("precision", precision, PRECISIONS)
    if device == "auto":
        device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    kind, _, number = device.partition(":")
    try:
        translator = ctranslate2.Translator(
            str(exported.folder),
            kind,
            device_index=int(number or 0),
            compute_type=PRECISIONS[precision],
            inter_threads=torch.get_num_threads() if kind == "cpu" else 1,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"engine=ctranslate2 device={device} precision={precision} cannot be used for "
            f"{exported.folder}: {error}"
        ) from None
    return CTranslate2Engine(translator, exported)
