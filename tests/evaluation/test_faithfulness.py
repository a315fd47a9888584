"""Deletion curves: against documents that are cut and encoded anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typed import Documents, Encoders

from graphdoc.errors import EvaluationError, ModelError
from graphdoc.evaluation import LabelledPair, faithfulness
from graphdoc.evaluation.faithfulness import contribution_curves, deletion_curves
from graphdoc.prediction import predict
from graphdoc.segmentation.spans import SegmentedDocument

LABELS = ["rice", "<b>sea</b>", "[clocks]"]
PAIRS = [("first", "second", 1), ("second", "third", 0)]
SIZES = {"chunk_attention_heads": 2, "section_lstm_size": 6}
SECTIONS = {"readout": "sections", "graph_layers": 0, "readout_settings": SIZES}


def part_of(segmented: SegmentedDocument, rows: list[int]) -> SegmentedDocument:
    kept = {name: tuple(getattr(segmented, name)[row] for row in sorted(rows)) for name in ("passages", "token_ids")}
    return replace(segmented, **kept)


def plain_curve(
    segmented: SegmentedDocument, contributions: Any, value: Callable[[SegmentedDocument], float]
) -> list[float]:
    """One passage less at every point, by cutting the document and encoding what is left."""
    order = sorted(range(len(contributions)), key=lambda row: -contributions[row])
    return [value(part_of(segmented, order[gone:])) for gone in range(len(order))]


@pytest.mark.parametrize("settings", [{"graph_kind": "section", "readout": "attention"}, SECTIONS])
def test_curves_of_similarity_are_those_of_documents_that_are_cut(
    tiny_encoder: Encoders, structured: Documents, settings: dict[str, Any]
) -> None:
    encoder = tiny_encoder("bert", **settings)
    first, second, _ = structured
    comparison = encoder.compare(first, second)
    other = encoder.encode(second).astype(np.float64)

    def value(part: SegmentedDocument) -> float:
        ((_, vectors),) = encoder.stream([part])
        vector = vectors[0].double().numpy()
        return float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other))

    expected = plain_curve(encoder.segment(first), comparison.passage_contributions.sum(axis=1), value)
    curves = contribution_curves(encoder, structured, PAIRS, steps=len(expected) - 1)
    # The third document has one passage, which cannot be taken out.
    assert list(curves) == ["first", "second"]
    np.testing.assert_allclose(curves["first"][0], expected, atol=1e-4)
    assert curves["first"][1, 0] == pytest.approx(comparison.document, abs=1e-4)


def test_curves_of_classes_are_those_of_documents_cut(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier(graph_kind="section", readout="document_node", multi_label=True)
    prediction = predict(encoder, structured[0], threshold=0.99)[0]
    label = LABELS[int(prediction.logits.argmax())]
    decision = next(one for one in prediction.decisions if one.label == label)

    def value(part: SegmentedDocument) -> float:
        return predict(encoder, [part], explain=False)[0].probability_of(label)

    expected = plain_curve(encoder.segment(structured[0]), decision.contributions, value)
    curves = contribution_curves(encoder, structured, steps=len(expected) - 1)
    np.testing.assert_allclose(curves["first"][0], expected, atol=1e-4)
    assert np.ptp(expected) > 0.05


def test_where_the_model_is_a_sum_contributions_beat_chance(
    tiny_encoder: Encoders, tiny_classifier: Encoders, structured: Documents
) -> None:
    """A mean of the contributions that are left is least without the greatest, whichever others went."""
    similarity = tiny_encoder("bert", readout="mean", graph_layers=0, similarity="dot")
    classes = tiny_classifier(readout="mean", graph_layers=0, multi_label=True)
    for encoder, pairs in ((similarity, PAIRS), (classes, None)):
        for curve, at_random in contribution_curves(encoder, structured, pairs, steps=20, orders=8).values():
            assert (curve <= at_random + 1e-6).all()
            assert (curve[1:-1] < at_random[1:-1] - 1e-4).any()


def test_few_steps_and_equal_importance(tiny_encoder: Encoders, structured: Documents) -> None:
    encoder = tiny_encoder("bert")
    (segmented,) = encoder.with_passage_vectors(structured[:1])
    count = len(segmented.passages)
    left: list[int] = []

    def score(shortened: faithfulness.Shortened) -> np.ndarray:
        left.extend(map(len, shortened.passages))
        return np.array([len(passages) for passages in shortened.passages], np.float64)

    for steps in (1, 3, 40):
        curves = deletion_curves(encoder, segmented, np.zeros(count), score, steps=steps, orders=2)
        # Where it is how many passages are left, a curve is a line.
        np.testing.assert_allclose(curves, np.tile(np.linspace(count, 1, steps + 1), (2, 1)), atol=0.5)
    assert set(left) == set(range(1, count + 1))


def test_what_cannot_be(tiny_encoder: Encoders, structured: Documents) -> None:
    encoder = tiny_encoder("bert")
    with pytest.raises(ModelError):
        contribution_curves(encoder, structured)
    with pytest.raises(EvaluationError):
        contribution_curves(encoder, structured, [LabelledPair("third", "third", 1)])
