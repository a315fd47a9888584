"""Baselines: the backbone of a model untrained, and words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, ModelError
from ..inference.precision import Precision
from .labels import LabelledDocuments, ReadyDocument, plain_document, require_labels

T = TypeVar("T")

TFIDF = "TF-IDF cosine"
TFIDF_SVM = "TF-IDF + linear SVM"
UNTRAINED, CENTRED, EVIDENCE = "untrained mean", "centred mean", "evidence"
# What the vectors of a model without trained parts depend on, besides its backbone.
_KEPT = ("pooling", "unit", "context", "passage_words", "passage_tokens", "max_passages", "language")

# Pairs whose rows are multiplied at once; a text that is in many pairs is copied for each.
_BLOCK_PAIRS = 512
# Words that the linear SVM sees.
_MOST_WORDS = 100_000
# Words that one document alone has say nothing of pairs; English words without meaning would drown all others. Where
# that leaves nothing, as of a handful of short texts, all words count.
_SETTINGS: tuple[dict[str, Any], ...] = ({"min_df": 2, "stop_words": "english"}, {})


def untrained_mean(
    encoder: DocumentEncoder,
    backbone: str | Path | None = None,
    *,
    device: str | torch.device | None = None,
    dtype: Precision = "float32",
) -> DocumentEncoder:
    """The backbone of a model as it was before training, with a mean over unit-length passage vectors.

    Passages, pooling and limits are the model's own; there is no projection and no graph.

    Args:
        encoder: the model.
        backbone: name or folder of the backbone, if it is not found under the name that the model knows.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights.

    >>> mini = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> untrained_mean(mini, device="cpu").encode("Rice is steamed.").shape
    (384,)
    """
    config = encoder.model.config
    source = backbone or config.backbone
    if not source:
        raise ModelError(f"{encoder.name} does not say what its backbone is; name one")
    kept = {name: getattr(config, name) for name in _KEPT}
    result = DocumentEncoder.from_backbone(
        source, device=device, dtype=dtype, projection_size=None, normalize_passages=True, graph_layers=0,
        readout="mean", similarity="cosine", **kept,
    )  # fmt: skip
    result.name = f"{Path(source).name}, {UNTRAINED}"
    return result


def has_same_passage_vectors(a: DocumentEncoder, b: DocumentEncoder) -> bool:
    """Whether the passage encoders of two encoders give the same vectors for the same passages of a document."""
    if a.model.structural_embeddings is not None or b.model.structural_embeddings is not None:
        return False
    if type(a.segmenter) is not type(b.segmenter) or a.segmenter.config != b.segmenter.config:
        return False
    if a.model.config.pooling != b.model.config.pooling or a.tokenizer.get_vocab() != b.tokenizer.get_vocab():
        return False
    left, right = (encoder.model.passage_encoder.state_dict() for encoder in (a, b))
    return left.keys() == right.keys() and all(torch.equal(left[key].cpu(), right[key].cpu()) for key in left)


class SharedPassages(Generic[T]):
    """Results that are computed once for all encoders that read passages alike.

    Args:
        make: makes it for an encoder, with the vectors of passages.
        plain: what serves encoders whose vectors of passages depend on how documents are split.
    """

    def __init__(self, make: Callable[[DocumentEncoder], T], plain: T) -> None:
        self._make, self._plain = make, plain
        self._made: list[tuple[DocumentEncoder, T]] = []

    def of(self, encoder: DocumentEncoder) -> T:
        """The result for an encoder."""
        for other, made in self._made:
            if has_same_passage_vectors(other, encoder):
                return made
        if encoder.model.structural_embeddings is not None or encoder.model.config.matching is not None:
            return self._plain
        self._made.append((encoder, self._make(encoder)))
        return self._made[-1][1]


class TfidfVectors:
    """TF-IDF vectors of texts: logarithmic counts of words that at least two of them have, without English stop words.

    Attributes:
        matrix: ``(texts, words)``, sparse, with rows of length 1, or of zeros for a text without such words.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        for settings in _SETTINGS:
            self._vectorizer = TfidfVectorizer(sublinear_tf=True, **settings)
            try:
                self.matrix = self._vectorizer.fit_transform(texts)
            except ValueError:
                # No word is left.
                continue
            return
        self.matrix = csr_matrix((len(texts), 0))

    def of(self, texts: Sequence[str]) -> csr_matrix:
        """Vectors of other texts, ``(texts, words)``."""
        return self._vectorizer.transform(texts) if self.matrix.shape[1] else csr_matrix((len(texts), 0))

    def similarities(self, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Cosines of pairs of the texts, ``(pairs, 2)`` positions: ``(pairs,)``; 0 with a text that has no words."""
        result = np.zeros(len(pairs))
        for first in range(0, len(pairs), _BLOCK_PAIRS):
            a, b = (self.matrix[rows] for rows in pairs[first : first + _BLOCK_PAIRS].T)
            result[first : first + _BLOCK_PAIRS] = np.asarray(a.multiply(b).sum(axis=1), np.float64).ravel()
        return result

    def scores(self, vector: csr_matrix) -> npt.NDArray[np.float64]:
        """Cosines of one vector, ``(1, words)``, with all texts, ``(texts,)``."""
        return np.asarray((self.matrix @ vector.T).todense(), np.float64).ravel()


def lexical_predictions(train: LabelledDocuments, documents: Sequence[ReadyDocument]) -> list[tuple[str, ...]]:
    """Predict the classes of documents by a linear SVM on TF-IDF of their words.

    Words are lower-cased runs of two or more letters and digits; the 100,000 most frequent of train count, with
    sublinear term frequency. The whole text is seen, with title and headings, whatever a model's limit is. With
    several labels there is one classifier per class.

    Returns:
        The classes that every document gets, ``(documents,)``.
    """
    if not train.multi_label:
        require_labels(train.single_labels, "train")
    elif not train.classes:
        raise EvaluationError("no train document has a label")
    texts, others = ([text_of(plain_document(one)) for one in part] for part in (train.documents, documents))
    classifier = OneVsRestClassifier(LinearSVC()) if train.multi_label else LinearSVC()
    pipeline = make_pipeline(TfidfVectorizer(max_features=_MOST_WORDS, sublinear_tf=True), classifier)
    targets = train.targets(train.classes).astype(int)
    try:
        with warnings.catch_warnings():
            # Of a class that every document has.
            warnings.simplefilter("ignore", UserWarning)
            predicted = pipeline.fit(texts, targets).predict(others)
    except ValueError as error:
        raise EvaluationError(f"{TFIDF_SVM} cannot learn from the train documents: {error}") from error
    if not train.multi_label:
        return [(train.classes[number],) for number in predicted]
    return [tuple(name for name, has in zip(train.classes, row, strict=True) if has) for row in predicted]


def text_of(document: Document) -> str:
    """Title, headings and text of a document."""
    parts = (part for section in document.sections for part in (section.heading, section.text))
    return "\n\n".join(filter(None, (document.title, *parts)))
