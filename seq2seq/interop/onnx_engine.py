"""Our search over onnxruntime: what the decoder computes comes from the graphs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import SearchConfig, one_of
from seq2seq.data.batch import Ids, make_batch
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import NEVER_SAID, search
from seq2seq.errors import ConfigError, ModelFolderError
from seq2seq.interop.exported import Exported
from seq2seq.interop.formats import extra
from seq2seq.interop.refusal import REQUEST, SEARCH, Abilities, refuse_search

SEARCHES: Abilities = {
    **SEARCH,
    "length_penalty": None,
    "repetition_penalty": None,
    "diversity": None,
}
"""All that our own search can do without the attention."""
REQUESTS: Abilities = {**REQUEST, "constraint": None}
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxStepper:
    """Two graphs as a search sees them: a `decoding.search.Stepper` over one batch."""

    def __init__(self, encoder: Any, decoder: Any, src: Tensor, src_lens: Tensor) -> None:
        self.decoder = decoder
        (memory,) = encoder.run(None, {"src": src.numpy(), "src_lens": src_lens.numpy()})
        self.source = torch.from_numpy(memory), src_lens  # (L, 2, B, H, S, E), (B,)

    def start(self, width: int) -> None:
        memory, src_lens = self.source
        self.memory = memory.repeat_interleave(width, dim=2)  # (L, 2, R, H, S, E)
        self.src_lens = src_lens.repeat_interleave(width)  # (R,)
        self.cache, self.width = self.memory[:, :, :, :, :0], width

    def step(self, tokens: Tensor) -> Tensor:
        logits, cache = self.decoder.run(
            None,
            {
                "tokens": tokens.numpy(),
                "cache": self.cache.numpy(),
                "memory": self.memory.numpy(),
                "src_lens": self.src_lens.numpy(),
            },
        )
        self.cache = torch.from_numpy(cache)
        log_probs = torch.from_numpy(logits).log_softmax(dim=-1)  # (R, V)
        log_probs[:, NEVER_SAID] = -torch.inf
        return log_probs

    def select(self, sentences: Sequence[int], beams: Tensor) -> None:
        rows = (torch.tensor(sentences)[:, None] * self.width + beams).flatten()
        self.cache = self.cache[:, :, rows]
        # The beams of a sentence have one memory: it moves when a sentence does.
        if list(sentences) != list(range(len(self.src_lens) // self.width)):
            self.memory, self.src_lens = self.memory[:, :, rows], self.src_lens[rows]


class OnnxEngine:
    """An `Engine` of an encoder and a decoder."""

    parallel = 1

    def __init__(self, encoder: Any, decoder: Any, start_id: int, max_length: int | None) -> None:
        self.encoder, self.decoder = encoder, decoder
        self.start_id, self.max_length = start_id, max_length

    def search(self, batch: Sequence[Request], config: SearchConfig) -> list[list[Hypothesis]]:
        refuse_search("onnx", batch, config, SEARCHES, REQUESTS)
        make = partial(OnnxStepper, self.encoder, self.decoder)
        return search(make, batch, config, self.start_id, self.max_length)

    def log_probs(self, src: Sequence[Ids], tgt: Sequence[Ids]) -> list[Tensor]:
        """Of given translations, see `ScoringEngine`; -inf for what is never said, as in ours."""
        batch = make_batch(src, tgt, self.start_id)
        stepper = OnnxStepper(self.encoder, self.decoder, batch.src, batch.src_lens)
        stepper.start(1)
        steps = zip(batch.tgt_in.unbind(1), batch.tgt_out.unbind(1), strict=True)
        found = [stepper.step(last).gather(1, said[:, None]) for last, said in steps]  # (B, 1) each
        rows = torch.cat(found, dim=1)  # (B, T)
        return [row[:t] for row, t in zip(rows, batch.tgt_lens.tolist(), strict=True)]


def open_engine(exported: Exported, device: str, precision: str) -> OnnxEngine:
    """In fp32, which is what is stored; on a CPU in as many threads as torch has."""
    with extra("onnx"):
        import onnxruntime
    one_of("precision", precision, ["fp32"])
    if device == "auto":
        device = "cuda" if PROVIDERS["cuda"] in onnxruntime.get_available_providers() else "cpu"
    if PROVIDERS.get(device) not in onnxruntime.get_available_providers():
        raise ConfigError(f"device={device} cannot be used: the onnxruntime here has no provider.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        encoder, decoder = (
            onnxruntime.InferenceSession(
                str(exported.folder / name), options, providers=[PROVIDERS[device]]
            )
            for name in (ENCODER, DECODER)
        )
        start_id = int(decoder.get_modelmeta().custom_metadata_map["start_id"])
    except Exception as error:  # its errors have no other class in common
        reason = str(error).partition("\n")[0]
        raise ModelFolderError(f"{exported.folder} cannot be used: {reason}") from None
    return OnnxEngine(encoder, decoder, start_id, exported.about.max_length)
