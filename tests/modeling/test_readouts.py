from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphdoc.errors import ModelError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.modeling import DocumentConfig
from graphdoc.modeling.readouts import DocumentOutput, Readout, mean_by_group, sum_by_group
from graphdoc.registry import READOUTS

SIZES = [4, 1, 30, 2]


@pytest.mark.parametrize("kind", ["full", "hierarchical"])
@pytest.mark.parametrize("name", ["document_node", "mean", "attention"])
@torch.no_grad()
def test_a_readout_by_its_definition(name: str, kind: str) -> None:
    """The vector of the document node, or a mean of passages: even, or by a softmax over their scores."""
    batch = GraphBatch.from_graphs([graph_of_sections([p // 3 for p in range(n)], kind) for n in SIZES])
    config = DocumentConfig(readout=name, projection_size=8)
    nodes, readout = 3 * torch.randn(len(batch.node_kind), 8), config.readout_class(config)
    output = readout(nodes, nodes[batch.rows.passages], batch)
    shares = None if output.readout_weights is None else output.readout_weights.split(SIZES)
    for row, own in enumerate(nodes.double().numpy() for nodes in nodes.split(list(batch.node_counts))):
        if shares is None:
            expected = own[0]
        else:
            passages = own[1 : 1 + SIZES[row]]
            scores = passages @ readout.score.weight[0].numpy() if name == "attention" else np.zeros(SIZES[row])
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(shares[row].numpy(), weights, atol=1e-6)
            expected = weights @ passages
        np.testing.assert_allclose(output.documents[row].numpy(), expected, atol=1e-5)
    assert (shares is None) == (name == "document_node")


def test_mean_by_group_takes_weights_and_leaves_empty_groups_at_zero() -> None:
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    group_of = torch.tensor([2, 0, 2])
    counts = torch.tensor([1, 0, 2, 0])
    assert mean_by_group(vectors, group_of, counts).tolist() == [[3, 4], [0, 0], [3, 5], [0, 0]]
    weights = torch.tensor([0.25, 1.0, 0.75])
    assert sum_by_group(vectors, group_of, counts[:3], weights).tolist() == [[3, 4], [0, 0], [4, 6.5]]


@pytest.mark.parametrize("readout", READOUTS)
@torch.no_grad()
def test_weights_are_shares_and_uneven_ones_say_where_they_look(tiny_model, random_document, readout: str) -> None:
    """What ranks passages by attention takes equal weights where a readout gives none and there is no graph."""
    model = tiny_model(readout=readout, graph_layers=0)
    # Weights may begin even, and be learned.
    for parameter in model.readout.parameters():
        nn.init.normal_(parameter)
    documents = [random_document(sections) for sections in ([0, 0, 0, 1, 1, 2], [0], [0, 1, 1, 2])]
    batch = GraphBatch.from_documents(documents, model.config.vector_graph)
    output, rows = model(batch), batch.rows
    weights = output.readout_weights
    if weights is None and not model.readout.has_sections:
        means = mean_by_group(output.passages, rows.document_of, rows.counts)
        assert functional.cosine_similarity(output.documents, means).min() > 1 - 1e-5
    if weights is not None:
        assert weights.shape == rows.document_of.shape and weights.min() >= 0
        sums = torch.zeros(len(batch)).index_add(0, rows.document_of, weights)
        torch.testing.assert_close(sums, torch.ones(len(batch)))
        is_even = torch.allclose(weights, 1 / rows.counts[rows.document_of])
        assert is_even or model.readout.own_attention is not None


class MaxReadout(Readout):
    description = "the largest of every number of the passages"

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> DocumentOutput:
        parts = torch.split(passages, list(batch.passage_counts))
        return DocumentOutput(documents=torch.stack([part.amax(0) for part in parts]))


def test_one_without_exact_attribution_encodes_and_says_so_when_compared(
    monkeypatch: pytest.MonkeyPatch, tiny_encoder: Callable[..., Any]
) -> None:
    monkeypatch.setitem(READOUTS, "max", f"{__name__}:MaxReadout")
    encoder = tiny_encoder(readout="max", graph_layers=0)
    texts = ["The tide rises. It falls.", "Bread is baked."]
    assert encoder.encode(texts).shape == (2, encoder.model.config.hidden_size)
    with pytest.raises(ModelError, match="readout=max"):
        encoder.compare(*texts)
