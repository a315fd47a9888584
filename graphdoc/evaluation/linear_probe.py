"""What a linear classifier reads from frozen vectors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from .labels import held_out_rows, require_known, require_labels

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
HELD_OUT = 0.2
MOST_STEPS = 500


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """What a linear classifier on frozen vectors reaches on test documents.

    Args:
        accuracy: share of documents that get their label.
        macro_f1: F1 of every label, averaged over the labels that occur in test or among the predictions.
        strength: the inverse regularisation C that was best on the held-out part of train.
    """

    accuracy: float
    macro_f1: float
    strength: float

    def to_dict(self) -> dict[str, float]:
        """Everything as plain values for JSON."""
        return asdict(self)


def linear_probe(
    train_vectors: npt.NDArray[Any],
    train_labels: Sequence[str],
    test_vectors: npt.NDArray[Any],
    test_labels: Sequence[str],
    seed: int = 0,
) -> ProbeScores:
    """Fit logistic regression on train vectors and measure it on test vectors.

    Every number is brought to mean 0 and variance 1 over train. C is chosen on a fifth of every label's train
    documents; then the classifier is fitted on all of them.

    Args:
        train_vectors: ``(train documents, hidden)``.
        train_labels: ``(train documents,)``.
        test_vectors: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        seed: draws the held-out part.

    Raises:
        EvaluationError: there are fewer than two labels in train, or labels in test that train does not have.

    >>> vectors = np.arange(40.0).reshape(20, 2)
    >>> labels = ["low"] * 10 + ["high"] * 10
    >>> linear_probe(vectors, labels, vectors, labels).accuracy
    1.0
    """
    require_labels(train_labels, "train")
    require_known(test_labels, train_labels)
    probe = fit_probe(train_vectors, train_labels, seed)
    found = probe.pipeline.predict(test_vectors)
    return ProbeScores(
        float(accuracy_score(test_labels, found)),
        float(f1_score(test_labels, found, average="macro", zero_division=0.0)),
        probe.strength,
    )


class Probe(NamedTuple):
    """A linear classifier of vectors.

    Args:
        pipeline: numbers brought to mean 0 and variance 1, and logistic regression.
        strength: the inverse regularisation C.
        held_out: accuracy on the part of train that C was chosen on; None where there was none.
        held_out_documents: documents of that part.
    """

    pipeline: Pipeline
    strength: float
    held_out: float | None = None
    held_out_documents: int = 0


def fit_probe(vectors: npt.NDArray[Any], labels: Sequence[str], seed: int = 0) -> Probe:
    """Fit logistic regression on vectors, with the C that is best on a fifth of every label's documents.

    The best has the highest accuracy there, and of equals the lowest cross entropy. Of a label with fewer than five
    documents none is held out; where that leaves fewer than two labels there, C stays in the middle.

    Args:
        vectors: ``(documents, hidden)``.
        labels: ``(documents,)``, two labels at least.
        seed: draws that part.
    """
    truth = np.asarray(labels)
    held_out = held_out_rows(labels, HELD_OUT, seed)
    # Without a held-out part the middle of the road: C = 1, as in the library.
    if len(np.unique(truth[held_out])) < 2:
        return Probe(_fitted(vectors, truth, 1.0), 1.0)
    scores = []
    for c in STRENGTHS:
        tried = _fitted(vectors[~held_out], truth[~held_out], c)
        given = tried.predict_proba(vectors[held_out])
        right = tried.classes_[given.argmax(axis=1)] == truth[held_out]
        scores.append((float(right.mean()), -log_loss(truth[held_out], given, labels=tried.classes_), c))
    accuracy, _, strength = max(scores)
    return Probe(_fitted(vectors, truth, strength), strength, accuracy, int(held_out.sum()))


def _fitted(vectors: npt.NDArray[Any], labels: npt.NDArray[Any], strength: float) -> Pipeline:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=MOST_STEPS))
    with warnings.catch_warnings():
        # A C that has not converged is one of several; the held-out part judges it as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Of many classes with few documents each, which is no mistake here.
        warnings.simplefilter("ignore", UserWarning)
        return pipeline.fit(vectors, labels)
