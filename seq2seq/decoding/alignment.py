"""Which words translate each other, read from where the decoder looked."""

from collections.abc import Sequence

from torch import Tensor

LAYER = -2
"""The layer before the last one, whose cross-attention aligns words best (Garg et al. 2019,
section 4.2; docs/scores.md has what was seen here)."""

Links = list[tuple[int, int]]
"""(source word, target word), from 0, ascending."""


def align(weights: Tensor, src_words: Sequence[int], tgt_words: Sequence[int]) -> Links:
    """weights (L, H, T, S), and the word of each of the S and T subwords, -1 for those of none,
    such as the end tokens -> links.

    In the mean of a layer's heads each target subword is linked to the source subword that it
    looks at most; words are linked where subwords of theirs are.
    """
    layers, _, _, size = weights.shape
    looks = weights[max(LAYER, -layers)].mean(dim=0)  # (T, S)
    nowhere = [place for place, word in enumerate(src_words) if word < 0]
    if len(nowhere) == size:
        return []
    looks[:, nowhere] = -1.0
    places = looks.argmax(dim=1).tolist()  # (T,)
    pairs = zip(places, tgt_words, strict=True)
    return sorted({(src_words[place], word) for place, word in pairs if word >= 0})


def pharaoh(links: Links) -> str:
    """As aligners write them: 0-0 2-1."""
    return " ".join(f"{src}-{tgt}" for src, tgt in links)
