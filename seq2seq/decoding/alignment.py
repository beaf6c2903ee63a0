"""Which words translate each other, read from where the decoder looked."""

from collections.abc import Sequence

import torch
from torch import Tensor

LAYER = -2
"""The last but one, whose cross-attention aligns words best (Garg et al. 2019; docs/scores.md has
what was seen here)."""

Links = list[tuple[int, int]]
"""(source word, target word), from 0, ascending."""


def looks(weights: Tensor) -> Tensor:
    """weights (L, H, T, S) -> (T, S): the mean over heads of the layer that aligns words, or of the
    only one."""
    return weights[max(LAYER, -len(weights))].mean(dim=0)


def align(weights: Tensor, src_words: Sequence[int], tgt_words: Sequence[int]) -> Links:
    """weights (L, H, T, S), and the word of each of the S and T subwords, -1 for those of none,
    such as the end tokens -> a link for each target word, none if the source has no words.

    A target word is linked to the source word that holds the largest of all weights between its
    own subwords and those of a source word.
    """
    nowhere = torch.tensor(src_words, device=weights.device) < 0  # (S,)
    strongest, places = looks(weights).masked_fill(nowhere, -1.0).max(dim=1)  # (T,)
    found: dict[int, tuple[float, int]] = {}
    for weight, place, word in zip(strongest.tolist(), places.tolist(), tgt_words, strict=True):
        if word >= 0 and weight > found.get(word, (-1.0, 0))[0]:  # of no source word it is -1
            found[word] = weight, src_words[place]
    return sorted((src_word, word) for word, (_, src_word) in found.items())
