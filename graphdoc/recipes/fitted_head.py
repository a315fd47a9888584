"""A head that is fitted to labelled documents, above vectors that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import ModelError
from ..evaluation import LabelledDocuments
from ..evaluation.labels import ordered_classes, require_labels
from ..evaluation.linear_probe import Probe, fit_probe
from ..inference.levels import as_numpy
from ..inference.pipeline import StreamOptions
from ..runtime.text import require_seed
from .vectors_and_words import fit_vectors_and_words

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FittedHead:
    """What was learned of labelled documents.

    Args:
        documents: documents that it was learned of.
        classes: names of the classes, in the order of the logits.
        reads_words: whether the head reads the lexical part too.
        strength: the inverse regularisation C.
        length: how long vectors are beside words of the length 1, on average; None without words.
        held_out_accuracy: accuracy on the documents that both were chosen on, a fifth of every class, by a classifier
            of the others; None where fewer than two classes have five documents.
        held_out_documents: how many these are.
    """

    documents: int
    classes: tuple[str, ...]
    reads_words: bool
    strength: float
    length: float | None
    held_out_accuracy: float | None
    held_out_documents: int


def fit_head(
    encoder: DocumentEncoder,
    documents: LabelledDocuments | Iterable[Document],
    *,
    seed: int = 0,
    **options: Unpack[StreamOptions],
) -> FittedHead:
    """Give an encoder a head that is fitted to the vectors of labelled documents, and to their words.

    By logistic regression on vectors alone (:func:`~graphdoc.evaluation.linear_probe.fit_probe`), and where the model
    has a lexical part by a linear support vector machine on both
    (:func:`~graphdoc.recipes.vectors_and_words.fit_vectors_and_words`), whatever the numbers of that part. What was
    learned is then written for vectors as they are. All vectors are held in memory.

    Args:
        encoder: the encoder; it has the head from then on, in place of one that it may have.
        documents: the documents; those that do not have one label are left out.
        seed: draws the fifth of every class that settings of the classifier are chosen on.
        **options: see :meth:`~graphdoc.inference.pipeline.EncodingPipeline.windows`.

    Returns:
        What was learned.

    Raises:
        EvaluationError: there are fewer than two labels.
        ModelError: the model has no vectors of single documents.
        SettingsError: the seed cannot be.
    """
    require_seed(seed)
    if not isinstance(documents, LabelledDocuments):
        documents = LabelledDocuments.of(documents)
    if documents.multi_label:
        raise ModelError("a head is fitted to one label a document; train one for several: graphdoc finetune classify")
    labels = [name for (name,) in documents.labels]
    require_labels(labels, "train")
    vectors, words = _read(encoder, documents, **options)
    chosen: tuple[float, float | None, float | None, int]
    if words is None:
        probe = fit_probe(vectors, labels, seed)
        weights, bias = weights_of(probe)
        names = [str(name) for name in probe.pipeline.classes_]
        of_words, chosen = None, (probe.strength, None, probe.held_out, probe.held_out_documents)
    else:
        found = fit_vectors_and_words(vectors, words, labels, seed, show_progress=options.get("show_progress"))
        weights, bias, names = found.of_vectors, found.bias, [*found.classes]
        of_words, chosen = found.of_words, (found.strength, found.length, found.held_out, found.held_out_documents)
    classes = ordered_classes(labels)
    order = [names.index(name) for name in classes]
    head = encoder.model.add_head(classes, words=of_words is not None)
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(weights[order]))
        head.linear.bias.copy_(torch.from_numpy(bias[order]))
        if head.words is not None and of_words is not None:
            head.words.weight.copy_(torch.from_numpy(of_words[order].T))
    return FittedHead(len(labels), tuple(classes), words is not None, *chosen)


def weights_of(probe: Probe) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights and biases of a probe for vectors as they are.

    Args:
        probe: the probe.

    Returns:
        ``(classes, hidden)``; ``(classes,)``.
    """
    scaler, regression = probe.pipeline[0], probe.pipeline[-1]
    assert isinstance(scaler, StandardScaler) and isinstance(regression, LogisticRegression)
    weights = np.asarray(regression.coef_, np.float64) / np.asarray(scaler.scale_, np.float64)
    bias = np.asarray(regression.intercept_, np.float64) - weights @ np.asarray(scaler.mean_, np.float64)
    if len(weights) == 1:
        # The softmax over half of a number and its negative is the sigmoid of the number.
        return np.concatenate([-weights, weights]) / 2, np.concatenate([-bias, bias]) / 2
    return weights, bias


def _read(
    encoder: DocumentEncoder, documents: LabelledDocuments, **options: Unpack[StreamOptions]
) -> tuple[Floats, Any]:
    """What a head reads: vectors, ``(documents, hidden)``; weights of words, sparse, None without a lexical part."""
    vectors, words = [], []
    for window in encoder.windows(documents.documents, **options):
        assert window.output.documents is not None
        vectors.append(as_numpy(window.output.documents))
        if encoder.lexical is not None:
            words.append(encoder.lexical.of_documents(window.documents))
    return np.concatenate(vectors), sparse.vstack(words).tocsr() if words else None
