from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, GraphdocError, ModelError, SettingsError
from graphdoc.prediction import Prediction, explain, predict, stream_predictions
from graphdoc.prediction.predicting import given_labels
from graphdoc.registry import READOUTS
from graphdoc.segmentation.spans import Coverage

EncoderFactory = Callable[..., DocumentEncoder]
LABELS = ["rice", "the <b>sea</b>", "clocks"]


@pytest.fixture
def classifier(tiny_encoder: EncoderFactory) -> EncoderFactory:
    """Makes an encoder with a head whose classes are far apart: ``classifier(multi_label=True)``."""

    def make(**settings: object) -> DocumentEncoder:
        encoder = tiny_encoder("bert", **{"labels": LABELS, **settings})
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(2)
            for weight in encoder.model.head.parameters():
                weight.normal_(std=0.4)
        return encoder

    return make


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("readout", READOUTS)
def test_probabilities_are_those_of_the_vectors(
    classifier: EncoderFactory, structured: list[Document], readout: str
) -> None:
    encoder = classifier(readout=readout)
    weight, bias = (value.detach().double().numpy() for value in encoder.model.head.linear.parameters())
    logits = encoder.encode(structured).astype(np.float64) @ weight.T + bias
    predictions = predict(encoder, structured)
    assert [item.id for item in predictions] == ["first", "second", "third"]
    np.testing.assert_allclose(predictions.probabilities, softmax(logits), atol=1e-5)
    assert np.ptp(predictions.probabilities) > 0.1
    assert predictions.labels == [LABELS[number] for number in logits.argmax(1)]
    np.testing.assert_allclose([item.logits for item in predictions], logits, atol=1e-4)
    assert predictions.items[0].labels == (predictions[0].label,)
    assert predictions[0].probability == pytest.approx(predictions[0].probability_of(predictions.labels[0]))


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("readout", READOUTS)
def test_contributions_and_the_bias_add_up_to_the_logit(
    classifier: EncoderFactory, structured: list[Document], readout: str, layers: int
) -> None:
    encoder = classifier(readout=readout, graph_layers=layers, graph_kind="section")
    predictions = predict(encoder, structured)
    for item in predictions:
        (decision,) = item.decisions
        place = LABELS.index(decision.label)
        assert decision.label == item.label
        assert decision.probability == item.probability
        assert decision.logit == item.logits[place]
        assert decision.contributions.shape == (len(item.segmented.passages),)
        bias = encoder.model.head.linear.bias[place].item()
        assert decision.rest == pytest.approx(bias, abs=2e-5)
        order = decision.strongest(None)
        assert sorted(order) == list(range(len(item.segmented.passages)))
        assert list(decision.contributions[order]) == sorted(decision.contributions, reverse=True)
        assert decision.strongest(2) == order[:2]
    assert len(predictions[0].segmented.passages) > 3


class TestSeveralLabels:
    def test_thresholds(self, classifier: EncoderFactory, structured: list[Document]) -> None:
        encoder = classifier(multi_label=True)
        predictions = predict(encoder, structured)
        logits = np.array([item.logits for item in predictions], np.float64)
        np.testing.assert_allclose(predictions.probabilities, 1 / (1 + np.exp(-logits)), atol=1e-6)
        assert predictions.threshold == 0.5
        for threshold in (0.5, 0.2, 0.9):
            found = predict(encoder, structured, threshold=threshold, explain=False)
            expected = [
                tuple(name for name, p in zip(LABELS, row, strict=True) if p >= threshold)
                for row in predictions.probabilities
            ]
            assert found.labels == expected
        assert len({predict(encoder, structured, threshold=t, explain=False)[0].labels for t in (0.01, 0.99)}) == 2

    def test_every_label_is_explained_and_without_one_the_likeliest_class(
        self, classifier: EncoderFactory, structured: list[Document]
    ) -> None:
        encoder = classifier(multi_label=True)
        for item in predict(encoder, structured, threshold=0.001):
            assert tuple(decision.label for decision in item.decisions) == item.labels
            assert len(item.labels) > 1
            assert item.label == max(item.labels, key=item.probability_of)
        for item in predict(encoder, structured, threshold=0.9999):
            assert item.labels == () and item.label is None
            assert [decision.label for decision in item.decisions] == [LABELS[int(item.logits.argmax())]]
            assert "no label" in repr(item)

    @pytest.mark.parametrize("threshold", [0, 1, -0.1, 1.5, float("nan"), True])
    def test_a_threshold_that_is_no_probability(self, classifier: EncoderFactory, threshold: float) -> None:
        with pytest.raises(SettingsError, match="must be a probability above 0 and below 1"):
            predict(classifier(multi_label=True), "Some text.", threshold=threshold)

    def test_a_threshold_on_the_border_is_enough(self) -> None:
        assert given_labels(np.array([0.5, 0.4999], np.float32), ("a", "b"), 0.5) == ("a",)


def test_a_threshold_for_single_labels(classifier: EncoderFactory) -> None:
    with pytest.raises(SettingsError, match="a threshold is for models with several labels, and tiny-bert"):
        predict(classifier(), "Some text.", threshold=0.4)


def test_of_equal_classes_the_first_is_given() -> None:
    assert given_labels(np.array([0.2, 0.4, 0.4], np.float32), ("a", "b", "c"), None) == ("b",)


def test_a_model_without_head(tiny_encoder: EncoderFactory) -> None:
    encoder = tiny_encoder("bert")
    for run in (
        lambda: encoder.predict("Some text."),
        lambda: stream_predictions(encoder, ["Some text."]),
        lambda: explain(encoder, "Some text.", ["a"]),
    ):
        with pytest.raises(ModelError) as caught:
            run()
        assert str(caught.value) == (
            "tiny-bert (untrained graph) has no classification head, so that it cannot predict; give a checkpoint "
            "that has learned labels (graphdoc finetune classify, or graphdoc fit --classes)"
        )


def test_one_document_in_any_form(classifier: EncoderFactory, structured: list[Document]) -> None:
    encoder = classifier()
    expected = encoder.predict([structured[1]])
    for form in (structured[1], structured[1].to_dict(), encoder.segment(structured[1])):
        found = encoder.predict(form)
        assert len(found) == 1
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    with pytest.raises(DocumentError):
        encoder.predict(5)
    with pytest.raises(DocumentError, match="has no text to encode"):
        encoder.predict([structured[0], Document.from_text("\u200b")])
    assert encoder.predict([]).probabilities.shape == (0, 3)


def test_documents_are_asked_for_as_they_are_needed(
    classifier: EncoderFactory, structured: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphdoc.inference.segmenting.WINDOW_PASSAGES", 4)
    monkeypatch.setattr("graphdoc.inference.segmenting.BLOCK_DOCUMENTS", 1)
    asked: list[int] = []

    def documents() -> Iterator[Document]:
        for number in range(6):
            asked.append(number)
            yield replace(structured[number % 2], id=str(number))

    encoder, totals = classifier(), Coverage()
    stream = stream_predictions(encoder, documents(), totals=totals)
    assert asked == []
    first = next(stream)
    assert len(asked) == 1
    rest = list(stream)
    assert len(asked) == 6 == totals.documents
    whole = encoder.predict(structured[:2], explain=False)
    for item in (first, *rest):
        np.testing.assert_allclose(item.probabilities, whole.probabilities[int(item.id) % 2], atol=1e-5)
        assert item.segmented.token_ids == ()
        assert item.segmented.texts[0]


def test_what_is_left_out_is_counted_and_reported(
    classifier: EncoderFactory, structured: list[Document], caplog: pytest.LogCaptureFixture
) -> None:
    encoder = classifier(max_passages=2)
    with caplog.at_level(logging.WARNING):
        predictions = encoder.predict(structured)
    assert "2 of 3 documents were not encoded whole" in caplog.text
    assert predictions.coverage.documents_not_whole == 2
    assert len(predictions[0].decisions[0].contributions) == 2
    assert predictions[0].to_dict()["coverage"] < 1


def test_without_explanations(classifier: EncoderFactory, structured: list[Document]) -> None:
    predictions = classifier().predict(structured, explain=False)
    assert all(item.decisions == () and item.to_dict()["passages"] == [] for item in predictions)


class TestExplain:
    def test_any_classes(self, classifier: EncoderFactory, structured: list[Document]) -> None:
        encoder = classifier()
        prediction = explain(encoder, structured[0], ["clocks", "rice"])
        assert [decision.label for decision in prediction.decisions] == ["clocks", "rice"]
        given = encoder.predict(structured[0])[0]
        assert prediction.labels == given.labels
        both = explain(encoder, structured[0], LABELS).decisions
        (own,) = (decision for decision in both if decision.label == given.label)
        np.testing.assert_allclose(own.contributions, given.decisions[0].contributions, atol=1e-6)
        for decision in both:
            assert decision.logit == pytest.approx(float(given.logits[LABELS.index(decision.label)]), abs=1e-5)

    def test_unknown_classes(self, classifier: EncoderFactory) -> None:
        with pytest.raises(SettingsError, match="label 'x' is unknown to the model; it knows rice, the <b>sea</b>, c"):
            explain(classifier(), "Some text.", ["rice", "x"])


def test_precision(classifier: EncoderFactory, structured: list[Document]) -> None:
    encoder = classifier()
    exact = encoder.predict(structured).probabilities
    rounded = encoder.predict(structured, dtype="bfloat16").probabilities
    assert 0 < np.abs(exact - rounded).max() < 0.1
    with pytest.raises(GraphdocError, match="int4"):
        encoder.predict(structured, dtype="int4")


def test_weights_that_are_no_numbers(classifier: EncoderFactory, structured: list[Document]) -> None:
    encoder = classifier()
    with torch.no_grad():
        encoder.model.head.linear.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="NaN"):
        encoder.predict(structured)


def test_the_model_stays_as_it_was(classifier: EncoderFactory, structured: list[Document]) -> None:
    encoder = classifier(classifier_dropout=0.5)
    encoder.model.train()
    first: Prediction = encoder.predict(structured)[0]
    np.testing.assert_array_equal(first.logits, encoder.predict(structured)[0].logits)
    assert encoder.model.training and encoder.model.head.training
