"""How well predicted classes fit labels: accuracy, F1, a table by class, confusion, calibration, and mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix

from ..errors import EvaluationError
from .labels import named, ordered_classes

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
        documents: documents that have it.
        given: documents that get it.
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
    given: Labels,
    classes: Sequence[str],
    probabilities: Floats | None = None,
    *,
    multi_label: bool = False,
) -> ClassificationScores:
    """Hold predicted classes against labels.

    Args:
        truth: labels of every document, ``(documents,)``; exactly one each unless ``multi_label``.
        given: the classes that every document gets, ``(documents,)``.
        classes: names of the classes that the model knows.
        probabilities: ``(documents, classes)``; None for a model that gives none.
        multi_label: whether a document can have any number of classes.

    Raises:
        EvaluationError: there is no document, or what is given does not fit together.

    >>> scores = classification_scores([["a"], ["b"], ["b"]], [["a"], ["b"], ["a"]], ["a", "b"])
    >>> round(scores.accuracy, 3)
    0.667
    """
    if not truth:
        raise EvaluationError("there are no documents with labels to measure predictions on; give at least one")
    if len(given) != len(truth):
        raise EvaluationError(f"there are {len(given):,} predictions for {len(truth):,} documents")
    if probabilities is not None and np.shape(probabilities) != (shape := (len(truth), len(classes))):
        raise EvaluationError(f"probabilities have the shape {np.shape(probabilities)}, not {shape}")
    found = Counter(name for names in truth for name in names)
    unknown = {name: found[name] for name in ordered_classes(set(found) - set(classes))}
    names = [*classes, *unknown]
    expected, actual = (_indicators(labels, names) for labels in (truth, given))
    # Not by scikit-learn, which takes a single column of several labels for two classes.
    has, gets, both = (part.sum(axis=0) for part in (expected, actual, expected & actual))
    precision, recall, f1 = both / np.maximum(gets, 1), both / np.maximum(has, 1), 2 * both / np.maximum(has + gets, 1)
    right = (expected == actual).all(axis=1)
    is_known = ~expected[:, len(classes) :].any(axis=1)
    confusion = None
    if not multi_label:
        square = confusion_matrix([one for (one,) in truth], [one for (one,) in given], labels=names)
        confusion = square[:, : len(classes)].astype(np.int64)
    return ClassificationScores(
        documents=len(truth),
        accuracy=float(right.mean()),
        macro_f1=float(f1[has + gets > 0].mean()) if (has + gets).any() else 0.0,
        micro_f1=float(2 * both.sum() / max(1, (has + gets).sum())),
        accuracy_known=float(right[is_known].mean()) if is_known.any() else None,
        classes=tuple(
            ClassScores(name, *values)
            for name, *values in zip(
                names, *(values.tolist() for values in (precision, recall, f1, has, gets)), strict=True
            )
        ),
        unknown=unknown,
        confusion=confusion,
        calibration=_calibration(expected, actual, np.asarray(probabilities), multi_label)
        if probabilities is not None
        else None,
        multi_label=multi_label,
    )


def calibration(probabilities: Floats, right: npt.NDArray[np.bool_], bins: int = BINS) -> Calibration:
    """Sort predictions into bins of equal width by their probability.

    Args:
        probabilities: ``(predictions,)``.
        right: ``(predictions,)``, whether what was predicted is so.
        bins: number of bins.

    Raises:
        EvaluationError: a probability is no number from 0 to 1.
    """
    _require_probabilities(probabilities)
    place = np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    sums = (np.bincount(place, weights=values, minlength=bins) for values in (probabilities, right))
    confidences, accuracies = (np.divide(total, np.maximum(counts, 1)) for total in sums)
    return Calibration(tuple(counts.tolist()), tuple(confidences.tolist()), tuple(accuracies.tolist()))


@dataclass(frozen=True, slots=True)
class Mistake:
    """A class that a document gets and does not have, or has and does not get.

    Args:
        row: the document among those measured.
        label: the class; with one label always the one that the document gets.
        confidence: how sure the model is: the class's probability, or what is missing from it to 1 where it is missed.
        missed: whether the document has the class and does not get it.
    """

    row: int
    label: str
    confidence: float
    missed: bool = False


def confident_mistakes(
    truth: Labels, given: Labels, classes: Sequence[str], probabilities: Floats, *, multi_label: bool = False
) -> list[Mistake]:
    """All mistakes, those that the model is most sure of first.

    Args:
        truth: labels of every document, ``(documents,)``.
        given: the classes that every document gets, ``(documents,)``.
        classes: names of the classes that the model knows; labels that it does not know are no mistakes of their own.
        probabilities: ``(documents, classes)``.
        multi_label: whether a document can have any number of classes; then every class that it wrongly gets or misses
            is a mistake, otherwise every document that gets another than its label.
    """
    place = {name: number for number, name in enumerate(classes)}
    found = []
    for row, (has, gets) in enumerate(zip(truth, given, strict=True)):
        for label in gets:
            if label not in has:
                found.append(Mistake(row, label, float(probabilities[row, place[label]])))
        for label in has if multi_label else ():
            if label not in gets and label in place:
                found.append(Mistake(row, label, 1.0 - float(probabilities[row, place[label]]), missed=True))
    return sorted(found, key=lambda mistake: -mistake.confidence)


def require_shared_classes(truth: Labels, classes: Sequence[str]) -> None:
    """Refuse documents none of which has a label that the model knows: they are from another task.

    Raises:
        EvaluationError: there are labels, and the model knows none of them.
    """
    found = ordered_classes(name for names in truth for name in names)
    if found and not set(found) & set(classes):
        raise EvaluationError(
            f"no document has a label that the model knows: it knows {named(classes)}, documents have {named(found)}"
        )


def _require_probabilities(probabilities: Floats) -> None:
    # Values that rounding brought just beyond 0 and 1 are probabilities all the same.
    wrong = ~((probabilities >= -1e-6) & (probabilities <= 1 + 1e-6))
    if wrong.any():
        raise EvaluationError(f"{int(wrong.sum()):,} of {wrong.size:,} probabilities are no numbers from 0 to 1")


def _indicators(labels: Labels, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which document has which class, ``(documents, classes)``."""
    place = {name: number for number, name in enumerate(names)}
    result = np.zeros((len(labels), len(names)), np.bool_)
    for row, own in enumerate(labels):
        for name in own:
            result[row, place[name]] = True
    return result


def _calibration(
    expected: npt.NDArray[np.bool_], actual: npt.NDArray[np.bool_], probabilities: Floats, multi_label: bool
) -> Calibration:
    if multi_label:
        known = expected[:, : probabilities.shape[1]]
        return calibration(probabilities.ravel(), known.ravel())
    return calibration(probabilities.max(axis=1), np.asarray((expected & actual).any(axis=1)))
