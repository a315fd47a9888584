"""A linear classifier that is fitted to the vectors of documents and to the weights of their words at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ..evaluation.labels import held_out_rows
from ..evaluation.linear_probe import HELD_OUT
from ..runtime.progress import progress_bar

Floats = npt.NDArray[np.float64]

# C of the support vector machine, and how long the vector of a document is on average beside its words, of the
# length 1. Without documents to choose by, those in the middle.
STRENGTHS, LENGTHS = (0.3, 1.0, 3.0), (0.1, 0.3, 1.0)
# Of margins, whose unit is the machine's own, to logarithms of odds.
FLATTEST, STEEPEST, USUAL_SLOPE = 0.1, 10.0, 3.0


@dataclass(frozen=True, slots=True)
class WordClassifier:
    """A linear classifier of vectors and words.

    Args:
        classes: names of the classes, ``(classes,)``.
        of_vectors: ``(classes, hidden)``, weights for vectors as they are.
        of_words: ``(classes, terms)``, weights for tf-idf weights of the length 1.
        bias: ``(classes,)``.
        strength: C, the inverse of regularisation.
        length: of a vector beside words of the length 1, on average.
        held_out: accuracy on the part of the documents that both were chosen on; None where there was none.
        held_out_documents: documents of that part.
    """

    classes: tuple[str, ...]
    of_vectors: Floats
    of_words: Floats
    bias: Floats
    strength: float
    length: float
    held_out: float | None
    held_out_documents: int

    def logits(self, vectors: npt.NDArray[Any], words: Any) -> Floats:
        """Logits of documents, ``(documents, classes)``.

        Args:
            vectors: ``(documents, hidden)``.
            words: sparse ``(documents, terms)``.
        """
        return np.asarray(vectors @ self.of_vectors.T + words @ self.of_words.T + self.bias, np.float64)


def fit_vectors_and_words(
    vectors: npt.NDArray[Any], words: Any, labels: Sequence[str], seed: int = 0, *, show_progress: bool | None = None
) -> WordClassifier:
    r"""Fit a linear support vector machine to the vectors of documents and the weights of their words.

    Every number of a vector is brought to mean 0 and one deviation over the documents, by which a vector is as long as
    asked for beside its words; words stay as they are, so that a rare term counts as little as it weighs. One class is
    told from all others by squared hinge loss, which for words is more accurate than logistic loss. C and that length
    are chosen on a fifth of every label's documents, by accuracy and of equals by cross entropy, and with them the
    slope that makes logits of margins: softmax of these has the lowest cross entropy there (Guo et al. 2017, "On
    Calibration of Modern Neural Networks", section 4.2). Of a label with fewer than five documents none is held out;
    where that leaves fewer than two labels there, all three stay in the middle.

    Args:
        vectors: ``(documents, hidden)``.
        words: sparse ``(documents, terms)``, tf-idf weights of the length 1.
        labels: ``(documents,)``, two labels at least.
        seed: draws the held-out part, and the order that the machine is fitted in.
        show_progress: see :func:`~graphdoc.runtime.progress.progress_bar`.
    """
    truth, held_out = np.asarray(labels), held_out_rows(labels, HELD_OUT, seed)
    if len(np.unique(truth[held_out])) < 2:
        return _fitted(vectors, words, truth, STRENGTHS[1], LENGTHS[1], USUAL_SLOPE, seed)
    scores = []
    own = vectors[~held_out], words[~held_out], truth[~held_out]
    with progress_bar(show_progress, len(LENGTHS) * len(STRENGTHS), "Fitting", "classifiers") as bar:
        for length, strength in product(LENGTHS, STRENGTHS):
            tried = _fitted(*own, strength, length, 1.0, seed)
            margins = tried.logits(vectors[held_out], words[held_out])
            slope, entropy = _slope(margins, truth[held_out], tried.classes)
            right = np.asarray(tried.classes)[margins.argmax(axis=1)] == truth[held_out]
            scores.append((float(right.mean()), -entropy, strength, length, slope))
            bar.update()
    accuracy, _, strength, length, slope = max(scores)
    return _fitted(vectors, words, truth, strength, length, slope, seed, (accuracy, int(held_out.sum())))


def _slope(margins: Floats, labels: npt.NDArray[Any], classes: Sequence[str]) -> tuple[float, float]:
    """The slope of the lowest cross entropy, and that cross entropy."""

    def entropy(logarithm: float) -> float:
        logits = margins * np.exp(logarithm)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return float(log_loss(labels, powers / powers.sum(axis=1, keepdims=True), labels=list(classes)))

    found = minimize_scalar(entropy, bounds=(np.log(FLATTEST), np.log(STEEPEST)), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def _fitted(
    vectors: npt.NDArray[Any],
    words: Any,
    labels: npt.NDArray[Any],
    strength: float,
    length: float,
    slope: float,
    seed: int,
    held_out: tuple[float | None, int] = (None, 0),
) -> WordClassifier:
    scaler = StandardScaler().fit(vectors)
    # A number that never changes tells nothing, and would make the others longer than asked for.
    shrink = length / max(float(np.sqrt((np.asarray(scaler.var_) > 0).sum())), 1.0)
    both = sparse.hstack([sparse.csr_matrix(scaler.transform(vectors) * shrink), words]).tocsr()
    machine = LinearSVC(C=strength, random_state=seed)
    with warnings.catch_warnings():
        # A C that has not converged is one of several; the held-out part judges it as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(both, labels)
    weights, bias = (np.asarray(part, np.float64) for part in (machine.coef_, machine.intercept_))
    if len(weights) == 1:
        # The softmax over half of a number and its negative is the sigmoid of the number.
        weights, bias = np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    hidden = vectors.shape[1]
    of_vectors = weights[:, :hidden] * (shrink / np.asarray(scaler.scale_, np.float64))
    bias = bias - of_vectors @ np.asarray(scaler.mean_, np.float64)
    return WordClassifier(
        tuple(str(name) for name in machine.classes_),
        slope * of_vectors,
        slope * weights[:, hidden:],
        slope * bias,
        strength,
        length,
        *held_out,
    )
