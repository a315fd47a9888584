from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from graphdoc.graphs.batch import GraphBatch
from graphdoc.inference.precision import inference
from graphdoc.modeling import DocumentModel, DocumentOutput, attribution
from graphdoc.modeling.attribution import passage_terms
from graphdoc.modeling.logit_attribution import LINEAR_READOUTS, logit_contributions, splits_exactly
from graphdoc.registry import GRAPH_KINDS
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]
LABELS = ["a", "b", "c"]
SECTIONS = [0, 0, 2, 1, 1]


class ReadoutInOrder(nn.Module):
    """A readout that is no sum: a recurrent layer over the passages of one document."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(hidden, width, bidirectional=True, batch_first=True)

    def forward(self, nodes: Tensor, batch: GraphBatch) -> tuple[Tensor, None]:
        _, (last, _) = self.layer(nodes[batch.is_passage].unsqueeze(0))
        return last.reshape(1, -1), None


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
@pytest.mark.parametrize("readout", LINEAR_READOUTS)
def test_contributions_and_the_bias_add_up_to_the_logit(
    tiny_model: ModelFactory, random_document: DocumentFactory, readout: str, kind: str, layers: int
) -> None:
    model = with_wide_head(tiny_model(readout=readout, graph_kind=kind, graph_layers=layers, labels=LABELS))
    assert splits_exactly(model)
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


class TestReadoutsThatAreNoSums:
    @pytest.fixture(params=[(0, "full"), (2, "hierarchical")], ids=["without graph", "with graph"])
    def model(self, request: pytest.FixtureRequest, tiny_model: ModelFactory) -> DocumentModel:
        layers, kind = request.param
        model = tiny_model(graph_layers=layers, graph_kind=kind, readout="mean", labels=LABELS)
        model.readout = ReadoutInOrder(16, 8).eval()
        model.config.readout = "in order"
        return with_wide_head(model)

    def test_contributions_add_up_to_the_logit_less_that_of_nothing(
        self, model: DocumentModel, random_document: DocumentFactory
    ) -> None:
        assert not splits_exactly(model)
        vectors, batch, output = run(model, random_document(SECTIONS))
        with inference(model):
            parts = logit_contributions(model, vectors, batch, output, [0, 2])
            nothing = model.head(model.readout(torch.zeros_like(output.nodes), batch)[0])[0, [0, 2]]
        assert parts.shape == (5, 2)
        expected = output.logits[0, [0, 2]] - nothing
        assert float(expected.abs().min()) > 0.05
        torch.testing.assert_close(parts.sum(0), expected, atol=2e-3, rtol=0)
        assert not parts.requires_grad

    def test_against_differences_on_a_fine_path(self, model: DocumentModel, random_document: DocumentFactory) -> None:
        """What changes when one passage's terms alone are taken along at every step of the way."""
        vectors, batch, output = run(model, random_document(SECTIONS))
        with inference(model):
            parts = logit_contributions(model, vectors, batch, output, [1])[:, 0]
            initial = model.initial_passages(vectors)
            terms = torch.cat(list(attribution.node_terms(model, initial, batch, output))).double()
            torch.testing.assert_close(terms.sum(0).float(), output.nodes, atol=1e-5, rtol=1e-4)
            model.readout.double()
            model.head.double()
            logit = lambda nodes: model.head(model.readout(nodes, batch)[0])[0, 1]  # noqa: E731
            steps, expected = 200, torch.zeros(5, dtype=torch.float64)
            for step in range(steps):
                point = (step + 0.5) / steps * terms.sum(0)
                for row, term in enumerate(terms):
                    expected[row] += (logit(point + 1e-4 * term) - logit(point - 1e-4 * term)) / 2e-4 / steps
        torch.testing.assert_close(parts.double(), expected, atol=1e-3, rtol=0)

    def test_blocks_change_nothing(
        self, model: DocumentModel, random_document: DocumentFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vectors, batch, output = run(model, random_document(SECTIONS))
        with inference(model):
            whole = logit_contributions(model, vectors, batch, output, [0, 1, 2])
            monkeypatch.setattr(attribution, "BLOCK_CELLS", 1)
            torch.testing.assert_close(logit_contributions(model, vectors, batch, output, [0, 1, 2]), whole)
