from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import EvaluationError, ModelError
from graphdoc.evaluation import ClassificationEvaluator

EncoderFactory = Callable[..., DocumentEncoder]
CLASSES = ["a", "b", "c"]
TEXTS = [" ".join(f"rice{n} tide steam wall koji marsh"[k:] for k in range(4 + n)) + "." for n in range(10)]


def documents(labels: list[Any]) -> list[Document]:
    return [
        Document.from_mapping({"id": f"d{n}", "text": text, "label": label})
        for n, (text, label) in enumerate(zip(TEXTS, labels, strict=True))
    ]


@pytest.fixture(scope="module")
def classifier(tiny_encoder: EncoderFactory) -> EncoderFactory:
    def make(**settings: Any) -> DocumentEncoder:
        encoder = tiny_encoder("bert", readout="mean", labels=CLASSES, **settings)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            # Far apart for texts that are much alike.
            vectors = encoder.encode([document.text for document in documents([None] * 10)], output="torch")
            encoder.model.head.linear.weight.normal_(std=4)
            encoder.model.head.linear.bias.copy_(-encoder.model.head.linear.weight @ vectors.mean(0))
        return encoder

    return make


def test_single_labels(classifier: EncoderFactory) -> None:
    encoder = classifier()
    truth = list("abcabcabca")
    predictions = encoder.predict(documents(truth))
    assert len(set(predictions.labels)) > 1
    measured = ClassificationEvaluator(documents(truth))(encoder)
    assert set(measured) == {"accuracy", "macro_f1", "calibration_error", "loss"}
    assert measured["accuracy"] == pytest.approx(accuracy_score(truth, predictions.labels))
    assert measured["macro_f1"] == pytest.approx(f1_score(truth, predictions.labels, average="macro"))
    # Not scikit-learn's log_loss, which cuts probabilities below the precision of their type.
    p = predictions.probabilities.astype(np.float64)[range(len(truth)), [CLASSES.index(one) for one in truth]]
    assert measured["loss"] == pytest.approx(-np.log(p).mean(), rel=1e-4)


def test_several_labels(classifier: EncoderFactory) -> None:
    encoder = classifier(multi_label=True)
    truth = [["a"], [], ["b", "c"], ["a", "b", "c"], ["c"], "a;c", ["b"], [], ["a"], "b"]
    evaluation = ClassificationEvaluator(documents(truth), multi_label=True, separator=";", threshold=0.3)
    measured = evaluation(encoder)
    predictions = encoder.predict(documents(truth), threshold=0.3)
    sets = [set(one.split(";")) if isinstance(one, str) else set(one) for one in truth]
    y = np.array([[name in own for name in CLASSES] for own in sets])
    found = predictions.probabilities >= 0.3
    assert measured["accuracy"] == pytest.approx(accuracy_score(y, found))
    assert measured["micro_f1"] == pytest.approx(f1_score(y, found, average="micro"))
    assert measured["macro_f1"] == pytest.approx(f1_score(y, found, average="macro"))
    p = predictions.probabilities.astype(np.float64)
    assert measured["loss"] == pytest.approx(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)), rel=1e-4)


def test_documents_without_label_are_left_out_and_unknown_labels_count(classifier: EncoderFactory) -> None:
    encoder = classifier()
    truth = ["a", None, "b", "new", ["a", "b"], "c", "", "a", "b", "c"]
    evaluation = ClassificationEvaluator(documents(truth))
    assert evaluation.labelled.without_label == ("d1", "d6")
    assert evaluation.labelled.with_several == ("d4",)
    scores = evaluation.score(evaluation.predict(encoder))
    assert (scores.documents, scores.unknown) == (7, {"new": 1})
    assert scores.accuracy_known == pytest.approx(scores.accuracy * 7 / 6)
    # The loss is that of the documents whose labels are known.
    known = [label if label != "new" else None for label in truth]
    assert evaluation(encoder)["loss"] == pytest.approx(ClassificationEvaluator(documents(known))(encoder)["loss"])


def test_documents_can_be_cut_once(classifier: EncoderFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = classifier()
    evaluation = ClassificationEvaluator(documents([*"abcabcabc", None]))
    expected = evaluation(encoder)
    ready = evaluation.prepared(encoder)
    encoded = evaluation.prepared(encoder, encode_passages=True)
    monkeypatch.setattr(type(encoder.segmenter), "segment", None)
    assert ready(encoder) == pytest.approx(expected)
    monkeypatch.setattr(encoder.model.passage_encoder, "tokens", None)
    assert encoded(encoder) == pytest.approx(expected)
    assert encoded.mistakes(encoder, encoded.predict(encoder))
    with pytest.raises(TypeError):
        ready(encoder)


class TestMistakes:
    def test_those_that_the_model_is_most_sure_of_come_first(self, classifier: EncoderFactory) -> None:
        encoder = classifier()
        given = encoder.predict(documents([None] * 10)).labels
        # Right three times, whatever the model says.
        truth = [label if row < 3 else CLASSES[CLASSES.index(label) - 1] for row, label in enumerate(given)]
        truth[4] = "x"
        evaluation = ClassificationEvaluator(documents(truth))
        predictions = evaluation.predict(encoder)
        labels, confidence = [label for (label,) in predictions.labels], predictions.probabilities.max(axis=1)
        found = evaluation.mistakes(encoder, predictions, most=4)
        wrong = [row for row, label in enumerate(labels) if label != truth[row]]
        assert wrong == list(range(3, 10))
        ranked = sorted(wrong, key=lambda row: -confidence[row])
        assert [int(one.prediction.id[1:]) for one in found] == ranked[:4]
        assert 4 in [int(one.prediction.id[1:]) for one in evaluation.mistakes(encoder, predictions, most=10)]
        for one in evaluation.mistakes(encoder, predictions, most=10):
            row = int(one.prediction.id[1:])
            assert one.prediction.id == f"d{row}"
            explained = [decision.label for decision in one.prediction.decisions]
            assert explained == [labels[row]] + [truth[row]] * (truth[row] != "x")
            content = one.to_dict(2)
            assert (content["truth"], content["given"]) == ([truth[row]], [labels[row]])
            assert content["confidence"] == pytest.approx(confidence[row], abs=1e-5)
            assert len(content["passages"]) == min(2, len(one.prediction.segmented.passages))
            parts = [passage["contributions"][explained[0]] for passage in content["passages"]]
            assert parts == sorted(parts, reverse=True)
            assert all(list(passage["contributions"]) == explained for passage in content["passages"])

    def test_classes_that_are_missed(self, classifier: EncoderFactory) -> None:
        encoder = classifier(multi_label=True)
        evaluation = ClassificationEvaluator(documents([["a", "b", "c", "x"]] * 10), multi_label=True)
        predictions = evaluation.predict(encoder)
        found = evaluation.mistakes(encoder, predictions, most=3)
        assert len(found) == 3
        for one in found:
            assert one.missed and one.label not in one.prediction.labels
            assert one.prediction.decisions[0].label == one.label
            assert one.confidence == pytest.approx(1 - one.prediction.decisions[0].probability, abs=1e-5)


def test_what_cannot_be_measured(classifier: EncoderFactory, tiny_encoder: EncoderFactory) -> None:
    with pytest.raises(EvaluationError, match=r"9 .* 1 "):
        ClassificationEvaluator(documents([None] * 9 + [["a", "b"]]))
    evaluation = ClassificationEvaluator(documents(["a"] * 10))
    with pytest.raises(ModelError, match="classification head"):
        evaluation(tiny_encoder("bert"))
    with pytest.raises(EvaluationError, match=r"several labels.* one"):
        evaluation(classifier(multi_label=True))
    with pytest.raises(EvaluationError, match=r"a, b, c.* x"):
        ClassificationEvaluator(documents(["x"] * 10))(classifier())
