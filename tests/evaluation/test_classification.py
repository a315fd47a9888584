from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score
from typed import Encoders

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClassificationEvaluator, classification_scores

CLASSES = ["a", "b", "c"]
TEXTS = [" ".join(f"rice{n} tide steam wall koji marsh"[k:] for k in range(4 + n)) + "." for n in range(10)]


def documents(labels: list[Any]) -> list[Document]:
    return [
        Document.from_mapping({"id": f"d{n}", "text": text, "label": label})
        for n, (text, label) in enumerate(zip(TEXTS, labels, strict=True))
    ]


@pytest.fixture(scope="module")
def classifier(tiny_encoder: Encoders) -> Encoders:
    def make(**settings: Any) -> DocumentEncoder:
        encoder = tiny_encoder("bert", readout="mean", labels=CLASSES, **settings)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            # Far apart for texts that are much alike.
            vectors = encoder.encode([document.text for document in documents([None] * 10)], convert_to_tensor=True)
            encoder.model.head.linear.weight.normal_(std=4)
            encoder.model.head.linear.bias.copy_(-encoder.model.head.linear.weight @ vectors.mean(0))
        return encoder

    return make


def test_an_encoder_is_measured_by_its_predictions(classifier: Encoders) -> None:
    truth: list[Any] = list("abcabcabca")
    predictions = classifier().predict(documents(truth))
    assert len(set(predictions.labels)) > 1
    measured = ClassificationEvaluator(documents(truth))(classifier())
    assert set(measured) == {"accuracy", "macro_f1", "calibration_error", "loss"}
    assert measured["accuracy"] == pytest.approx(accuracy_score(truth, predictions.labels))
    # Not scikit-learn's log_loss, which cuts probabilities below the precision of their type.
    p = predictions.probabilities.astype(np.float64)[range(len(truth)), [CLASSES.index(one) for one in truth]]
    assert measured["loss"] == pytest.approx(-np.log(p).mean(), rel=1e-4)
    encoder = classifier(multi_label=True)
    truth = [["a"], [], ["b", "c"], ["a", "b", "c"], ["c"], "a;c", ["b"], [], ["a"], "b"]
    measured = ClassificationEvaluator(documents(truth), multi_label=True, separator=";", threshold=0.3)(encoder)
    predictions = encoder.predict(documents(truth), threshold=0.3)
    sets = [set(labels.split(";")) if isinstance(labels, str) else set(labels) for labels in truth]
    y = np.array([[name in names for name in CLASSES] for names in sets])
    assert measured["micro_f1"] == pytest.approx(f1_score(y, predictions.probabilities >= 0.3, average="micro"))
    p = predictions.probabilities.astype(np.float64)
    assert measured["loss"] == pytest.approx(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)), rel=1e-4)


def test_documents_without_label_are_left_out_and_unknown_labels_count(classifier: Encoders) -> None:
    encoder = classifier()
    truth = ["a", None, "b", "new", ["a", "b"], "c", "", "a", "b", "c"]
    evaluation = ClassificationEvaluator(documents(truth))
    assert evaluation.labelled.without_label == ("d1", "d6")
    assert evaluation.labelled.with_several == ("d4",)
    # Passages can be cut and encoded once.
    for ready in (evaluation.prepared(encoder), evaluation.prepared(encoder, encode_passages=True)):
        assert ready(encoder) == pytest.approx(evaluation(encoder))
    scores = evaluation.score(evaluation.predict(encoder))
    assert (scores.documents, scores.unknown) == (7, {"new": 1})
    assert scores.accuracy_known == pytest.approx(scores.accuracy * 7 / 6)
    # The loss is that of the documents whose labels are known.
    known = [label if label != "new" else None for label in truth]
    assert evaluation(encoder)["loss"] == pytest.approx(ClassificationEvaluator(documents(known))(encoder)["loss"])


def test_mistakes_that_the_model_is_surest_of_come_first(classifier: Encoders) -> None:
    encoder = classifier()
    given = encoder.predict(documents([None] * 10)).labels
    # Right three times, whatever the model says.
    truth = [label if row < 3 else CLASSES[CLASSES.index(label) - 1] for row, label in enumerate(given)]
    truth[4] = "x"
    evaluation = ClassificationEvaluator(documents(truth))
    predictions = evaluation.predict(encoder)
    confidence, mistakes = predictions.probabilities.max(axis=1), evaluation.mistakes(predictions)
    rows = [int(mistake["id"][1:]) for mistake in mistakes]
    assert rows == sorted(range(3, 10), key=lambda row: -confidence[row])
    for row, mistake in zip(rows, mistakes, strict=True):
        assert (mistake["truth"], mistake["predicted"]) == ([truth[row]], [given[row]])
        assert mistake["confidence"] == pytest.approx(confidence[row]) and not mistake["missed"]
    encoder = classifier(multi_label=True)
    evaluation = ClassificationEvaluator(documents([["a", "b", "c", "x"]] * 10), multi_label=True)
    predictions = evaluation.predict(encoder)
    mistakes = evaluation.mistakes(predictions)
    assert len(mistakes) == (predictions.probabilities < 0.5).sum()
    for mistake in mistakes:
        assert mistake["missed"] and mistake["label"] not in mistake["predicted"]
        probability = predictions.probabilities[int(mistake["id"][1:]), CLASSES.index(mistake["label"])]
        assert mistake["confidence"] == pytest.approx(1 - probability, abs=1e-6)


def each(labels: Any) -> list[tuple[str, ...]]:
    return [(name,) for name in labels]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abcx"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_scores_of_single_labels_as_scikit_learn_has_them(pairs: list[tuple[str, str]]) -> None:
    truth, found = zip(*pairs, strict=True)
    scores = classification_scores(each(truth), each(found), CLASSES)
    assert scores.accuracy == pytest.approx(accuracy_score(truth, found))
    assert scores.macro_f1 == pytest.approx(f1_score(truth, found, average="macro", zero_division=0.0))
    assert scores.micro_f1 == pytest.approx(f1_score(truth, found, average="micro"))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc"))), min_size=1))
def test_scores_of_several_labels_as_scikit_learn_has_them(pairs: list[tuple[set[str], set[str]]]) -> None:
    truth, found = zip(*((tuple(sorted(a)), tuple(sorted(b))) for a, b in pairs), strict=True)
    matrices = [np.array([[name in own for name in CLASSES] for own in labels]) for labels in (truth, found)]
    scores = classification_scores(truth, found, CLASSES, multi_label=True)
    assert scores.accuracy == pytest.approx(accuracy_score(*matrices))
    assert scores.micro_f1 == pytest.approx(f1_score(*matrices, average="micro", zero_division=0.0))
    occurs = matrices[0].any(0) | matrices[1].any(0)
    expected = f1_score(*matrices, average=None, zero_division=0.0)[occurs]
    assert scores.macro_f1 == pytest.approx(expected.mean() if occurs.any() else 0)


def test_labels_that_the_model_does_not_know_count_as_missed() -> None:
    scores = classification_scores(each("aaxyx"), each("aabab"), CLASSES)
    assert (scores.unknown, scores.accuracy_known) == ({"x": 2, "y": 1}, 1)
    assert scores.accuracy == pytest.approx(2 / 5) and scores.macro_f1 == pytest.approx(0.8 / 4)
    assert [c.label for c in scores.classes] == ["a", "b", "c", "x", "y"]
    assert scores.confusion is not None
    assert scores.confusion.tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 0], [0, 2, 0], [1, 0, 0]]
    assert classification_scores(each("x"), each("a"), CLASSES).accuracy_known is None


def test_calibration_by_the_class_that_is_given_or_by_all_decisions() -> None:
    probabilities = np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.5, 0.3, 0.2]], np.float32)
    single = classification_scores(each("aax"), each("aba"), CLASSES, probabilities)
    # At 0.9 one of two is right, at 0.5 none of one.
    assert single.metrics()["calibration_error"] == pytest.approx((2 * 0.4 + 0.5) / 3, abs=1e-6)
    probabilities = np.array([[0.8, 0.2, 0.2]] * 3 + [[0.8, 0.8, 0.2]])
    truth, found = (("a",), ("a", "b"), (), ("b", "x")), (("a",), ("a",), ("c",), ("b",))
    several = classification_scores(truth, found, CLASSES, probabilities, multi_label=True)
    # At 0.8 three of five are so: a, a, not a, not a, b; at 0.2 one of seven: b.
    assert several.metrics()["calibration_error"] == pytest.approx((5 * abs(0.8 - 3 / 5) + 7 * abs(0.2 - 1 / 7)) / 12)
