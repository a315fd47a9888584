from __future__ import annotations

import numpy as np
import pytest
import torch

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import graph_of_sections
from graphdoc.modeling import DocumentConfig
from graphdoc.modeling.readouts import Readout, mean_by_group, sum_by_group
from graphdoc.registry import GRAPH_KINDS

SIZES = [4, 1, 30, 2]


@pytest.fixture(params=GRAPH_KINDS)
def batch(request: pytest.FixtureRequest) -> GraphBatch:
    return GraphBatch.from_graphs([graph_of_sections([p // 3 for p in range(n)], request.param) for n in SIZES])


def made(name: str) -> Readout:
    config = DocumentConfig(readout=name, projection_size=8)
    return config.readout_class(config)


def read(readout: Readout, nodes: torch.Tensor, batch: GraphBatch) -> tuple[torch.Tensor, torch.Tensor | None]:
    output = readout(nodes, nodes[batch.rows.passages], batch)
    return output.documents, output.readout_weights


def passages_of(batch: GraphBatch, nodes: torch.Tensor) -> list[np.ndarray]:
    """Passage nodes of every document, counted off by hand."""
    starts = np.cumsum([0, *batch.node_counts])
    return [nodes[start + 1 : start + 1 + size].double().numpy() for start, size in zip(starts, SIZES, strict=False)]


def test_document_node(batch: GraphBatch) -> None:
    nodes = torch.randn(len(batch.node_kind), 8)
    documents, weights = read(made("document_node"), nodes, batch)
    starts = np.cumsum([0, *batch.node_counts])[:-1]
    assert torch.equal(documents, nodes[starts])
    assert weights is None


def test_mean_is_exact(batch: GraphBatch) -> None:
    nodes = torch.randn(len(batch.node_kind), 8)
    documents, weights = read(made("mean"), nodes, batch)
    by_hand = np.stack([passages.mean(0) for passages in passages_of(batch, nodes)])
    np.testing.assert_allclose(documents.numpy(), by_hand, atol=1e-6)
    assert weights is not None
    assert torch.equal(weights, 1 / torch.tensor(SIZES, dtype=torch.float32).repeat_interleave(torch.tensor(SIZES)))


def test_attention_is_a_softmax_over_the_passages_of_a_document(batch: GraphBatch) -> None:
    nodes = 3 * torch.randn(len(batch.node_kind), 8)
    readout = made("attention")
    documents, weights = read(readout, nodes, batch)
    assert weights is not None
    vector = readout.score.weight[0].detach().double().numpy()
    first = 0
    for row, passages in enumerate(passages_of(batch, nodes)):
        scores = np.array([float(vector @ passage) for passage in passages])
        by_hand = np.exp(scores) / np.exp(scores).sum()
        own = weights[first : first + len(passages)].detach().numpy()
        np.testing.assert_allclose(own, by_hand, atol=1e-6)
        np.testing.assert_allclose(own.sum(), 1, atol=1e-6)
        np.testing.assert_allclose(documents[row].detach().numpy(), by_hand @ passages, atol=1e-5)
        first += len(passages)
    assert first == len(weights)


def test_attention_learns(batch: GraphBatch) -> None:
    readout = made("attention")
    documents, _ = read(readout, torch.randn(len(batch.node_kind), 8), batch)
    documents.square().sum().backward()
    assert float(readout.score.weight.grad.abs().max()) > 1e-3


def test_mean_by_group_takes_weights_and_leaves_empty_groups_at_zero() -> None:
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    group_of = torch.tensor([2, 0, 2])
    counts = torch.tensor([1, 0, 2, 0])
    assert mean_by_group(vectors, group_of, counts).tolist() == [[3, 4], [0, 0], [3, 5], [0, 0]]
    weights = torch.tensor([0.25, 1.0, 0.75])
    assert sum_by_group(vectors, group_of, counts[:3], weights).tolist() == [[3, 4], [0, 0], [4, 6.5]]
