from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from typed import Models, Patch

from graphdoc.errors import ModelError, SettingsError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.modeling.heads import SubtopicHead
from graphdoc.modeling.readouts import DocumentOutput, Readout, mean_by_group
from graphdoc.registry import READOUTS
from graphdoc.segmentation.spans import SegmentedDocument
from graphdoc.settings.document import checked_labels

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
        assert torch.allclose(weights, 1 / rows.counts[rows.document_of]) or model.readout.own_attention is not None


class MaxReadout(Readout):
    description = "the largest of every number of the passages"

    def forward(
        self, nodes: Tensor, passages: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        parts = torch.split(passages, list(batch.passage_counts))
        return DocumentOutput(documents=torch.stack([part.amax(0) for part in parts]))


def test_one_without_exact_attribution_encodes_and_says_so_when_compared(
    monkeypatch: Patch, tiny_encoder: Callable[..., Any]
) -> None:
    monkeypatch.setitem(READOUTS, "max", f"{__name__}:MaxReadout")
    encoder = tiny_encoder(readout="max", graph_layers=0)
    texts = ["The tide rises. It falls.", "Bread is baked."]
    assert encoder.encode(texts).shape == (2, encoder.model.config.hidden_size)
    with pytest.raises(ModelError, match="readout=max"):
        encoder.compare(*texts)


LABELS = ["rice", "sea", "clocks"]


@pytest.fixture
def batch(random_document: Callable[..., SegmentedDocument]) -> GraphBatch:
    return GraphBatch.from_documents(
        [random_document(s, seed=n) for n, s in enumerate([[0], [0, 0, 1], [2] * 5])], "full"
    )


@pytest.mark.parametrize(("readout", "projection_size"), [("mean", 16), ("document_node", None), ("sections", 16)])
def test_logits_are_a_linear_map_of_document_vectors(
    tiny_model: Models, batch: GraphBatch, readout: str, projection_size: int | None
) -> None:
    model = tiny_model(readout=readout, projection_size=projection_size, labels=LABELS)
    torch.nn.init.normal_(model.head.linear.bias)
    output = model(batch)
    weight, bias = (value.detach().double().numpy() for value in model.head.linear.parameters())
    assert weight.shape == (3, model.config.hidden_size)
    expected = output.documents.detach().double().numpy() @ weight.T + bias
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(output.logits.detach().numpy(), expected, atol=1e-5)


def test_dropout_is_on_document_vectors_and_in_training_only(tiny_model: Models, batch: GraphBatch) -> None:
    model = tiny_model(labels=LABELS, classifier_dropout=0.5)
    still = model(batch)
    assert torch.equal(still.logits, model(batch).logits)
    model.train()
    first, second = model(batch), model(batch)
    assert torch.equal(first.documents, still.documents)
    assert not torch.equal(first.logits, second.logits)
    model.add_head(LABELS, dropout=0.0).train()
    assert torch.equal(model(batch).logits, model(batch).logits)


def test_a_head_can_be_added_replaced_and_removed(tiny_model: Models, batch: GraphBatch) -> None:
    model = tiny_model()
    vectors = model(batch).documents
    torch.manual_seed(3)
    head = model.add_head(("a", "b"), multi_label=True, dropout=0.2)
    assert model.head is head
    assert (model.config.labels, model.config.multi_label) == (["a", "b"], True)
    assert model.config.classifier_dropout == head.dropout.p == 0.2
    output = model(batch)
    assert output.logits.shape == (3, 2)
    assert torch.equal(output.documents, vectors)
    torch.manual_seed(3)
    again = model.add_head(("a", "b"))
    assert torch.equal(again.linear.weight, head.linear.weight)
    large = tiny_model().add_head([f"class {number}" for number in range(400)]).linear
    assert float(large.weight.detach().std()) == pytest.approx(0.02, rel=0.1) and not large.bias.any()
    assert (model.config.multi_label, model.config.classifier_dropout) == (False, 0.2)
    for wrong in ({"labels": ["a"]}, {"labels": LABELS, "dropout": 1.0}):
        with pytest.raises(SettingsError):
            model.add_head(**wrong)
    assert model.head is again and model.config.labels == ["a", "b"]
    model.remove_head()
    assert model(batch).logits is None and torch.equal(model(batch).documents, vectors)
    assert (model.config.labels, model.config.multi_label) == (None, False)


@pytest.mark.parametrize(
    ("labels", "multi_label", "message"),
    [
        ("rice", False, "'rice'"),
        ([1, 2], False, "[1, 2]"),
        (["a"], False, "['a']"),
        ([], True, "[]"),
        (["a", " \n"], False, "blank"),
        (["a b", "c", "a\nb", "c"], True, "'a b'"),
    ],
)
def test_names_that_cannot_be(labels: Any, multi_label: bool, message: str) -> None:
    names = ["a\nb", " <b>bold</b> ", "naïve  ​joined", "‮evil"]
    assert checked_labels(names, False) == ["a b", "<b>bold</b>", "naïve ​joined", "‮evil"]
    with pytest.raises(SettingsError) as caught:
        checked_labels(labels, multi_label)
    assert str(caught.value).startswith("labels=")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_subtopics_are_read_off_what_sentences_are_beside_their_pair(batch: GraphBatch) -> None:
    torch.manual_seed(0)
    head = SubtopicHead(6, 4)
    sentences = torch.randn(len(batch.rows.passages), 6)
    found = head(sentences, batch.rows)
    weight, bias = (value.detach().double().numpy() for value in head.linear.parameters())
    for number in range(len(batch)):
        own = sentences[batch.rows.document_of == number].double().numpy()
        centred = own - own.mean(0)
        size = np.sqrt((centred**2).mean()) or 1.0
        expected = centred / size @ weight.T + bias
        np.testing.assert_allclose(found[batch.rows.document_of == number].detach().numpy(), expected, atol=1e-5)
    torch.testing.assert_close(head(50 * sentences + 3, batch.rows), found, rtol=1e-4, atol=1e-4)
    assert torch.isfinite(head(torch.ones_like(sentences).requires_grad_(), batch.rows)).all()


def test_a_model_with_subtopics_is_saved_and_loaded(tiny_model: Models, batch: GraphBatch, tmp_path: Path) -> None:
    model = tiny_model(readout="initial_mean", subtopics={"columns": 3})
    output = model(batch)
    assert model.config.clustering.columns == 3 and output.subtopics.shape == (len(batch.rows.passages), 3)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(DocumentModel.from_pretrained(tmp_path).eval()(batch).subtopics, output.subtopics)
    # Document vectors are those before the graph, and without edges there are no subtopics.
    without = model(replace(batch, plan=None))
    assert without.subtopics is None
    torch.testing.assert_close(without.documents, output.documents)
