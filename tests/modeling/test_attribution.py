from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu

from graphdoc.graphs.batch import GraphBatch
from graphdoc.modeling import DocumentModel, DocumentOutput, attribution
from graphdoc.modeling.attribution import logit_contributions, passage_terms
from graphdoc.modeling.readouts import Readout
from graphdoc.registry import GRAPH_KINDS, READOUTS
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]
SECTIONS = [0, 0, 0, 2, 1, 1, 4]


def run(model: DocumentModel, document: SegmentedDocument) -> tuple[Tensor, GraphBatch, DocumentOutput]:
    batch = GraphBatch.from_documents([document], model.config.graph)
    with torch.no_grad():
        vectors = model.encode_passages(batch)
        return vectors, batch, model.encode_graphs(vectors, batch, output_attention=True)


def terms_of(model: DocumentModel, document: SegmentedDocument) -> tuple[Tensor, Tensor]:
    vectors, batch, output = run(model, document)
    with torch.no_grad():
        terms = passage_terms(model, vectors, batch, output)
    assert output.documents is not None
    return terms, output.documents[0]


def spread(model: DocumentModel, factor: float) -> DocumentModel:
    """Draw the weights of the graph layers wide, so that ELU saturates and attention is uneven."""
    with torch.no_grad():
        for parameter in model.graph.parameters():
            parameter.copy_(torch.randn_like(parameter) * factor)
    return model


@pytest.mark.parametrize("readout", READOUTS)
def test_terms_and_logits_add_up(tiny_model: ModelFactory, random_document: DocumentFactory, readout: str) -> None:
    shapes = [{"graph_kind": kind, "graph_layers": 2} for kind in GRAPH_KINDS]
    shapes += [{"graph_layers": 0}, {"graph_layers": 3}, {"skip": "identity"}]
    for shape in shapes:
        model = tiny_model(readout=readout, labels=["a", "b", "c"], **shape)
        torch.nn.init.normal_(model.head.linear.weight)
        torch.nn.init.normal_(model.head.linear.bias)
        for sections in (SECTIONS, [0], [0, 1]):
            document = random_document(sections)
            terms, vector = terms_of(model, document)
            assert terms.shape == (len(sections), model.config.hidden_size)
            torch.testing.assert_close(terms.sum(0), vector, atol=2e-6, rtol=1e-5)
            vectors, batch, output = run(model, document)
            with torch.no_grad():
                parts = logit_contributions(model, vectors, batch, output, [2, 0])
                torch.testing.assert_close(parts, terms @ model.head.linear.weight[[2, 0]].T)
            logits = output.logits[0, [2, 0]]
            torch.testing.assert_close(parts.sum(0) + model.head.linear.bias[[2, 0]], logits, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("readout", READOUTS)
def test_also_where_elu_saturates(tiny_model: ModelFactory, random_document: DocumentFactory, readout: str) -> None:
    model = spread(tiny_model(readout=readout, graph_layers=3), 6.0)
    document = random_document(SECTIONS)
    _, _, output = run(model, document)
    assert output.layer_inputs is not None
    assert float(output.layer_inputs[1].min()) < -0.999_9
    terms, vector = terms_of(model, document)
    torch.testing.assert_close(terms.sum(0) / vector.norm(), vector / vector.norm(), atol=1e-5, rtol=0)


class MaxReadout(Readout):
    """No weighted mean, and yet with weights: the shares of numbers that are taken from every passage."""

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attention: bool = False
    ) -> DocumentOutput:
        documents, chosen = passages.max(0, keepdim=True)
        weights = torch.bincount(chosen[0], minlength=len(passages)) / passages.shape[1]
        return DocumentOutput(documents=documents, readout_weights=weights)

    def terms(self, states: Tensor, batch: GraphBatch, output: DocumentOutput) -> Tensor:
        assert output.passages is not None
        chosen = output.passages.argmax(0, keepdim=True)
        return states[:, batch.rows.passages].gather(1, chosen.expand(len(states), -1, -1)).squeeze(1)


@pytest.mark.parametrize(("reads_initial_nodes", "layers"), [(False, 0), (False, 2), (True, 2)])
def test_weights_are_terms_only_where_the_readout_says_so(
    tiny_model: ModelFactory,
    random_document: DocumentFactory,
    monkeypatch: pytest.MonkeyPatch,
    reads_initial_nodes: bool,
    layers: int,
) -> None:
    model = tiny_model(graph_layers=layers)
    monkeypatch.setattr(MaxReadout, "reads_initial_nodes", reads_initial_nodes)
    model.readout = MaxReadout(model.config)
    terms, vector = terms_of(model, random_document(SECTIONS))
    torch.testing.assert_close(terms.sum(0), vector, atol=2e-6, rtol=1e-5)
    assert (terms != 0).sum(0).tolist() == [1 if reads_initial_nodes or not layers else 7] * 16


def test_terms_against_a_walk_over_the_nodes(tiny_model: ModelFactory, random_document: DocumentFactory) -> None:
    """One layer after the other, node by node and in double precision, for the document node of a section graph."""
    model = spread(tiny_model(graph_kind="section", graph_layers=2), 0.7)
    vectors, batch, output = run(model, random_document(SECTIONS))
    assert output.attention is not None
    initial = model.initial_passages(vectors).detach().double().numpy()
    count, nodes = len(SECTIONS), len(SECTIONS) + 1
    parts = np.zeros((count, nodes, 16))
    for passage in range(count):
        parts[passage, passage + 1] = initial[passage]
        parts[passage, 0] = initial[passage] / count
    edges = batch.edge_index.T.tolist()
    for number, layer in enumerate(model.graph.layers):
        state = {name: value.double().numpy() for name, value in layer.conv.state_dict().items()}
        if number:
            whole = parts.sum(0)
            parts = parts * elu(torch.from_numpy(whole)).numpy() / whole
        after = np.zeros_like(parts)
        for passage in range(count):
            for node in range(nodes):
                after[passage, node] = parts[passage, node] @ state["res.weight"].T + state["bias"] / count
            for edge, (source, target) in enumerate(edges):
                value = (parts[passage, source] @ state["lin.weight"].T).reshape(2, 8)
                weight = output.attention[number][edge].double().numpy()
                after[passage, target] += (weight[:, None] * value).ravel()
        parts = after
    terms = passage_terms(model, vectors, batch, output).detach().numpy()
    np.testing.assert_allclose(terms, parts[:, 0], atol=1e-4 * np.abs(parts[:, 0]).max())


def test_blocks_change_nothing(
    tiny_model: ModelFactory, random_document: DocumentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, document = tiny_model(readout="mean", graph_kind="hierarchical"), random_document(SECTIONS)
    whole, _ = terms_of(model, document)
    monkeypatch.setattr(attribution, "BLOCK_CELLS", 1)
    torch.testing.assert_close(terms_of(model, document)[0], whole)
