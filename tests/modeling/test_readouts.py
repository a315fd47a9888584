from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphdoc import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.document_model import start_at_mean
from graphdoc.modeling.readouts import DocumentOutput, Readout, mean_by_group, sum_by_group
from graphdoc.registry import READOUTS
from graphdoc.segmentation.spans import SegmentedDocument

SIZES = [4, 1, 30, 2]


@pytest.fixture(params=["full", "hierarchical"])
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


def test_mean_by_group_takes_weights_and_leaves_empty_groups_at_zero() -> None:
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    group_of = torch.tensor([2, 0, 2])
    counts = torch.tensor([1, 0, 2, 0])
    assert mean_by_group(vectors, group_of, counts).tolist() == [[3, 4], [0, 0], [3, 5], [0, 0]]
    weights = torch.tensor([0.25, 1.0, 0.75])
    assert sum_by_group(vectors, group_of, counts[:3], weights).tolist() == [[3, 4], [0, 0], [4, 6.5]]


ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]

SECTIONS = [[0, 0, 0, 1, 1, 2], [0], [0, 1, 1, 2]]
HIDDEN = 24
readouts = pytest.mark.parametrize("readout", READOUTS)


@pytest.fixture
def documents(random_document: DocumentFactory) -> list[SegmentedDocument]:
    return [random_document(sections, seed=seed) for seed, sections in enumerate(SECTIONS)]


@readouts
@torch.no_grad()
def test_weights_are_shares_and_uneven_ones_say_where_they_look(
    tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str
) -> None:
    """What ranks passages by attention takes equal weights where a readout gives none and there is no graph."""
    model = tiny_model(readout=readout, graph_layers=0)
    # Weights may begin even, and be learned.
    for parameter in model.readout.parameters():
        nn.init.normal_(parameter)
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


@readouts
@torch.no_grad()
def test_a_start_at_the_mean_is_one_or_is_refused(
    tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str
) -> None:
    model = tiny_model("bert", readout=readout, projection_size=None, graph_layers=0)
    batch = GraphBatch.from_documents(documents, None)
    vectors = torch.randn(sum(batch.passage_counts), HIDDEN)
    try:
        start_at_mean(model)
    except SettingsError:
        return
    means = mean_by_group(vectors, batch.rows.document_of, batch.rows.counts)
    found = model.encode_graphs(vectors, batch).documents
    assert float(functional.cosine_similarity(found, means).min()) > 0.97


class MaxReadout(Readout):
    description = "the largest of every number of the passages"

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> DocumentOutput:
        parts = torch.split(passages, list(batch.passage_counts))
        return DocumentOutput(documents=torch.stack([part.amax(0) for part in parts]))


def test_one_without_exact_attribution_encodes_and_says_so_when_compared(
    monkeypatch: pytest.MonkeyPatch, tiny_encoder: Callable[..., DocumentEncoder]
) -> None:
    monkeypatch.setitem(READOUTS, "max", f"{__name__}:MaxReadout")
    encoder = tiny_encoder(readout="max", graph_layers=0)
    texts = ["The tide rises. It falls.", "Bread is baked."]
    assert encoder.encode(texts).shape == (2, encoder.model.config.hidden_size)
    with pytest.raises(ModelError, match="readout=max"):
        encoder.compare(*texts)
