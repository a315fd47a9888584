"""Measures of predicted classes beside labels: accuracy, F1, confusion, calibration, and the surest mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import confusion_matrix
from sklearn.preprocessing import MultiLabelBinarizer
from torch.nn import functional

from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..inference.segmenting import ManyDocuments
from ..prediction import stream_predictions
from ..prediction.predicting import classes_of, given_labels, probabilities_of, threshold_of
from ..runtime.arrays import Vectors
from ..runtime.processes import Processes
from ..runtime.text import require_one_of
from ..segmentation.spans import Coverage
from .evaluator import Evaluator, measured_once
from .labels import LabelledDocuments, ReadyDocument, first_three_names, ordered_classes, plain_document

BINS = 15
METRICS = ("accuracy", "macro_f1", "micro_f1", "calibration_error", "loss")

Labels = Sequence[tuple[str, ...]]


class ClassScores(NamedTuple):
    """Measures of one class; a share of no documents is 0."""

    label: str
    precision: float
    recall: float
    f1: float
    documents: int
    """how many have it"""
    predicted: int
    """how many get it"""


@dataclass(frozen=True)
class ClassificationScores:
    """Measures of predicted classes beside the labels of documents.

    A label that the model does not know cannot be found, and counts as missed in everything but ``accuracy_known``.

    Args:
        documents: documents that were measured.
        accuracy: share of documents that get their label; with several labels, all of theirs and no other.
        macro_f1: F1 of every class, averaged over the classes that a document has or gets.
        micro_f1: F1 over all decisions; with one label the same as accuracy.
        accuracy_known: accuracy over the documents all of whose labels the model knows; None if there is none.
        classes: scores of every class that the model knows, then of those that it does not.
        unknown: documents of every class that the model does not know.
        confusion: ``(classes + unknown, classes)``, documents by class and the one they get; None with several labels.
        calibration_error: see :func:`calibration_error`, of the class that is given, or with several labels of all
            decisions, one per document and class; None for a model without probabilities.
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
    calibration_error: float | None
    multi_label: bool = False

    def metrics(self) -> dict[str, float]:
        """All numbers in one flat table, for trackers."""
        result = {"accuracy": self.accuracy, "macro_f1": self.macro_f1}
        if self.multi_label:
            result["micro_f1"] = self.micro_f1
        if self.calibration_error is not None:
            result["calibration_error"] = self.calibration_error
        return result

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        confusion = None if self.confusion is None else self.confusion.tolist()
        return {**vars(self), "classes": [scores._asdict() for scores in self.classes], "confusion": confusion}


def classification_scores(
    truth: Labels,
    predicted: Labels,
    classes: Sequence[str],
    probabilities: npt.NDArray[Any] | None = None,
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
    error = None
    if probabilities is not None and multi_label:
        error = calibration_error(probabilities.ravel(), expected[:, : len(classes)].ravel())
    elif probabilities is not None:
        error = calibration_error(probabilities.max(axis=1), (expected & actual).any(axis=1))
    columns = (column.tolist() for column in (precision, recall, f1, has, gets))
    return ClassificationScores(
        documents=len(truth), accuracy=float(right.mean()),
        macro_f1=float(f1[has + gets > 0].mean()) if (has + gets).any() else 0.0,
        micro_f1=float(2 * both.sum() / max(1, (has + gets).sum())),
        accuracy_known=float(right[is_known].mean()) if is_known.any() else None,
        classes=tuple(ClassScores(name, *values) for name, *values in zip(names, *columns, strict=True)),
        unknown={name: int(count) for name, count in zip(names[len(classes) :], has[len(classes) :], strict=True)},
        confusion=confusion, calibration_error=error, multi_label=multi_label,
    )  # fmt: skip


def calibration_error(probabilities: npt.NDArray[Any], right: npt.NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error (Guo et al. 2017, "On Calibration of Modern Neural Networks").

    Predictions, ``(predictions,)``, are sorted into bins of equal width, which include their upper edge, and the first
    its lower one. It is the mean over predictions of the gap of mean probability and share of right ones in their bin.
    """
    # Values that rounding brought just beyond 0 and 1 are probabilities all the same.
    wrong = ~((probabilities >= -1e-6) & (probabilities <= 1 + 1e-6))
    if wrong.any():
        raise EvaluationError(f"{int(wrong.sum()):,} of {wrong.size:,} probabilities are no numbers from 0 to 1")
    bin_of = np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)
    sums = (np.bincount(bin_of, weights=values, minlength=bins) for values in (probabilities, right))
    return float(np.abs(np.subtract(*sums)).sum() / max(len(probabilities), 1))


@dataclass(frozen=True)
class PredictedLabels:
    """Predictions of a model for the documents of an evaluator; see :func:`threshold_of` for the threshold."""

    logits: Vectors  # (documents, classes)
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


class ClassificationEvaluator(Evaluator):
    """Labelled documents that models with a head are measured on.

    Args:
        documents: the documents, segmented or not; those without a label, or with several where one is wanted, are
            left out (see :class:`LabelledDocuments`).
        multi_label: whether a document can have any number of classes.
        separator: what stands between the labels of a string that holds several.
        threshold: probability from which on a document gets a class, for models with several labels; None for 0.5.
        dtype: precision that the transformer computes in; None is that of its weights.
        primary_metric: name of the number by which models are ranked.
    """

    def __init__(
        self,
        documents: ManyDocuments,
        *,
        multi_label: bool = False,
        separator: str | None = None,
        threshold: float | None = None,
        dtype: Precision | None = None,
        primary_metric: str = "accuracy",
    ) -> None:
        require_one_of("primary_metric", primary_metric, [one for one in METRICS if multi_label or one != "micro_f1"])
        self.labelled = LabelledDocuments.from_documents(documents, multi_label=multi_label, separator=separator)
        self.multi_label, self.threshold = multi_label, threshold
        self.dtype, self.primary_metric = dtype, primary_metric
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
        predicted = self.predict(encoder, processes, show_progress_bar=False)
        return measured_once(processes, lambda: {**self.score(predicted).metrics(), **self._loss(predicted)})

    def predict(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        totals: Coverage | None = None,
        show_progress_bar: bool | None = None,
    ) -> PredictedLabels:
        """Predict the classes of all documents that have labels, without explanations (see :meth:`Evaluator.encode`).

        Raises:
            ModelError: the model has no head.
            EvaluationError: model and documents have no labels in common, or one has several labels and the other one.
        """
        classes = classes_of(encoder)
        if encoder.model.config.multi_label != self.multi_label:
            gives, wanted = ("several labels", "one") if encoder.model.config.multi_label else ("one label", "several")
            raise EvaluationError(f"{encoder.name} gives a document {gives}, and is measured as giving {wanted}")
        there = self.labelled.classes
        if there and not set(there) & set(classes):
            raise EvaluationError(
                f"no document has a label that the model knows: it knows {first_three_names(classes)}, documents have "
                f"{first_three_names(there)}"
            )

        def compute(documents: Sequence[ReadyDocument], coverage: Coverage) -> list[Vectors]:
            options: Any = {"dtype": self.dtype, "totals": coverage, "show_progress_bar": show_progress_bar}
            predictions = stream_predictions(encoder, documents, threshold=self.threshold, explain=False, **options)
            return [np.asarray(prediction.logits, np.float32) for prediction in predictions]

        rows: list[Vectors] = self.in_shares(compute, processes, totals)
        return PredictedLabels(np.stack(rows), classes, self.multi_label, threshold_of(encoder, self.threshold))

    def score(self, predicted: PredictedLabels) -> ClassificationScores:
        """Measure what :meth:`predict` gave."""
        given = (self.labelled.labels, predicted.labels, predicted.classes, predicted.probabilities)
        return classification_scores(*given, multi_label=self.multi_label)

    def mistakes(self, predicted: PredictedLabels) -> list[dict[str, Any]]:
        """The mistakes, those that the model is surest of first.

        With several labels every class that a document wrongly gets or misses is a mistake, otherwise every document
        that gets another class than its label.

        Returns:
            For each the ``id`` of the document, the ``label`` in question, whether it is ``missed``, the
            ``confidence`` (the probability of the class, or what it lacks to 1 where it is missed), and the labels
            that the document has (``truth``) and gets (``predicted``).
        """
        mistakes = []
        rows = zip(self.documents, self.labelled.labels, predicted.labels, predicted.probabilities, strict=True)
        for document, truth, given, probabilities in rows:
            for label, probability in zip(predicted.classes, probabilities.tolist(), strict=True):
                missed = self.multi_label and label in truth and label not in given
                if missed or (label in given and label not in truth):
                    mistake = {"id": plain_document(document).id, "label": label, "missed": missed}
                    mistake["confidence"] = 1 - probability if missed else probability
                    mistakes.append({**mistake, "truth": list(truth), "predicted": list(given)})
        return sorted(mistakes, key=lambda mistake: -mistake["confidence"])

    def _loss(self, predicted: PredictedLabels) -> dict[str, float]:
        """Mean cross entropy of the documents whose labels are all known; empty if there are none."""
        labels = self.labelled.labels
        rows = [row for row, names in enumerate(labels) if set(names) <= set(predicted.classes)]
        if not rows:
            return {}
        known = replace(self.labelled, documents=(), labels=tuple(labels[row] for row in rows))
        targets = torch.from_numpy(known.targets(predicted.classes))
        cross_entropy = functional.binary_cross_entropy_with_logits if self.multi_label else functional.cross_entropy
        return {"loss": float(cross_entropy(torch.from_numpy(predicted.logits[rows]), targets))}
