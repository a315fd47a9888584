"""How well predicted classes fit labels: accuracy, F1, confusion, calibration, and mistakes with their passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import confusion_matrix
from sklearn.preprocessing import MultiLabelBinarizer
from torch.nn import functional

from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..prediction import Prediction, explain, stream_predictions
from ..prediction.predicting import classes_of, given_labels, probabilities_of, threshold_of
from ..runtime.processes import Processes
from ..segmentation.spans import Coverage
from .evaluator import Evaluator, Vectors, measured_once
from .labels import LabelledDocuments, ReadyDocument, named, ordered_classes

BINS = 15

Floats = npt.NDArray[Any]
Labels = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ClassScores:
    """How well one class is found.

    Args:
        label: the class.
        precision: share of the documents that get it which have it; 0 where none gets it.
        recall: share of the documents that have it which get it; 0 where none has it.
        f1: harmonic mean of both.
        documents: number of documents that have it.
        given: number of documents that get it.
    """

    label: str
    precision: float
    recall: float
    f1: float
    documents: int
    given: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often predictions of a probability are right (Guo et al. 2017, "On Calibration of Modern Neural Networks").

    A bin holds probabilities above its lower edge up to and including its upper one; the first holds 0 as well. With
    one label the probability is that of the class that is given, and right is whether the document has it. With
    several all decisions, one per document and class, go by the probability of the class, and right is whether the
    document has it.

    Args:
        counts: ``(bins,)``, predictions in every bin.
        confidences: ``(bins,)``, mean of their probabilities; 0 for an empty bin.
        accuracies: ``(bins,)``, share of them that is right; 0 for an empty bin.
    """

    counts: tuple[int, ...]
    confidences: tuple[float, ...]
    accuracies: tuple[float, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean over predictions of what confidence and accuracy of their bin differ by."""
        counts, gaps = np.array(self.counts), np.abs(np.subtract(self.confidences, self.accuracies))
        return float(counts @ gaps / max(counts.sum(), 1))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {"error": self.error, **{name: list(values) for name, values in asdict(self).items()}}


@dataclass(frozen=True)
class ClassificationScores:
    """How well predicted classes fit the labels of documents.

    A label that the model does not know cannot be found, and counts as missed in everything but ``accuracy_known``.

    Args:
        documents: documents that were measured.
        accuracy: share of documents that get their label; with several labels, all of theirs and no other.
        macro_f1: F1 of every class, averaged over the classes that a document has or gets.
        micro_f1: F1 over all decisions; with one label the same as accuracy.
        accuracy_known: accuracy over the documents all of whose labels the model knows; None if there is none.
        classes: scores of every class that the model knows, then of those that it does not.
        unknown: documents of every class that the model does not know.
        confusion: ``(classes + unknown, classes)``, documents of every class by the class they get; None with several
            labels.
        calibration: how often probabilities are right; None for a model without probabilities.
        multi_label: whether a document can have any number of classes.
    """

    documents: int
    accuracy: float
    macro_f1: float
    micro_f1: float
    accuracy_known: float | None
    classes: tuple[ClassScores, ...]
    unknown: Mapping[str, int]
    confusion: npt.NDArray[np.int64] | None
    calibration: Calibration | None
    multi_label: bool = False

    def metrics(self) -> dict[str, float]:
        """What was measured as one flat table, as trackers take it."""
        result = {"accuracy": self.accuracy, "macro_f1": self.macro_f1}
        if self.multi_label:
            result["micro_f1"] = self.micro_f1
        if self.calibration is not None:
            result["calibration_error"] = self.calibration.error
        return result

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            "documents": self.documents,
            "multi_label": self.multi_label,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "micro_f1": self.micro_f1,
            "accuracy_known": self.accuracy_known,
            "unknown_labels": dict(self.unknown),
            "classes": [asdict(scores) for scores in self.classes],
            "confusion": None if self.confusion is None else self.confusion.tolist(),
            "calibration": self.calibration and self.calibration.to_dict(),
        }


def classification_scores(
    truth: Labels,
    predicted: Labels,
    classes: Sequence[str],
    probabilities: Floats | None = None,
    *,
    multi_label: bool = False,
) -> ClassificationScores:
    """Hold predicted classes against labels.

    Args:
        truth: labels of every document, ``(documents,)``; exactly one each unless ``multi_label``.
        predicted: the classes that every document gets, ``(documents,)``.
        classes: names of the classes that the model knows.
        probabilities: ``(documents, classes)``; None for a model that gives none.
        multi_label: whether a document can have any number of classes.

    Raises:
        EvaluationError: there is no document, or a probability is no number from 0 to 1.

    >>> scores = classification_scores([["a"], ["b"], ["b"]], [["a"], ["b"], ["a"]], ["a", "b"])
    >>> round(scores.accuracy, 3)
    0.667
    """
    if not truth:
        raise EvaluationError("there are no documents with labels to measure predictions on; give at least one")
    names = [*classes, *ordered_classes({name for names in truth for name in names} - set(classes))]
    binarizer = MultiLabelBinarizer(classes=names)
    expected, actual = (binarizer.fit_transform(labels).astype(np.bool_) for labels in (truth, predicted))
    # Not by scikit-learn, which takes a single column of several labels for two classes.
    has, gets, both = (part.sum(axis=0) for part in (expected, actual, expected & actual))
    precision, recall, f1 = both / np.maximum(gets, 1), both / np.maximum(has, 1), 2 * both / np.maximum(has + gets, 1)
    right = (expected == actual).all(axis=1)
    is_known = ~expected[:, len(classes) :].any(axis=1)
    confusion = None
    if not multi_label:
        square = confusion_matrix([name for (name,) in truth], [name for (name,) in predicted], labels=names)
        confusion = square[:, : len(classes)].astype(np.int64)
    measured = None
    if probabilities is not None and multi_label:
        measured = calibration(probabilities.ravel(), expected[:, : len(classes)].ravel())
    elif probabilities is not None:
        measured = calibration(probabilities.max(axis=1), (expected & actual).any(axis=1))
    columns = (column.tolist() for column in (precision, recall, f1, has, gets))
    return ClassificationScores(
        documents=len(truth),
        accuracy=float(right.mean()),
        macro_f1=float(f1[has + gets > 0].mean()) if (has + gets).any() else 0.0,
        micro_f1=float(2 * both.sum() / max(1, (has + gets).sum())),
        accuracy_known=float(right[is_known].mean()) if is_known.any() else None,
        classes=tuple(ClassScores(name, *values) for name, *values in zip(names, *columns, strict=True)),
        unknown={name: int(count) for name, count in zip(names[len(classes) :], has[len(classes) :], strict=True)},
        confusion=confusion,
        calibration=measured,
        multi_label=multi_label,
    )


def calibration(probabilities: Floats, right: npt.NDArray[np.bool_], bins: int = BINS) -> Calibration:
    """Sort predictions, ``(predictions,)``, into bins of equal width by their probability.

    Raises:
        EvaluationError: a probability is no number from 0 to 1.
    """
    # Values that rounding brought just beyond 0 and 1 are probabilities all the same.
    wrong = ~((probabilities >= -1e-6) & (probabilities <= 1 + 1e-6))
    if wrong.any():
        raise EvaluationError(f"{int(wrong.sum()):,} of {wrong.size:,} probabilities are no numbers from 0 to 1")
    bin_of = np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    sums = (np.bincount(bin_of, weights=values, minlength=bins) for values in (probabilities, right))
    confidences, accuracies = (np.divide(total, np.maximum(counts, 1)) for total in sums)
    return Calibration(tuple(counts.tolist()), tuple(confidences.tolist()), tuple(accuracies.tolist()))


@dataclass(frozen=True)
class PredictedLabels:
    """What a model predicts for the documents of an evaluator.

    Args:
        logits: ``(documents, classes)``.
        classes: names of the classes.
        multi_label: whether a document can have any number of classes.
        threshold: probability from which on a document gets a class; None where it gets the most likely one.
    """

    logits: Vectors
    classes: tuple[str, ...]
    multi_label: bool
    threshold: float | None

    @cached_property
    def probabilities(self) -> Vectors:
        """Probabilities of the classes, ``(documents, classes)``."""
        return probabilities_of(torch.from_numpy(self.logits), self.multi_label)

    @cached_property
    def labels(self) -> list[tuple[str, ...]]:
        """The classes that every document gets, ``(documents,)``."""
        return [given_labels(row, self.classes, self.threshold) for row in self.probabilities]


@dataclass(frozen=True)
class Mistake:
    """A class that a document gets and does not have, or has and does not get, with the passages behind it.

    Args:
        label: the class; with one label always the one that the document gets.
        confidence: how sure the model is: the class's probability, or what is missing from it to 1 where it is missed.
        missed: whether the document has the class and does not get it.
        truth: the document's labels.
        prediction: what the model says of the document, with decisions for this class first and then for the
            document's labels that the model knows.
    """

    label: str
    confidence: float
    missed: bool
    truth: tuple[str, ...]
    prediction: Prediction

    def to_dict(self, passages: int) -> dict[str, Any]:
        """Everything as plain values for JSON, with so many passages that speak most for the class of the mistake."""
        prediction, decisions = self.prediction, self.prediction.decisions
        return {
            "id": prediction.id,
            "title": prediction.document.title,
            "label": self.label,
            "missed": self.missed,
            "confidence": round(self.confidence, 6),
            "truth": list(self.truth),
            "given": list(prediction.labels),
            "probabilities": {decision.label: round(decision.probability, 6) for decision in decisions},
            "coverage": round(prediction.segmented.coverage.share, 6),
            "passages": [
                {
                    **prediction.passage(row),
                    "contributions": {
                        decision.label: round(float(decision.contributions[row]), 6) for decision in decisions
                    },
                }
                for row in decisions[0].strongest(passages)
            ],
        }


class ClassificationEvaluator(Evaluator):
    """Labelled documents that models with a head are measured on.

    Args:
        documents: the documents, segmented or not; those without a label, or with several where one is wanted, are
            left out (see :class:`LabelledDocuments`).
        multi_label: whether a document can have any number of classes.
        separator: what stands between the labels of a string that holds several.
        threshold: probability from which on a document gets a class, for models with several labels; None for 0.5.
        dtype: precision that the transformer computes in; None is that of its weights.
        best: name of the number by which models are ranked.

    Raises:
        EvaluationError: no document has a label.
    """

    task = "classify"

    def __init__(
        self,
        documents: Sequence[ReadyDocument],
        *,
        multi_label: bool = False,
        separator: str | None = None,
        threshold: float | None = None,
        dtype: Precision | None = None,
        best: str = "accuracy",
    ) -> None:
        self.labelled = LabelledDocuments.of(documents, multi_label=multi_label, separator=separator)
        self.multi_label, self.threshold, self.dtype, self.best = multi_label, threshold, dtype, best
        self.documents: Sequence[ReadyDocument] = self.labelled.documents
        if not self.documents:
            without, several = len(self.labelled.without_label), len(self.labelled.with_several)
            raise EvaluationError(
                f"no document to be measured has {'labels' if multi_label else 'one label'} ({without:,} have none, "
                f"{several:,} several); name its column (--column label=NAME), or take folders for labels "
                "(--label-from folder)"
            )

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder (see :meth:`Evaluator.__call__`).

        Returns:
            ``accuracy``, ``macro_f1`` (with several labels ``micro_f1`` as well), ``calibration_error``, and ``loss``,
            the mean cross entropy of documents all of whose labels the model knows, without class weights.
        """
        predicted = self.predict(encoder, processes, show_progress=False)
        return measured_once(processes, lambda: {**self.score(predicted).metrics(), **self._loss(predicted)})

    def predict(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        totals: Coverage | None = None,
        show_progress: bool | None = None,
    ) -> PredictedLabels:
        """Predict the classes of all documents that have labels, without explanations (see :meth:`Evaluator.encode`).

        Raises:
            ModelError: the model has no head.
            EvaluationError: the model gives one label and several are expected or the other way round, or it knows
                none of the documents' labels.
            DocumentError: a document has no text to encode.
        """
        classes = classes_of(encoder)
        if encoder.model.config.multi_label != self.multi_label:
            gives, wanted = ("several labels", "one") if encoder.model.config.multi_label else ("one label", "several")
            raise EvaluationError(f"{encoder.name} gives a document {gives}, and is measured as giving {wanted}")
        there = self.labelled.classes
        if there and not set(there) & set(classes):
            raise EvaluationError(
                f"no document has a label that the model knows: it knows {named(classes)}, documents have "
                f"{named(there)}"
            )

        def compute(documents: Sequence[ReadyDocument], coverage: Coverage) -> list[Vectors]:
            options: Any = {"dtype": self.dtype, "totals": coverage, "show_progress": show_progress}
            predictions = stream_predictions(encoder, documents, threshold=self.threshold, explain=False, **options)
            return [np.asarray(prediction.logits, np.float32) for prediction in predictions]

        rows: list[Vectors] = self.in_shares(compute, processes, totals)
        return PredictedLabels(np.stack(rows), classes, self.multi_label, threshold_of(encoder, self.threshold))

    def score(self, predicted: PredictedLabels) -> ClassificationScores:
        """Measure what :meth:`predict` gave."""
        return classification_scores(
            self.labelled.labels,
            predicted.labels,
            predicted.classes,
            predicted.probabilities,
            multi_label=self.multi_label,
        )

    def mistakes(self, encoder: DocumentEncoder, predicted: PredictedLabels, most: int = 20) -> list[Mistake]:
        """The mistakes that the model is most sure of, with the passages behind them.

        With several labels every class that a document wrongly gets or misses is a mistake, otherwise every document
        that gets another class than its label. Their documents are encoded once more.
        """
        columns = {name: column for column, name in enumerate(predicted.classes)}
        wrong: list[tuple[float, int, str, bool]] = []
        for row, (has, gets) in enumerate(zip(self.labelled.labels, predicted.labels, strict=True)):
            sure = {name: float(predicted.probabilities[row, column]) for name, column in columns.items()}
            wrong += [(sure[name], row, name, False) for name in gets if name not in has]
            if self.multi_label:
                wrong += [(1.0 - sure[name], row, name, True) for name in has if name not in gets and name in sure]
        wrong.sort(key=lambda mistake: -mistake[0])
        mistakes = []
        for confidence, row, label, missed in wrong[:most]:
            truth = self.labelled.labels[row]
            explained = list(dict.fromkeys([label, *(name for name in truth if name in columns)]))
            # What they leave out was reported when they were predicted.
            options: Any = {"threshold": self.threshold, "dtype": self.dtype, "totals": Coverage()}
            prediction = explain(encoder, self.documents[row], explained, **options)
            mistakes.append(Mistake(label, confidence, missed, truth, prediction))
        return mistakes

    def _loss(self, predicted: PredictedLabels) -> dict[str, float]:
        """Mean cross entropy of the documents all of whose labels are known; nothing if there is none."""
        labels = self.labelled.labels
        rows = [row for row, names in enumerate(labels) if set(names) <= set(predicted.classes)]
        if not rows:
            return {}
        known = replace(self.labelled, documents=(), labels=tuple(labels[row] for row in rows))
        targets = torch.from_numpy(known.targets(predicted.classes))
        cross_entropy = functional.binary_cross_entropy_with_logits if self.multi_label else functional.cross_entropy
        return {"loss": float(cross_entropy(torch.from_numpy(predicted.logits[rows]), targets))}
