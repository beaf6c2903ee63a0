"""What a CTranslate2 `TransformerSpec` says, and what of it ours cannot be.

What ours can be is listed; everything else that a file says is refused, all of it at once.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.interop.ctranslate2_binary import Binary
from seq2seq.interop.ctranslate2_names import ACTIVATIONS, PARTS
from seq2seq.interop.renamed import depth, tensor2tensor_sinusoids

REVISIONS = (5, 6, 7)
"""Of `TransformerSpec`, with these names."""
SIDES = ("encoder", "decoder")
KINDS = ("RELU", "GELUTanh", "SWISH", "GELU", "GELUSigmoid", "Tanh", "Sigmoid")
"""Activations by their numbers."""
GATED = " with a gate"
READ = {theirs + (GATED if ours == "swiglu" else ""): ours for ours, theirs in ACTIVATIONS.items()}
EPSILON = torch.nn.LayerNorm(1).eps
DEFAULT_POSITIONS = 500
"""Rows of the table that it makes where a file has none."""
SINGLE: Mapping[str, Sequence[float] | None] = {
    "num_heads": None,
    "head_dim": None,
    "pre_norm": None,
    "activation": None,
    "scale_embeddings": None,
    "start_from_zero_embedding": None,
    "multi_query_attention": [0],
    "alibi": [0],
    # without effect here: of several source embeddings, of alibi, of the attention that it reports
    "embeddings_merge": None,
    "alibi_use_positive_positions": None,
    "scale_alibi": None,
    "alignment_layer": None,
    "alignment_heads": None,
}
"""Single numbers, and the values that ours can have; None for all."""
MATRICES = ("weight", "encodings")
TABLES = {f"{part}/weight" for part in ("encoder/embeddings_0", "decoder/embeddings")} | {
    "decoder/projection/weight"
}
ARRAYS = {f"{side}/position_encodings/encodings" for side in SIDES} | {
    f"{part}/{name}"
    for part in PARTS
    for name in (("gamma", "beta") if part.endswith("norm") else ("weight", "bias"))
}


class Specification:
    """What the variables say, and what stands for those that are not there."""

    def __init__(self, variables: Mapping[str, Tensor]) -> None:
        self.variables = variables

    def number(self, name: str, default: float = 0) -> float:
        """A single one; `obstacles` refuses an array in its place."""
        stored = self.variables.get(name)
        return default if stored is None or stored.dim() else float(stored)

    def depth(self, side: str) -> int:
        """Layers."""
        return depth(self.variables, side)

    def embedding(self, side: str) -> Tensor:
        """(V, D)"""
        name = {"encoder": "embeddings_0", "decoder": "embeddings"}[side]
        return self.variables[f"{side}/{name}/weight"]

    def scale(self, side: str) -> float:
        """What multiplies embeddings: stored as a number, or as whether it is the usual one."""
        usual = math.sqrt(self.embedding(side).shape[1])
        stored = self.variables.get(f"{side}/scale_embeddings")
        number = self.number(f"{side}/scale_embeddings", 1)
        if stored is None or stored.dtype == torch.int8:
            return usual if number else 1.0
        return usual if math.isclose(number, usual, rel_tol=1e-6) else number

    def positions(self, side: str) -> Tensor:
        """(N, D)"""
        stored = self.variables.get(f"{side}/position_encodings/encodings")
        if stored is not None:
            return stored
        return tensor2tensor_sinusoids(1, DEFAULT_POSITIONS, self.embedding(side).shape[1])

    def norm(self, side: str) -> str:
        return "pre" if self.number(f"{side}/pre_norm", 1) else "post"

    def heads(self, side: str) -> int:
        return int(self.number(f"{side}/num_heads", 8))

    def head_dim(self, side: str) -> int | None:
        """None for the usual width."""
        return int(self.number(f"{side}/layer_0/self_attention/head_dim")) or None

    def activation(self, side: str) -> str:
        """Its name, and whether it has a gate."""
        gate = f"{side}/layer_0/ffn/linear_0_noact/weight" in self.variables
        kind = int(self.number(f"{side}/activation"))
        return (KINDS[kind] if 0 <= kind < len(KINDS) else str(kind)) + (GATED if gate else "")

    @property
    def starts_from_zero(self) -> bool:
        return bool(self.number("decoder/start_from_zero_embedding"))


def obstacles(binary: Binary, config: Mapping[str, Any]) -> list[str]:
    """What ours cannot be, each with what is expected."""
    if binary.specification != "TransformerSpec" or binary.revision not in REVISIONS:
        found, known = f"{binary.specification} {binary.revision}", ", ".join(map(str, REVISIONS))
        return [f"{found}: expected TransformerSpec {known}."]
    spec = Specification(binary.variables)
    tables = {name for name, variable in binary.variables.items() if variable.dim() == 2}
    if missing := sorted(TABLES - tables):
        return [f"{name} is missing." for name in missing]
    return list(dict.fromkeys([*_unknown(spec), *_unlike(spec), *_unusual_tokens(spec, config)]))


def _unknown(spec: Specification) -> Iterator[str]:
    """Variables that say something which ours never is."""
    for full_name, variable in spec.variables.items():
        name = re.sub(r"/layer_\d+/", "/layer/", full_name)
        choices = SINGLE.get(name.rpartition("/")[2], [])
        if variable.dim() and name not in ARRAYS:
            yield f"{name.removesuffix('/weight')}: ours has none."
        elif not variable.dim() and choices is not None and float(variable) not in choices:
            expected = f"expected {choices[0]}" if choices else "ours has none"
            yield f"{name}={float(variable):g}: {expected}."
        elif variable.dim() and variable.dim() != (2 if name.endswith(MATRICES) else 1):
            yield f"{name} is {tuple(variable.shape)}."
        elif name.endswith("gamma") and f"{full_name[:-5]}beta" not in spec.variables:
            yield f"{name.removesuffix('/gamma')} is RMSNorm: expected LayerNorm."


def _unlike(spec: Specification) -> Iterator[str]:
    """Settings of which ours has one, or other values."""
    for name in ("norm", "heads", "head_dim", "activation", "scale"):
        encoder, decoder = (getattr(spec, name)(side) for side in SIDES)
        if encoder != decoder:
            yield f"{name}: {encoder} of the encoder and {decoder} of the decoder must be equal."
    for side in SIDES:
        if spec.activation(side) not in READ:
            yield f"{side}/activation={spec.activation(side)}: expected {' or '.join(READ)}."
        usual = math.sqrt(spec.embedding(side).shape[1])
        if spec.scale(side) not in (1, usual):
            yield f"{side}/scale_embeddings={spec.scale(side):g}: expected 1 or {usual:g}."
        last = f"{side}/layer_norm/gamma" in spec.variables
        if last != (spec.norm(side) == "pre"):
            which = "a" if last else "no"
            yield f"{side}: {spec.norm(side)}-norm and {which} last LayerNorm: expected the other."


def _unusual_tokens(spec: Specification, config: Mapping[str, Any]) -> Iterator[str]:
    """What is read before and after a text; Marian's models always read an end token."""
    if config.get("add_source_bos"):
        yield "add_source_bos=true: our sources have no start token."
    if not config.get("add_source_eos") and not spec.starts_from_zero:
        yield (
            "add_source_eos=false: our sources have an end token; if what is translated with this "
            "model ends with one, write true into config.json."
        )
    if not config.get("decoder_start_token") and not spec.starts_from_zero:
        yield "decoder_start_token=null: ours is always the same; write it into config.json."
    epsilon = config.get("layer_norm_epsilon")
    if epsilon not in (None, EPSILON) and not (isinstance(epsilon, float) and epsilon < EPSILON):
        yield f"layer_norm_epsilon={epsilon}: expected at most {EPSILON}."
