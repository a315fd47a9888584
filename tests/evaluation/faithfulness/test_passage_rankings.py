from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation.faithfulness.passage_rankings import WordOverlap, attention_source, passage_attention
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.kinds import NodeKind
from graphdoc.modeling import DocumentModel

ModelFactory = Callable[..., DocumentModel]
EncoderFactory = Callable[..., DocumentEncoder]
SECTIONS = [0, 0, 1, 1, 1, 2]


def attention_of(model: DocumentModel, document: Any) -> tuple[np.ndarray, GraphBatch, Any]:
    batch = GraphBatch.from_documents([document], model.config.graph)
    with torch.no_grad():
        output = model(batch, output_attention=True)
    return passage_attention(model, batch, output), batch, output


@pytest.mark.parametrize("readout", ["document_node", "mean", "initial_mean"])
def test_attention_is_that_of_the_document_node_in_the_last_layer(
    tiny_model: ModelFactory, random_document: Any, readout: str
) -> None:
    model = tiny_model(readout=readout, graph_kind="full", graph_layers=2, graph_heads=2)
    found, batch, output = attention_of(model, random_document(SECTIONS))
    expected = np.zeros(len(SECTIONS))
    for (source, target), weights in zip(batch.edge_index.T.tolist(), output.attention[1].tolist(), strict=True):
        if target == 0 and source:
            expected[source - 1] = np.mean(weights)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0 < found.sum() < 1 and np.ptp(found) > 1e-4
    assert "last graph layer" in str(attention_source(model))


def test_section_nodes_pass_their_attention_on(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model(graph_kind="hierarchical", graph_heads=2)
    found, batch, output = attention_of(model, random_document(SECTIONS))
    nodes = len(batch.node_kind)
    matrix = np.zeros((nodes, nodes))
    source, target = batch.edge_index.numpy()
    matrix[target, source] = output.attention[-1].numpy().mean(axis=1)
    sections = np.flatnonzero(batch.node_kind.numpy() == NodeKind.SECTION)
    passages = np.arange(1, 1 + len(SECTIONS))
    assert not matrix[0, passages].any()
    np.testing.assert_allclose(found, matrix[0, sections] @ matrix[np.ix_(sections, passages)], atol=1e-6)
    assert found.all()


def test_weights_of_the_readout_come_first(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model(readout="attention", graph_kind="full")
    found, _, output = attention_of(model, random_document(SECTIONS))
    np.testing.assert_allclose(found, output.readout_weights.numpy())
    assert attention_source(model) == "the weights of the readout"


def test_chunkwise_attention_is_averaged_over_the_passages_that_look(
    tiny_model: ModelFactory, random_document: Any
) -> None:
    model = tiny_model(readout="sections", graph_layers=0, chunk_attention_heads=2, section_lstm_size=6)
    found, _, output = attention_of(model, random_document(SECTIONS))
    count = len(SECTIONS)
    matrix = np.zeros((2, count, count))
    matrix[:, output.chunk_pairs[1], output.chunk_pairs[0]] = output.chunk_attention.numpy().T
    np.testing.assert_allclose(found, matrix.mean(axis=(0, 1)), atol=1e-6)
    assert found.sum() == pytest.approx(1)
    assert "chunkwise" in str(attention_source(model))


def test_without_attention_all_weigh_the_same(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model(readout="mean", graph_layers=0)
    found, _, _ = attention_of(model, random_document(SECTIONS))
    np.testing.assert_allclose(found, 1 / len(SECTIONS))
    assert attention_source(model) is None


@pytest.fixture
def documents(tiny_encoder: EncoderFactory) -> list[Any]:
    texts = [
        "Koji grows on rice grains in a warm room, all through the night. " * 3
        + "The harbour wall keeps the tide out.",
        "A tide that comes over the harbour wall floods the marsh.",
        "Rice grains are steamed for koji.",
        "Clocks drift.",
    ]
    encoder = tiny_encoder(passage_words=12)
    return [encoder.segment(Document.from_text(text, id=str(number))) for number, text in enumerate(texts)]


def test_words_are_shared_with_the_other_document(documents: list[Any]) -> None:
    overlap = WordOverlap(documents)
    with_tide, with_rice = (overlap.with_document(documents[0], other) for other in (1, 2))
    about_tide = np.array(["harbour" in text for text in documents[0].texts])
    assert about_tide.any() and not about_tide.all()
    assert with_tide[about_tide].min() > with_tide[~about_tide].max()
    assert with_rice[about_tide].max() < with_rice[~about_tide].min()
    assert (with_tide >= 0).all() and (with_tide <= 1 + 1e-9).all()
    assert not overlap.with_document(documents[3], 0).any()


def test_words_of_a_class_are_those_of_its_other_documents(documents: list[Any]) -> None:
    overlap = WordOverlap(documents)
    about_tide = np.array(["harbour" in text for text in documents[0].texts])
    like_tide = overlap.with_class(documents[0], 0, np.array([True, True, False, False]))
    assert like_tide[about_tide].min() > 0 > like_tide[~about_tide].max()
    # x (c+ - c-), where c- is the mean of two documents of which one shares no word.
    expected = overlap.with_document(documents[0], 1) - overlap.with_document(documents[0], 2) / 2
    np.testing.assert_allclose(like_tide, expected, atol=1e-9)
    alone = overlap.with_class(documents[0], 0, np.array([True, False, False, False]))
    assert (alone <= 0).all()


def test_documents_without_words_share_none(tiny_encoder: EncoderFactory) -> None:
    segmented = [tiny_encoder().segment(Document.from_text(text)) for text in ("!", "?")]
    overlap = WordOverlap(segmented)
    assert overlap.with_document(segmented[0], 1).tolist() == [0.0]
    assert overlap.with_class(segmented[0], 0, np.array([True, False])).tolist() == [0.0]
