"""Predicting: documents in, classes with their probabilities and reasons out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import ModelError, SettingsError
from ..graphs.batch import GraphBatch
from ..inference.pipeline import EncodingOptions, EncodingPipeline, StreamOptions
from ..inference.precision import as_numpy, inference
from ..inference.segmenting import AnyDocument, Window
from ..modeling.attribution import logit_contributions
from ..runtime.arrays import Vectors
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.kinds import WordPart
from .records import Decision, Prediction, Predictions, class_index

# Least probability of a class that a document gets, for models of several labels.
THRESHOLD = 0.5


class PredictionOptions(EncodingOptions, total=False):
    """Options of predicting documents, as :func:`predict` describes them."""

    threshold: float | None
    explain: bool


def predict(
    encoder: EncodingPipeline,
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument | SegmentedDocument,
    *,
    threshold: float | None = None,
    explain: bool = True,
    **options: Unpack[EncodingOptions],
) -> Predictions:
    """Predict which classes documents belong to.

    Args:
        encoder: the encoder; its model has a head.
        documents: one document or many; the predictions hold all of them.
        threshold: probability from which on a document gets a class, for models of several labels; None for 0.5.
        explain: whether to say what every passage adds to the logits of the classes that a document gets.
        **options: see :meth:`~graphdoc.inference.pipeline.EncodingPipeline.windows`.

    Raises:
        ModelError: the model has no head.
        DocumentError: a document has no text.
        SettingsError: the threshold cannot be.

    >>> from graphdoc import DocumentEncoder
    >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> _ = encoder.model.add_head(["cooking", "sea"])
    >>> predict(encoder, ["Rice is steamed.", "Tides rise."]).probabilities.shape
    (2, 2)
    """
    totals, least, several = Coverage(), threshold_of(encoder, threshold), encoder.model.config.multi_label
    stream = stream_predictions(encoder, documents, threshold=threshold, explain=explain, totals=totals, **options)
    items = tuple(stream)
    totals.warn()
    return Predictions(items, classes_of(encoder), several, least, encoder.describe(), totals)


def stream_predictions(
    encoder: EncodingPipeline,
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument | SegmentedDocument,
    *,
    threshold: float | None = None,
    explain: bool = True,
    **options: Unpack[StreamOptions],
) -> Iterator[Prediction]:
    """Predict as :func:`predict`, one window of documents after another, in constant memory.

    The model and the threshold are checked before the first document is asked for.

    >>> from graphdoc import DocumentEncoder
    >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> _ = encoder.model.add_head(["cooking", "sea"])
    >>> len(list(stream_predictions(encoder, ["Rice is steamed.", "Tides rise."])))
    2
    """
    least = threshold_of(encoder, threshold)
    return (
        prediction
        for window in encoder.windows(documents, **options)
        for prediction in _predictions(encoder, window, least, explain)
    )


def explain(
    encoder: EncodingPipeline,
    document: AnyDocument | SegmentedDocument,
    labels: Sequence[str],
    *,
    threshold: float | None = None,
) -> Prediction:
    """Say what every passage of a document adds to the logits of some classes, whether it gets them or not.

    Args:
        encoder: the encoder; its model has a head.
        document: the document.
        labels: the classes; the decisions are in their order.
        threshold: see :func:`predict`.

    Raises:
        ModelError: the model has no head.
        DocumentError: the document has no text.
        SettingsError: the model knows no such class.

    >>> from graphdoc import DocumentEncoder
    >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> _ = encoder.model.add_head(["cooking", "sea"])
    >>> [decision.label for decision in explain(encoder, "Rice is steamed.", ["sea"]).decisions]
    ['sea']
    """
    least = threshold_of(encoder, threshold)
    for label in labels:
        class_index(label, classes_of(encoder))
    (window,) = encoder.windows([document], show_progress_bar=False)
    (prediction,) = _predictions(encoder, window, least, tuple(labels))
    return prediction


def classes_of(encoder: EncodingPipeline) -> tuple[str, ...]:
    """Names of the classes that a model distinguishes.

    Raises:
        ModelError: the model has no head.
    """
    labels = encoder.model.config.labels
    if encoder.model.head is None or not labels:
        raise ModelError(
            f"{encoder.name} has no classification head, so that it cannot predict; give a checkpoint that has "
            "learned labels (graphdoc finetune classify, or graphdoc fit --classes)"
        )
    return tuple(labels)


def threshold_of(encoder: EncodingPipeline, threshold: float | None) -> float | None:
    """The probability from which on a document gets a class; None where it gets the most likely one.

    Raises:
        ModelError: the model has no head.
        SettingsError: the threshold is no probability, or the model gives every document exactly one label.
    """
    classes_of(encoder)
    if not encoder.model.config.multi_label:
        if threshold is not None:
            raise SettingsError(f"a threshold is for models of several labels; {encoder.name} gives every document one")
        return None
    if threshold is not None and not 0 < threshold < 1:
        raise SettingsError(f"threshold={threshold!r} must be a probability above 0 and below 1")
    return THRESHOLD if threshold is None else threshold


def word_contributions(
    encoder: EncodingPipeline, segmented: SegmentedDocument, places: Sequence[int]
) -> tuple[npt.NDArray[np.float64], list[tuple[WordPart, ...] | None]]:
    """What words add to the logits of some classes.

    Returns:
        The sum over the words of every passage, ``(passages, classes)``, zeros where the head reads no words; and for
        each class every word with what it adds, the greatest first, or None.
    """
    head, reader = encoder.model.head, encoder.lexical
    if head is None or head.words is None or reader is None:
        return np.zeros((len(segmented.passages), len(places))), [None for _ in places]
    terms, shares = reader.unit_shares(reader.counts(segmented.texts))
    weights = as_numpy(head.words.weight.detach())[terms][:, list(places)].astype(np.float64)
    words = reader.surface_forms(segmented.texts, terms)
    added = np.asarray(shares.sum(axis=0)).ravel()[:, None] * weights
    parts = [
        tuple(WordPart(words[row], float(column[row])) for row in np.argsort(-column, kind="stable").tolist())
        for column in added.T
    ]
    return np.asarray(shares @ weights, np.float64), list(parts)


def probabilities_of(logits: Tensor, multi_label: bool) -> Vectors:
    """Probabilities of classes, ``(documents, classes)``: softmax over logits, or the sigmoid of each."""
    return as_numpy(torch.sigmoid(logits) if multi_label else torch.softmax(logits, dim=-1))


def given_labels(probabilities: Vectors, classes: Sequence[str], threshold: float | None) -> tuple[str, ...]:
    """The classes that a document gets, of ``(classes,)``; without a threshold the most likely one."""
    if threshold is None:
        return (classes[int(probabilities.argmax())],)
    return tuple(classes[place] for place in np.flatnonzero(probabilities >= threshold).tolist())


def _predictions(
    encoder: EncodingPipeline, window: Window, threshold: float | None, explained: bool | tuple[str, ...]
) -> Iterator[Prediction]:
    """Predictions of the documents of a window.

    ``explained`` are the classes whose logits are split; True for those that a document gets, or where it gets none
    for the most likely one.
    """
    assert window.output.logits is not None
    model, classes = encoder.model, classes_of(encoder)
    several = bool(model.config.multi_label)
    all_logits, all_probabilities = window.output.logits.cpu(), probabilities_of(window.output.logits.cpu(), several)
    for row, (segmented, rows) in enumerate(zip(window.documents, window.rows, strict=True)):
        logits, probabilities = as_numpy(all_logits)[row], all_probabilities[row]
        labels = given_labels(probabilities, classes, threshold)
        decisions: list[Decision] = []
        if explained:
            names = explained if isinstance(explained, tuple) else labels
            places = [class_index(name, classes) for name in names] or [int(logits.argmax())]
            vectors = window.passage_vectors[rows]
            batch = GraphBatch.from_documents([segmented], model.config.vector_graph).to(model.device)
            with inference(model):
                output = model.encode_graphs(vectors, batch, output_attentions=True)
                parts = as_numpy(logit_contributions(model, vectors, batch, output, places))
            of_words, words = word_contributions(encoder, segmented, places)
            parts = np.asarray(parts + of_words, np.float32)
            decisions = [
                Decision(classes[place], float(probabilities[place]), float(logits[place]), added, shares)
                for place, added, shares in zip(places, parts.T, words, strict=True)
            ]
        kept = replace(segmented, token_ids=(), passage_vectors=None)
        yield Prediction(kept, classes, logits, probabilities, labels, tuple(decisions), several)
