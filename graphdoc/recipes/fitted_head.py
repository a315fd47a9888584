"""A head that is fitted to labelled documents, above vectors that stay as they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import ModelError
from ..evaluation import LabelledDocuments
from ..evaluation.labels import HELD_OUT, held_out_rows, ordered_classes, require_labels
from ..inference.pipeline import StreamOptions
from ..inference.precision import as_numpy
from ..runtime.arrays import Floats
from ..runtime.progress import progress_bar
from ..runtime.text import require_seed

# C of the support vector machine, and how long the vector of a document is on average next to its words, of the
# length 1. Without documents to choose by, those in the middle.
STRENGTHS, LENGTHS = (0.3, 1.0, 3.0), (0.1, 0.3, 1.0)
# Bounds and default of the factor that turns margins of the machine into logarithms of odds.
FLATTEST, STEEPEST, USUAL_SLOPE = 0.1, 10.0, 3.0


@dataclass(frozen=True, slots=True)
class WordClassifier:
    """A linear classifier of vectors and words, and how it was fitted.

    Args:
        classes: names of the classes, in the order of the logits.
        of_vectors: ``(classes, hidden)``, weights for vectors as they are.
        of_words: ``(classes, terms)``, weights for tf-idf weights of the length 1; no terms without words.
        bias: ``(classes,)``.
        documents: documents that it was fitted to.
        strength: C, the inverse of regularization.
        length: of a vector next to words of the length 1, on average.
        held_out_accuracy: on the documents that both were chosen on; None where there were none.
        held_out_documents: how many these were.
    """

    classes: tuple[str, ...]
    of_vectors: Floats
    of_words: Floats
    bias: Floats
    documents: int
    strength: float
    length: float
    held_out_accuracy: float | None
    held_out_documents: int

    @property
    def reads_words(self) -> bool:
        """Whether it reads words next to vectors."""
        return bool(self.of_words.shape[1])

    def logits(self, vectors: npt.NDArray[Any], words: Any) -> Floats:
        """Logits, ``(documents, classes)``, of vectors and of sparse words, ``(documents, terms)``."""
        return np.asarray(vectors @ self.of_vectors.T + words @ self.of_words.T + self.bias, np.float64)


def fit_vectors_and_words(
    vectors: npt.NDArray[Any], words: Any, labels: Sequence[str], seed: int = 0, *, shown: bool | None = None
) -> WordClassifier:
    r"""Fit a linear support vector machine to the vectors of documents and the weights of their words.

    Every dimension of the vectors is scaled to mean 0 and one common deviation over the documents, which sets the
    length of a vector relative to its words; words stay as they are, so a rare term counts by its weight alone.
    Each class is separated from all others by squared hinge loss, which for words is more accurate than logistic
    loss. C and that length are chosen on a fifth of every label's documents, by accuracy, ties by cross
    entropy, and with them the slope that makes logits of margins: softmax of these has the lowest cross entropy
    there (Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2). Of a label with fewer than
    five documents none is held out; where that leaves fewer than two labels there, all three stay in the middle.

    Args:
        vectors: ``(documents, hidden)``.
        words: sparse ``(documents, terms)``, tf-idf weights of the length 1; None without words.
        labels: ``(documents,)``, two labels at least.
        seed: draws the held-out part, and the order that the machine is fitted in.
        shown: show a bar; None shows it on a terminal.
    """
    if words is None:
        words = sparse.csr_matrix((len(vectors), 0))
    truth, held_out = np.asarray(labels), held_out_rows(labels, HELD_OUT, seed)
    if len(np.unique(truth[held_out])) < 2:
        return _fitted(vectors, words, truth, STRENGTHS[1], LENGTHS[1], USUAL_SLOPE, seed)
    scores = []
    own = vectors[~held_out], words[~held_out], truth[~held_out]
    with progress_bar(shown, len(LENGTHS) * len(STRENGTHS), "Fitting", "classifiers") as bar:
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
    there, classes = [str(name) for name in machine.classes_], ordered_classes(labels.tolist())
    order = [there.index(name) for name in classes]
    return WordClassifier(
        tuple(classes), slope * of_vectors[order], slope * weights[order, hidden:], slope * bias[order], len(labels),
        strength, length, *held_out,
    )  # fmt: skip


def fit_head(
    encoder: DocumentEncoder,
    documents: LabelledDocuments | Iterable[Document],
    *,
    seed: int = 0,
    **options: Unpack[StreamOptions],
) -> WordClassifier:
    """Give an encoder a head that is fitted to the vectors of labelled documents, and to their words.

    By a linear support vector machine (:func:`fit_vectors_and_words`) on vectors, and on the weights of words where
    the model has a lexical part. What was learned is written for vectors as they are. All vectors are held in memory.

    Args:
        encoder: the encoder; it has the head from then on, in place of one that it may have.
        documents: the documents; those that do not have one label are left out.
        seed: draws the fifth of every class that settings of the classifier are chosen on.
        **options: see :meth:`~graphdoc.inference.pipeline.EncodingPipeline.windows`.

    Raises:
        EvaluationError: there are fewer than two labels.
        ModelError: the model has no vectors of single documents.
    """
    require_seed(seed)
    if not isinstance(documents, LabelledDocuments):
        documents = LabelledDocuments.from_documents(documents)
    if documents.multi_label:
        raise ModelError("a head is fitted to one label a document; train one for several: graphdoc finetune classify")
    labels = [name for (name,) in documents.labels]
    require_labels(labels, "train")
    read, read_words = list[npt.NDArray[np.float32]](), list[Any]()
    for window in encoder.windows(documents.documents, **options):
        assert window.output.documents is not None
        read.append(as_numpy(window.output.documents))
        if encoder.lexical is not None:
            read_words.append(encoder.lexical.of_documents(window.documents))
    vectors, words = np.concatenate(read), sparse.vstack(read_words).tocsr() if read_words else None
    found = fit_vectors_and_words(vectors, words, labels, seed, shown=options.get("show_progress_bar"))
    head = encoder.model.add_head(found.classes, words=words is not None)
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(found.of_vectors))
        head.linear.bias.copy_(torch.from_numpy(found.bias))
        if head.words is not None:
            head.words.weight.copy_(torch.from_numpy(found.of_words.T))
    return found
