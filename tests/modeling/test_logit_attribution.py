from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from graphdoc.graphs.batch import GraphBatch
from graphdoc.inference.precision import inference
from graphdoc.modeling import DocumentModel, DocumentOutput
from graphdoc.modeling.attribution import logit_contributions, passage_terms
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]
LABELS = ["a", "b", "c"]
SECTIONS = [0, 0, 2, 1, 1]


def run(model: DocumentModel, document: SegmentedDocument) -> tuple[Tensor, GraphBatch, DocumentOutput]:
    batch = GraphBatch.from_documents([document], model.config.graph)
    with inference(model):
        vectors = model.encode_passages(batch)
        return vectors, batch, model.encode_graphs(vectors, batch, output_attention=True)


def with_wide_head(model: DocumentModel) -> DocumentModel:
    assert model.head is not None
    nn.init.normal_(model.head.linear.weight)
    nn.init.normal_(model.head.linear.bias)
    return model


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("kind", GRAPH_KINDS)
@pytest.mark.parametrize("readout", READOUTS)
def test_contributions_and_the_bias_add_up_to_the_logit(
    tiny_model: ModelFactory, random_document: DocumentFactory, readout: str, kind: str, layers: int
) -> None:
    model = with_wide_head(tiny_model(readout=readout, graph_kind=kind, graph_layers=layers, labels=LABELS))
    for sections in (SECTIONS, [0]):
        vectors, batch, output = run(model, random_document(sections))
        with inference(model):
            parts = logit_contributions(model, vectors, batch, output, [2, 0])
        assert parts.shape == (len(sections), 2)
        logits = output.logits[0, [2, 0]]
        torch.testing.assert_close(parts.sum(0) + model.head.linear.bias[[2, 0]], logits, atol=2e-5, rtol=1e-5)
        assert not torch.allclose(parts.sum(0), logits, atol=1e-2)


def test_a_contribution_is_the_passages_term_in_the_direction_of_the_class(
    tiny_model: ModelFactory, random_document: DocumentFactory
) -> None:
    model = with_wide_head(tiny_model(labels=LABELS))
    vectors, batch, output = run(model, random_document(SECTIONS))
    with inference(model):
        terms = passage_terms(model, vectors, batch, output).double().numpy()
        parts = logit_contributions(model, vectors, batch, output, [1])[:, 0].numpy()
    weight = model.head.linear.weight[1].detach().double().numpy()
    assert parts == pytest.approx([float(term @ weight) for term in terms], abs=1e-5)
