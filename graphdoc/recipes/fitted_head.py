"""A head that is fitted to labelled documents in closed form, above vectors that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch
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

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FittedHead:
    """What was learned of labelled documents.

    Args:
        documents: documents that it was learned of.
        classes: names of the classes, in the order of the logits.
        reads_words: whether the head reads the lexical part too.
        strength: the inverse regularisation C of the logistic regression.
        held_out_accuracy: accuracy on the documents that C was chosen on, a fifth of every class, by a classifier of
            the others; None where fewer than two classes have five documents.
        held_out_documents: how many these are.
    """

    documents: int
    classes: tuple[str, ...]
    reads_words: bool
    strength: float
    held_out_accuracy: float | None
    held_out_documents: int


def fit_head(
    encoder: DocumentEncoder,
    documents: LabelledDocuments | Iterable[Document],
    *,
    seed: int = 0,
    **options: Unpack[StreamOptions],
) -> FittedHead:
    """Give an encoder a head by logistic regression on the vectors of labelled documents, and on their words.

    Every number is brought to mean 0 and variance 1 over the documents; what was learned is then written for the
    vectors as they are. Words are read where the model has a lexical part. All vectors are held in memory.

    Args:
        encoder: the encoder; it has the head from then on, in place of one that it may have.
        documents: the documents; those that do not have one label are left out.
        seed: draws the fifth of every class that the strength of regularisation is chosen on.
        **options: see :meth:`~graphdoc.inference.pipeline.EncodingPipeline.windows`.

    Returns:
        What was learned.

    Raises:
        EvaluationError: there are fewer than two labels.
        ModelError: the model has no vectors of single documents.
    """
    if not isinstance(documents, LabelledDocuments):
        documents = LabelledDocuments.of(documents)
    if documents.multi_label:
        raise ModelError("a head is fitted to one label a document; train one for several: graphdoc finetune classify")
    labels = [name for (name,) in documents.labels]
    require_labels(labels, "train")
    vectors = _vectors(encoder, documents, **options)
    probe = fit_probe(vectors, labels, seed)
    classes = ordered_classes(labels)
    reads_words = encoder.model.lexical is not None
    head = encoder.model.add_head(classes, words=reads_words)
    weights, bias = weights_of(probe)
    place_of = {str(name): place for place, name in enumerate(probe.pipeline.classes_)}
    order = [place_of[name] for name in classes]
    weights, bias = weights[order], bias[order]
    dense = head.linear.in_features
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(weights[:, :dense]))
        head.linear.bias.copy_(torch.from_numpy(bias))
        if head.words is not None:
            head.words.weight.copy_(torch.from_numpy(weights[:, dense:]))
    return FittedHead(
        len(labels), tuple(classes), reads_words, probe.strength, probe.held_out, probe.held_out_documents
    )


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


def _vectors(encoder: DocumentEncoder, documents: LabelledDocuments, **options: Unpack[StreamOptions]) -> Floats:
    """What a head reads, ``(documents, width)``: document vectors, and lexical vectors beside them."""
    reader, rows = encoder.lexical, []
    for window in encoder.windows(documents.documents, **options):
        assert window.output.documents is not None
        own = as_numpy(window.output.documents)
        words = [] if reader is None else [as_numpy(reader.of_documents(window.documents))]
        rows.append(np.concatenate([own, *words], axis=1))
    return np.concatenate(rows)
