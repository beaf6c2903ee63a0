"""Alignment against weights whose answer is known, and against its definition written out."""

import pytest
import torch
from torch import Tensor

from seq2seq.decoding.alignment import align

L, H, T, S = 3, 2, 4, 5


def looking(*places: int, size: int = S) -> Tensor:
    """(T, S): target subword t looks at source subword places[t] and hardly at the others."""
    looks = torch.full((len(places), size), 0.1 / (size - 1))
    looks[range(len(places)), places] = 0.9
    return looks


def in_layers(*layers: Tensor, heads: int = H) -> Tensor:
    """(L, H, T, S)."""
    return torch.stack([layer.expand(heads, -1, -1) for layer in layers])


def written_out(
    weights: Tensor, src_words: list[int], tgt_words: list[int]
) -> list[tuple[int, int]]:
    """The definition, cell by cell."""
    layer = weights[-2] if len(weights) > 1 else weights[0]
    links = []
    for word in range(max(tgt_words) + 1):
        cells = [
            (float(sum(head[t, s] for head in layer)), -t, -s)
            for t in range(len(tgt_words))
            for s in range(len(src_words))
            if tgt_words[t] == word and src_words[s] >= 0
        ]
        links.append((src_words[-max(cells)[2]], word))
    return sorted(links)


def test_each_word_is_linked_to_the_word_it_looks_at_most_and_the_end_is_no_word() -> None:
    weights = in_layers(looking(2, 0, 1, 3, size=4))
    assert align(weights, [0, 1, 2, -1], [0, 1, 2, -1]) == [(0, 1), (1, 2), (2, 0)]


def test_the_layer_before_the_last_decides_and_the_only_one_where_there_is_one() -> None:
    layers = looking(0, 1, 2), looking(2, 1, 0), looking(1, 1, 1)
    words = [0, 1, 2, 3, -1], [0, 1, 2]
    assert align(in_layers(*layers), *words) == [(0, 2), (1, 1), (2, 0)]
    assert align(in_layers(layers[2]), *words) == [(1, 0), (1, 1), (1, 2)]


def test_the_mean_of_the_heads_decides_not_the_loudest_of_them() -> None:
    loud, soft = looking(0, size=3), torch.tensor([[0.0, 0.55, 0.45]])
    weights = torch.stack([loud, soft, soft])[None]  # (1, 3, 1, 3): means .3, .38 and .31
    assert align(weights, [0, 1, -1], [0]) == [(1, 0)]


def test_where_most_is_looked_at_the_end_the_best_word_is_linked() -> None:
    weights = torch.tensor([0.1, 0.3, 0.6]).expand(1, 1, 1, 3)
    assert align(weights, [0, 1, -1], [0]) == [(1, 0)]


def test_of_the_subwords_of_a_word_the_one_that_looks_hardest_decides() -> None:
    looks = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.3, 0.3]])
    # Source words: (0, 1) and 2. Target words: (0, 1) and 2.
    assert align(in_layers(looks), [0, 0, 1], [0, 0, 1]) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("seed", range(5))
def test_links_are_those_of_the_definition(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(L, H, 7, 6, generator=generator).softmax(dim=-1)
    before = weights.clone()
    words = [0, 0, 1, 2, 2, -1], [0, 1, 1, 1, 2, 3, -1]
    links = align(weights, *words)
    assert links == written_out(weights, *words)
    assert [tgt for _, tgt in sorted(links, key=lambda link: link[1])] == [0, 1, 2, 3]
    assert weights.equal(before)


def test_nothing_is_linked_where_a_side_has_no_words() -> None:
    weights = in_layers(looking(0, 1, size=2))
    assert align(weights, [-1, -1], [0, -1]) == []
    assert align(weights, [0, -1], [-1, -1]) == []
