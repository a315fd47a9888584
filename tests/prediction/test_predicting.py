"""Predictions against NumPy, what passages add to them, thresholds, streams and refusals."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from typed import Documents, Encoders, Log, Patch

from graphdoc.documents.document import Document
from graphdoc.errors import DocumentError, GraphdocError, ModelError, SettingsError
from graphdoc.prediction import explain, predict, stream_predictions
from graphdoc.prediction.predicting import given_labels
from graphdoc.registry import READOUTS
from graphdoc.segmentation.spans import Coverage

LABELS = ["rice", "<b>sea</b>", "[clocks]"]


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("readout", READOUTS)
def test_probabilities_and_contributions_are_those_of_the_vectors(
    tiny_classifier: Encoders, structured: Documents, readout: str, layers: int
) -> None:
    encoder = tiny_classifier(readout=readout, graph_layers=layers, graph_kind="section")
    weight, bias = (value.detach().double().numpy() for value in encoder.model.head.linear.parameters())
    logits = encoder.encode(structured).astype(np.float64) @ weight.T + bias
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    predictions = predict(encoder, structured)
    assert [item.id for item in predictions] == ["first", "second", "third"]
    np.testing.assert_allclose(predictions.probabilities, shifted / shifted.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose([item.logits for item in predictions], logits, atol=1e-4)
    assert predictions.labels == [LABELS[number] for number in logits.argmax(1)]
    assert len(predictions[0].segmented.passages) > 3 and np.ptp(predictions.probabilities) > 0.05
    for item in predictions:
        (decision,) = item.decisions
        place = LABELS.index(decision.label)
        assert item.labels == (item.label,) == (decision.label,)
        assert (decision.probability, decision.logit) == (item.probability, item.logits[place])
        # What passages add and the bias of the class add up to the logit.
        assert decision.contributions.shape == (len(item.segmented.passages),)
        assert decision.rest == pytest.approx(bias[place], abs=2e-5)
        order = decision.strongest(None)
        assert sorted(order) == list(range(len(item.segmented.passages))) and decision.strongest(2) == order[:2]
        assert list(decision.contributions[order]) == sorted(decision.contributions, reverse=True)


def test_several_labels(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier(multi_label=True)
    predictions = predict(encoder, structured)
    logits = np.array([item.logits for item in predictions], np.float64)
    np.testing.assert_allclose(predictions.probabilities, 1 / (1 + np.exp(-logits)), atol=1e-6)
    assert predictions.threshold == 0.5
    for threshold in (0.01, 0.5, 0.9):
        found = predict(encoder, structured, threshold=threshold, explain=False)
        assert found.labels == [
            tuple(name for name, probability in zip(LABELS, row, strict=True) if probability >= threshold)
            for row in predictions.probabilities
        ]
    for item in predict(encoder, structured, threshold=0.001):
        assert tuple(decision.label for decision in item.decisions) == item.labels and len(item.labels) > 1
        assert item.label == max(item.labels, key=item.probability_of)
    assert given_labels(np.array([0.5, 0.4999], np.float32), ("a", "b"), 0.5) == ("a",)
    assert given_labels(np.array([0.2, 0.4, 0.4], np.float32), ("a", "b", "c"), None) == ("b",)
    # Where a document gets no class, the likeliest is explained.
    for item in predict(encoder, structured, threshold=0.9999):
        assert item.labels == () and item.label is None
        assert [decision.label for decision in item.decisions] == [LABELS[int(item.logits.argmax())]]


@pytest.mark.parametrize(
    ("settings", "options", "error", "named"),
    [
        ({"multi_label": True}, {"threshold": 0}, SettingsError, "threshold=0"),
        ({"multi_label": True}, {"threshold": float("nan")}, SettingsError, "threshold=nan"),
        ({"multi_label": True}, {"threshold": True}, SettingsError, "threshold=True"),
        ({}, {"threshold": 0.4}, SettingsError, "tiny-bert"),
        ({}, {"dtype": "int4"}, GraphdocError, "int4"),
        ({"labels": None}, {}, ModelError, "tiny-bert"),
    ],
)
def test_bad_input(
    tiny_classifier: Encoders, tiny_encoder: Encoders, settings: Any, options: Any, error: Any, named: str
) -> None:
    encoder = tiny_encoder("bert") if "labels" in settings else tiny_classifier(**settings)
    with pytest.raises(error, match=named):
        predict(encoder, "Some text.", **options)
    if not options:
        # Before a document is asked for.
        with pytest.raises(error, match=named):
            stream_predictions(encoder, ["Some text."])
        with pytest.raises(error, match=named):
            explain(encoder, "Some text.", ["a"])


def test_documents_in_any_form(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier()
    expected = encoder.predict([structured[1]])
    for form in (structured[1], structured[1].to_dict(), encoder.segment(structured[1])):
        found = encoder.predict(form, explain=False)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)
        assert found[0].decisions == () and found[0].to_dict()["passages"] == []
    for wrong in (5, [structured[0], Document.from_text("\u200b")]):
        with pytest.raises(DocumentError):
            encoder.predict(wrong)
    assert encoder.predict([]).probabilities.shape == (0, 3)


def test_documents_are_asked_for_as_they_are_needed(
    tiny_classifier: Encoders, structured: Documents, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("graphdoc.inference.segmenting.WINDOW_PASSAGES", 4)
    monkeypatch.setattr("graphdoc.inference.segmenting.BLOCK_DOCUMENTS", 1)
    asked: list[int] = []

    def documents() -> Iterator[Document]:
        for number in range(6):
            asked.append(number)
            yield replace(structured[number % 2], id=str(number))

    encoder, totals = tiny_classifier(), Coverage()
    stream = stream_predictions(encoder, documents(), totals=totals)
    assert asked == []
    first = next(stream)
    assert len(asked) == 1
    rest = list(stream)
    assert len(asked) == 6 == totals.documents
    whole = encoder.predict(structured[:2], explain=False)
    for item in (first, *rest):
        np.testing.assert_allclose(item.probabilities, whole.probabilities[int(item.id) % 2], atol=1e-5)
        assert item.segmented.token_ids == () and item.segmented.texts[0]


def test_what_is_left_out_is_counted_and_reported(
    tiny_classifier: Encoders, structured: Documents, caplog: Log
) -> None:
    with caplog.at_level(logging.WARNING):
        predictions = tiny_classifier(max_passages=2).predict(structured)
    assert "2 of 3" in caplog.text and predictions.coverage.documents_not_whole == 2
    assert len(predictions[0].decisions[0].contributions) == 2 and predictions[0].to_dict()["coverage"] < 1


def test_any_classes_are_explained(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier()
    given, every = encoder.predict(structured[0])[0], explain(encoder, structured[0], ["[clocks]", "rice", LABELS[1]])
    assert [decision.label for decision in every.decisions] == ["[clocks]", "rice", LABELS[1]]
    assert every.labels == given.labels
    for decision in every.decisions:
        assert decision.logit == pytest.approx(float(given.logits[LABELS.index(decision.label)]), abs=1e-5)
        if decision.label == given.label:
            np.testing.assert_allclose(decision.contributions, given.decisions[0].contributions, atol=1e-6)
    with pytest.raises(SettingsError, match="'x'"):
        explain(encoder, "Some text.", ["rice", "x"])


def test_precision_dropout_and_weights_that_are_nan(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier(classifier_dropout=0.5)
    encoder.model.train()
    exact, rounded = (encoder.predict(structured, dtype=dtype).probabilities for dtype in (None, "bfloat16"))
    assert 0 < np.abs(exact - rounded).max() < 0.1
    np.testing.assert_array_equal(exact, encoder.predict(structured).probabilities)
    assert encoder.model.training and encoder.model.head.training
    with torch.no_grad():
        encoder.model.head.linear.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="NaN"):
        encoder.predict(structured)
