"""Deletion and insertion curves: against documents that are cut and encoded anew, and against sums by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import LabelledPair, faithfulness
from graphdoc.evaluation.faithfulness import (
    KINDS,
    FaithfulnessScores,
    areas,
    encode_shortened,
    kept_passages,
    measure_faithfulness,
    passage_attention,
)
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.kinds import NodeKind
from graphdoc.modeling import DocumentModel
from graphdoc.prediction import predict
from graphdoc.segmentation.spans import SegmentedDocument

ModelFactory = Callable[..., DocumentModel]
EncoderFactory = Callable[..., DocumentEncoder]
LABELS = ["rice", "sea", "clocks"]
PAIRS = [LabelledPair("first", "second", 1), LabelledPair("second", "third", 0)]
STEPS = 4
SECTIONS = [0, 0, 0, 1, 1, 2, 2, 2]
KEPT = [
    np.array(left, np.bool_)
    for left in ([1] * 8, [0, 1, 0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 1, 1])
]


@pytest.fixture
def classifier(tiny_encoder: EncoderFactory) -> EncoderFactory:
    """Makes an encoder with a head whose classes are far apart: ``classifier(multi_label=True)``."""

    def make(**settings: object) -> DocumentEncoder:
        encoder = tiny_encoder("bert", **{"labels": LABELS, **settings})
        assert encoder.model.head is not None
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(2)
            for weight in encoder.model.head.parameters():
                weight.normal_(std=0.4)
        return encoder

    return make


def part_of(segmented: SegmentedDocument, rows: list[int]) -> SegmentedDocument:
    return replace(
        segmented,
        passages=tuple(segmented.passages[row] for row in sorted(rows)),
        token_ids=tuple(segmented.token_ids[row] for row in sorted(rows)),
    )


def plain_curves(segmented: SegmentedDocument, scores: Any, value: Callable[[SegmentedDocument], float]) -> np.ndarray:
    """Deletion and insertion by cutting the document and encoding what is left, ``(2, steps + 1)``."""
    order = np.array(sorted(range(len(scores)), key=lambda row: -scores[row]))
    result = []
    for kind in KINDS:
        kept = kept_passages(order, kind, STEPS)
        values = [value(part_of(segmented, np.flatnonzero(left).tolist())) for left in kept]
        gone = [len(order) - left.sum() if kind == "deletion" else left.sum() - 1 for left in kept]
        result.append(np.interp(np.linspace(0, 1, STEPS + 1), np.array(gone) / (len(order) - 1), values))
    return np.array(result)


@pytest.mark.parametrize(
    "settings",
    [
        {"graph_kind": "section", "readout": "attention"},
        {"readout": "sections", "graph_layers": 0, "chunk_attention_heads": 2, "section_lstm_size": 6},
    ],
)
def test_curves_of_similarity_are_those_of_documents_that_are_cut(
    tiny_encoder: EncoderFactory, structured: list[Document], settings: dict[str, Any]
) -> None:
    encoder = tiny_encoder("bert", **settings)
    scores = measure_faithfulness(encoder, structured, PAIRS, steps=STEPS, resamples=20)
    # The third document has one passage, which cannot be taken out.
    assert scores.cases == (("first", "second"), ("second", "first"), ("second", "third"))
    assert scores.methods == ("contribution", "attention", "words", "random")
    for number, (id, other_id) in enumerate(scores.cases):
        a, b = (next(one for one in structured if one.id == name) for name in (id, other_id))
        comparison = encoder.compare(a, b)
        other = encoder.encode(b).astype(np.float64)

        def value(part: SegmentedDocument, other: np.ndarray = other) -> float:
            ((_, vectors),) = encoder.stream([part])
            vector = vectors[0].double().numpy()
            return float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other))

        segmented = encoder.segment(a)
        assert scores.curves[number, 0, 0, 0] == pytest.approx(comparison.document, abs=1e-4)
        contributions = comparison.passage_contributions.sum(axis=1)
        np.testing.assert_allclose(scores.curves[number, 0], plain_curves(segmented, contributions, value), atol=1e-4)
        across = comparison.attention_to_a
        attention = comparison.a.weights if across is None else across.mean(axis=(0, 1))
        np.testing.assert_allclose(scores.curves[number, 1], plain_curves(segmented, attention, value), atol=1e-4)


def test_curves_of_classes_are_those_of_documents_that_are_cut(
    classifier: EncoderFactory, structured: list[Document]
) -> None:
    encoder = classifier(graph_kind="section", readout="document_node", multi_label=True)
    scores = measure_faithfulness(encoder, structured, steps=STEPS, resamples=20)
    predictions = predict(encoder, structured[:2], threshold=0.99)
    assert [document for document, _ in scores.cases] == ["first", "second"]
    for number, ((_, label), prediction) in enumerate(zip(scores.cases, predictions, strict=True)):
        assert label == LABELS[int(prediction.logits.argmax())]

        def value(part: SegmentedDocument, label: str = label) -> float:
            return predict(encoder, [part], explain=False)[0].probability_of(label)

        segmented = encoder.segment(structured[number])
        decision = next(one for one in prediction.decisions if one.label == label)
        expected = plain_curves(segmented, decision.contributions, value)
        np.testing.assert_allclose(scores.curves[number, 0], expected, atol=1e-4)
    assert np.ptp(scores.curves) > 0.05


def test_where_the_model_is_a_sum_no_order_beats_contributions(
    tiny_encoder: EncoderFactory, classifier: EncoderFactory, structured: list[Document]
) -> None:
    """A mean of the contributions that are left is least without the greatest, whichever others went."""
    similarity = tiny_encoder("bert", readout="mean", graph_layers=0, similarity="dot")
    classes = classifier(readout="mean", graph_layers=0, multi_label=True)
    for encoder, pairs in ((similarity, PAIRS), (classes, None)):
        scores = measure_faithfulness(encoder, structured, pairs, steps=20, orders=8, resamples=200)
        assert scores.methods == ("contribution", "words", "random")
        deletion, insertion = scores.curves[:, :, 0], scores.curves[:, :, 1]
        assert (deletion[:, :1] <= deletion[:, 1:] + 1e-6).all()
        assert (insertion[:, :1] >= insertion[:, 1:] - 1e-6).all()
        for kind in KINDS:
            ahead = scores.ahead("contribution", kind)
            assert ahead.value > 1e-4
            assert ahead.interval is not None and ahead.interval[0] > 0


def test_means_are_taken_by_document_and_differences_are_paired() -> None:
    draw = np.random.default_rng(0)
    cases = tuple((name, "x") for name in "bbacdd")
    curves = draw.random((6, 2, 2, 5))
    scores = FaithfulnessScores(("contribution", "random"), cases, curves, resamples=50)
    expected = np.stack([curves[:2].mean(axis=0), curves[2], curves[3], curves[4:].mean(axis=0)])
    np.testing.assert_allclose(scores.by_document, expected)
    ahead = scores.ahead("contribution", "deletion")
    single = areas(expected[:, 1, 0] - expected[:, 0, 0])
    assert ahead.value == pytest.approx(single.mean())
    low, high = ahead.interval or (0, 0)
    assert single.min() <= low < ahead.value < high <= single.max()
    assert FaithfulnessScores(("random",), cases[:1], curves[:1, :1]).area("random", "deletion").interval is None


@given(passages=st.integers(2, 40), steps=st.integers(1, 25), seed=st.integers(0, 99))
def test_deletion_and_insertion_are_the_two_sides_of_an_order(passages: int, steps: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(passages)
    gone, come = (kept_passages(order, kind, steps) for kind in KINDS)
    assert len(gone) == len(come) <= steps + 1
    counts = [passages - int(left.sum()) for left in gone]
    assert counts[0] == 0 and counts[-1] == passages - 1 and counts == sorted(set(counts))
    if steps >= passages - 1:
        assert counts == list(range(passages))
    for count, out, kept in zip(counts, gone, come, strict=True):
        assert set(np.flatnonzero(out)) == set(order[count:].tolist())
        assert set(np.flatnonzero(kept)) == set(order[: count + 1].tolist())


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"graph_kind": "hierarchical"}, 2**18),
        ({"labels": ["a", "b", "c"], "readout": "mean"}, 1),
        ({"readout": "sections", "graph_layers": 0, "chunk_attention_heads": 2, "section_lstm_size": 6}, 1),
    ],
)
def test_a_shortened_document_is_encoded_as_if_it_had_never_been_longer(
    tiny_model: ModelFactory,
    random_document: Any,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    most: int,
) -> None:
    monkeypatch.setattr(faithfulness, "_MOST_PAIRS", most)
    model, document = tiny_model(**settings), random_document(SECTIONS)
    vectors, _, logits = encode_shortened(model, with_vectors(model, document), KEPT)
    for row, kept in enumerate(KEPT):
        part = part_of(document, np.flatnonzero(kept).tolist())
        with torch.no_grad():
            output = model(GraphBatch.from_documents([part], model.config.graph))
        np.testing.assert_allclose(vectors[row], output.documents[0].numpy(), atol=2e-5)
        if logits is not None:
            np.testing.assert_allclose(logits[row], output.logits[0].numpy(), atol=2e-5)
    assert (logits is not None) == ("labels" in settings)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def with_vectors(model: DocumentModel, document: SegmentedDocument) -> SegmentedDocument:
    with torch.no_grad():
        batch = GraphBatch.from_documents([document], model.config.graph)
        return replace(document, passage_vectors=model.encode_passages(batch).numpy())


def attention_of(model: DocumentModel, document: Any) -> tuple[np.ndarray, GraphBatch, Any]:
    batch = GraphBatch.from_documents([document], model.config.graph)
    with torch.no_grad():
        output = model(batch, output_attention=True)
    return passage_attention(model, batch, output), batch, output


def test_attention_is_that_of_the_document_node_in_the_last_layer(
    tiny_model: ModelFactory, random_document: Any
) -> None:
    model = tiny_model(readout="document_node", graph_kind="full", graph_layers=2, graph_heads=2)
    attention, batch, output = attention_of(model, random_document(SECTIONS))
    expected = np.zeros(len(SECTIONS))
    for (source, target), weights in zip(batch.edge_index.T.tolist(), output.attention[1].tolist(), strict=True):
        if target == 0 and source:
            expected[source - 1] = np.mean(weights)
    np.testing.assert_allclose(attention, expected, atol=1e-6)
    assert 0 < attention.sum() < 1 and np.ptp(attention) > 1e-4


def test_section_nodes_pass_their_attention_on(tiny_model: ModelFactory, random_document: Any) -> None:
    model = tiny_model(graph_kind="hierarchical", graph_heads=2)
    attention, batch, output = attention_of(model, random_document(SECTIONS))
    nodes = len(batch.node_kind)
    matrix = np.zeros((nodes, nodes))
    source, target = batch.edge_index.numpy()
    matrix[target, source] = output.attention[-1].numpy().mean(axis=1)
    sections = np.flatnonzero(batch.node_kind.numpy() == NodeKind.SECTION)
    passages = np.arange(1, 1 + len(SECTIONS))
    np.testing.assert_allclose(attention, matrix[0, sections] @ matrix[np.ix_(sections, passages)], atol=1e-6)


def test_attention_of_the_readout_comes_first(tiny_model: ModelFactory, random_document: Any) -> None:
    attention, _, output = attention_of(tiny_model(readout="attention"), random_document(SECTIONS))
    np.testing.assert_allclose(attention, output.readout_weights.numpy())
    model = tiny_model(readout="sections", graph_layers=0, chunk_attention_heads=2, section_lstm_size=6)
    attention, _, output = attention_of(model, random_document(SECTIONS))
    matrix = np.zeros((2, len(SECTIONS), len(SECTIONS)))
    matrix[:, output.chunk_pairs[1], output.chunk_pairs[0]] = output.chunk_attention.numpy().T
    np.testing.assert_allclose(attention, matrix.mean(axis=(0, 1)), atol=1e-6)
    attention, _, _ = attention_of(tiny_model(readout="mean", graph_layers=0), random_document(SECTIONS))
    np.testing.assert_allclose(attention, 1 / len(SECTIONS))
