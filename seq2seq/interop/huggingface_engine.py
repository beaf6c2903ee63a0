"""Search with Hugging Face's `generate`, whose greedy search is ours."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import BOS_ID, EOS_ID, PAD_ID, SearchConfig, one_of
from seq2seq.data.batch import Ids, make_batch, pad
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import NEVER_SAID, limits_of, searches_beside_caller
from seq2seq.errors import ModelFolderError
from seq2seq.interop.exported import Exported
from seq2seq.interop.formats import extra
from seq2seq.interop.refusal import refuse_search
from seq2seq.interop.scored import scored, seed_of, within_limits
from seq2seq.translator import PRECISIONS, moved


class HuggingFaceEngine:
    """An `Engine` of an exported `MarianMTModel` or `PegasusForConditionalGeneration`."""

    def __init__(self, model: Any, start_id: int, max_length: int) -> None:
        self.model, self.start_id, self.max_length = model, start_id, max_length

    @property
    def parallel(self) -> int:
        return searches_beside_caller(self.model.device)

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        refuse_search("huggingface", batch, config)
        results: list[list[Hypothesis]] = [[] for _ in batch]
        for rows in by_prefix_length(batch):
            requests = [batch[row] for row in rows]
            limits = limits_of(requests, config, self.max_length)
            told = within_limits(self._generate, requests, limits, config, len)
            pairs = zip(told, limits, strict=True)
            cut = [[ids[: limit - 1] for ids in each] for each, limit in pairs]
            for row, found in zip(rows, scored(self, requests, cut, config), strict=True):
                results[row] = found
        return results

    def _generate(
        self, batch: Sequence[Request], limit: int, config: SearchConfig
    ) -> list[list[list[int]]]:
        """The whole beam of each, or what was drawn, without special tokens; all prefixes are of
        one length."""
        device = self.model.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            if config.sampling is not None:
                torch.manual_seed(seed_of(batch, config.sampling.seed))
            told = self.model.generate(
                **self._source([each.src for each in batch]),
                decoder_input_ids=self._tensor([[self.start_id, *each.prefix] for each in batch]),
                max_length=limit + 1,  # counts the start token
                min_length=min(config.min_target_length, limit - 1) + 1,
                no_repeat_ngram_size=config.no_repeat_ngram,
                **_way(config),
            )
        texts = [ids[1:] for ids in told.tolist()]
        texts = [ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids for ids in texts]
        each = len(texts) // len(batch)
        return [texts[n : n + each] for n in range(0, len(texts), each)]

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        """Of given translations, see `ScoringEngine`; -inf for what is never said, as in ours."""
        batch = make_batch(src, tgt, self.start_id)
        with torch.inference_mode():
            logits = self.model(
                **self._source(src), decoder_input_ids=batch.tgt_in.to(self.model.device)
            ).logits
        said = batch.tgt_out
        rows = logits.float().log_softmax(-1).cpu().gather(2, said[..., None])[..., 0]  # (B, T)
        rows = rows.masked_fill(torch.isin(said, torch.tensor(NEVER_SAID)), -torch.inf)
        return [row[:t] for row, t in zip(rows, batch.tgt_lens.tolist(), strict=True)]

    def _source(self, src: Sequence[Ids]) -> dict[str, Tensor]:
        ids = self._tensor([[*each, EOS_ID] for each in src])
        return {"input_ids": ids, "attention_mask": (ids != PAD_ID).long()}

    def _tensor(self, rows: Sequence[Ids]) -> Tensor:
        padded: Tensor = pad(rows)[0].to(self.model.device)
        return padded


def _way(config: SearchConfig) -> dict[str, object]:
    """To search, or to draw."""
    if config.sampling is not None:
        return {
            "do_sample": True,
            "num_return_sequences": config.n_best,
            "temperature": config.sampling.temperature,
            "top_k": config.sampling.top_k or 0,
            "top_p": config.sampling.top_p,
        }
    if config.beam == 1:
        return {}
    return {
        "num_beams": config.beam,
        "num_return_sequences": config.beam,  # the best may be another one where a limit cuts
        "length_penalty": config.alpha,
        "early_stopping": True,  # when as many beams have ended: as our search
    }


def greedy(start_id: int, longest: int) -> Any:
    """The `GenerationConfig` of our greedy search; `longest` counts the end token."""
    import transformers

    return transformers.GenerationConfig(
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=start_id,
        suppress_tokens=NEVER_SAID,
        forced_eos_token_id=EOS_ID,  # at the longest
        max_length=longest + 1,  # counts the start token
        num_beams=1,
    )


def by_prefix_length(batch: Sequence[Request]) -> Iterator[list[int]]:
    """Numbers of requests that go together: there is no padding in front of a translation."""
    for length in sorted({len(each.prefix) for each in batch}):
        yield [row for row, each in enumerate(batch) if len(each.prefix) == length]


def open_engine(exported: Exported, device: str, precision: str) -> HuggingFaceEngine:
    """On a device and in a type as for our own network; no code in the folder is run."""
    with extra("huggingface"):
        import transformers
    one_of("precision", precision, PRECISIONS)
    transformers.utils.logging.disable_progress_bar()
    try:
        model, told = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            exported.folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            dtype=PRECISIONS[precision],
        )
        start_id = int(model.config.decoder_start_token_id)
        if odd := sorted(told["missing_keys"] | told["unexpected_keys"]):
            raise ValueError(f"its weights are another model's, by {odd[0]}")
    except Exception as error:  # its errors have no other class in common
        reason = str(error).partition("\n")[0]
        raise ModelFolderError(f"{exported.folder} cannot be used: {reason}") from None
    model = moved(model, device)
    model.generation_config = greedy(start_id, exported.longest)  # whatever the folder's says
    return HuggingFaceEngine(model.eval(), start_id, exported.longest)
