from __future__ import annotations

import numpy as np
import pytest
import torch
from sections_by_hand import attention_by_hand, batch_of, sections_of

from graphdoc.graphs import layout as section_layout
from graphdoc.graphs.layout import SectionLayout
from graphdoc.modeling import section_readout
from graphdoc.modeling.section_readout import ChunkAttention

IDS = [[0, 0, 0, 1, 1], [0], [0] * 6, [0, 1, 2, 2, 2, 2, 3], [1, 0, 1, 0]]


def made(heads: int = 4, width: int = 16, norm: bool = False) -> ChunkAttention:
    """A layer with uneven weights."""
    layer = ChunkAttention(width, heads, norm)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 0.6)
    return layer.eval()


def run(layer: ChunkAttention, chunks: torch.Tensor, layout: SectionLayout) -> tuple[torch.Tensor, ...]:
    """What is added to every passage, pairs and weights."""
    added, pairs, weights = layer(chunks[layout.chunks], layout, True)
    assert pairs is not None and weights is not None
    return added[torch.argsort(layout.chunks)], pairs, weights


@pytest.mark.parametrize("heads", [1, 4])
def test_the_equation_is_the_papers(heads: int) -> None:
    layer = made(heads).double()
    chunks = torch.randn(sum(map(len, IDS)), 16, dtype=torch.float64)
    added, pairs, weights = run(layer, chunks, batch_of(IDS).sections)
    assert weights.shape == (pairs.shape[1], heads)
    found = {tuple(pair): weight for pair, weight in zip(pairs.T.tolist(), weights.tolist(), strict=True)}
    assert pairs.T.tolist() == sorted(pairs.T.tolist(), key=lambda pair: pair[::-1])
    first, seen = 0, 0
    for ids in IDS:
        rows = chunks[first : first + len(ids)].numpy()
        expected, by_pair = attention_by_hand(layer, rows, sections_of(ids))
        np.testing.assert_allclose(added[first : first + len(ids)].detach().numpy(), expected, atol=1e-12)
        for (source, target), weight in by_pair.items():
            np.testing.assert_allclose(found[first + source, first + target], weight, atol=1e-12)
        first, seen = first + len(ids), seen + len(by_pair)
    assert seen == len(found)
    assert float(weights.detach().std()) > 0.1


def test_normalised_chunks_are_those_of_bert_whatever_their_length() -> None:
    layer, plain = made(norm=True).double(), made().double()
    assert layer.state_dict().keys() == plain.state_dict().keys()
    ids, layout = [0, 0, 0, 1, 1, 2, 2], batch_of([[0, 0, 0, 1, 1, 2, 2]]).sections
    chunks = torch.nn.functional.normalize(torch.randn(7, 16, dtype=torch.float64), dim=-1)
    rows = chunks.numpy()
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    added, _, weights = run(layer, chunks, layout)
    expected, _ = attention_by_hand(plain, normal, sections_of(ids))
    np.testing.assert_allclose(added.detach().numpy(), expected, atol=1e-12)
    # On vectors of unit length attention is nearly even without it.
    assert float(weights.detach().std()) > 2 * float(run(plain, chunks, layout)[2].detach().std())


@pytest.mark.parametrize("cells", [1, 12])
def test_parts_of_any_size_give_the_same(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, chunks = made(), torch.randn(sum(map(len, IDS)), 16)
    expected = run(layer, chunks, batch_of(IDS).sections)
    for place in (section_readout, section_layout):
        monkeypatch.setattr(place, "GROUP_CELLS", cells)
    for actual, one in zip(run(layer, chunks, batch_of(IDS).sections), expected, strict=True):
        torch.testing.assert_close(actual, one, atol=1e-6, rtol=1e-5)


def test_little_of_a_group_is_padding() -> None:
    sizes = np.random.default_rng(0).integers(1, 60, size=(40, 2))
    groups = batch_of([[0] * int(a) + [1] * int(b) for a, b in sizes]).sections.groups
    assert len(groups) < 49
    pairs = sum(int((group.is_asking.sum(1) * group.is_asked.sum(1)).sum()) for group in groups)
    assert pairs == 2 * int((sizes[:, 0] * sizes[:, 1]).sum())
    assert sum(group.asking.shape[1] * group.asked.numel() for group in groups) < 4 * pairs


def test_gradients_are_those_of_plain_autograd() -> None:
    layer, layout = made().double(), batch_of(IDS).sections
    chunks = torch.randn(sum(map(len, IDS)), 16, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(len(chunks), 16, dtype=torch.float64)
    run(layer, chunks, layout)[0].mul(upstream).sum().backward()
    found = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    own, chunks.grad = chunks.grad.clone(), None
    layer.zero_grad()

    first = 0
    parts = []
    for ids in IDS:
        rows = chunks[first : first + len(ids)]
        query, key, value = (part(rows).unflatten(1, (4, 4)) for part in (layer.query, layer.key, layer.value))
        members = sections_of(ids)
        heads = torch.zeros(len(ids), 4, 4, dtype=torch.float64)
        for number, section in enumerate(members):
            following = members[(number + 1) % len(members)]
            for row in section:
                weights = torch.softmax((query[row] * key[following]).sum(-1) / 2, dim=0)
                heads = heads.index_put((torch.tensor(row),), (weights.unsqueeze(-1) * value[following]).sum(0))
        parts.append(layer.output(heads.flatten(1)))
        first += len(ids)
    torch.cat(parts).mul(upstream).sum().backward()

    torch.testing.assert_close(own, chunks.grad, atol=1e-11, rtol=1e-9)
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, atol=1e-11, rtol=1e-9)
        assert name == "key.bias" or float(found[name].abs().max()) > 1e-3
