"""What every readout of the registry has to keep, whatever it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from graphdoc import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.modeling import DocumentModel
from graphdoc.modeling.document_model import start_at_mean
from graphdoc.modeling.readouts import Readout, ReadoutOutput, mean_by_group, mean_weights
from graphdoc.registry import READOUTS, load
from graphdoc.segmentation.spans import SegmentedDocument

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
def test_documents_of_a_batch_do_not_see_each_other(
    tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str
) -> None:
    model = tiny_model(readout=readout)
    together = model(GraphBatch.from_documents(documents, model.config.graph))
    alone = [model(GraphBatch.from_documents([document], model.config.graph)) for document in documents]
    assert together.documents.shape == (len(documents), model.config.hidden_size)
    torch.testing.assert_close(together.documents, torch.cat([one.documents for one in alone]), atol=1e-5, rtol=1e-5)


@readouts
def test_it_says_what_the_document_vector_is(readout: str) -> None:
    described = load(READOUTS[readout]).description
    assert described.split()[0] in ("a", "the") and not described.endswith(".")
    assert [name for name in READOUTS if load(READOUTS[name]).description == described] == [readout]


@readouts
@torch.no_grad()
def test_one_without_weights_treats_passages_alike(
    tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str
) -> None:
    """What shows attention takes equal weights where a readout gives none and there is no graph."""
    model = tiny_model(readout=readout, graph_layers=0)
    output = model(GraphBatch.from_documents(documents, model.config.vector_graph))
    if output.readout_weights is None and not model.readout.has_sections:
        sizes = [len(document.passages) for document in documents]
        means = torch.stack([own.mean(dim=0) for own in output.passages.split(sizes)])
        assert functional.cosine_similarity(output.documents, means).min() > 1 - 1e-5


@readouts
@torch.no_grad()
def test_one_with_uneven_weights_says_where_it_looks(
    tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str
) -> None:
    """Else its weights would count for nothing where passages are ranked by attention."""
    model = tiny_model(readout=readout, graph_layers=0)
    # Weights may begin even, and be learned.
    for parameter in model.readout.parameters():
        nn.init.normal_(parameter)
    batch = GraphBatch.from_documents(documents, model.config.vector_graph)
    weights = model(batch).readout_weights
    if weights is not None and not torch.allclose(
        weights, mean_weights(weights, batch.rows.document_of, batch.rows.counts)
    ):
        assert model.readout.own_attention is not None


@readouts
@torch.no_grad()
def test_weights_are_shares(tiny_model: ModelFactory, documents: list[SegmentedDocument], readout: str) -> None:
    model = tiny_model(readout=readout)
    batch = GraphBatch.from_documents(documents, model.config.graph)
    weights = model(batch).readout_weights
    if weights is not None:
        assert weights.shape == batch.rows.document_of.shape and weights.min() >= 0
        sums = torch.zeros(len(batch)).index_add(0, batch.rows.document_of, weights)
        torch.testing.assert_close(sums, torch.ones(len(batch)))


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
    ) -> ReadoutOutput:
        parts = torch.split(passages, list(batch.passage_counts))
        return ReadoutOutput(torch.stack([part.amax(0) for part in parts]))


def test_one_without_exact_attribution_encodes_and_says_so_when_compared(
    monkeypatch: pytest.MonkeyPatch, tiny_encoder: Callable[..., DocumentEncoder]
) -> None:
    monkeypatch.setitem(READOUTS, "max", f"{__name__}:MaxReadout")
    encoder = tiny_encoder(readout="max", graph_layers=0)
    texts = ["The tide rises. It falls.", "Bread is baked."]
    assert encoder.encode(texts).shape == (2, encoder.model.config.hidden_size)
    with pytest.raises(ModelError, match="readout=max"):
        encoder.compare(*texts)
