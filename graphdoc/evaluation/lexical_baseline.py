"""What word counts alone reach: TF-IDF and a linear support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from ..documents.document import Document
from ..errors import EvaluationError
from .clustering import require_labels
from .labels import LabelledDocuments, ReadyDocument, plain_document

NAME = "TF-IDF + linear SVM"
MOST_WORDS = 100_000


def lexical_predictions(train: LabelledDocuments, documents: Sequence[ReadyDocument]) -> list[tuple[str, ...]]:
    """Predict the classes of documents by a linear SVM on TF-IDF of their words.

    Words are lower-cased runs of two or more letters and digits; the 100,000 most frequent of train count, with
    sublinear term frequency. The whole text is seen, with title and headings, whatever a model's limit is. With
    several labels there is one classifier per class.

    Args:
        train: the documents that it learns from.
        documents: the documents to predict.

    Returns:
        The classes that every document gets, ``(documents,)``.

    Raises:
        EvaluationError: there is nothing to tell apart, or there are no words.
    """
    if not train.multi_label:
        require_labels([name for (name,) in train.labels], "train")
    elif not train.classes:
        raise EvaluationError(
            "no train document has a label; name the column that holds it (--label-column), or call it label"
        )
    vectorizer = TfidfVectorizer(max_features=MOST_WORDS, sublinear_tf=True)
    try:
        vectors = vectorizer.fit_transform([text_of(plain_document(one)) for one in train.documents])
    except ValueError as error:
        raise EvaluationError(f"{NAME} cannot learn from the train documents: {error}") from error
    wanted = vectorizer.transform([text_of(plain_document(one)) for one in documents])
    targets = train.targets(train.classes)
    if not train.multi_label:
        return [(train.classes[number],) for number in LinearSVC().fit(vectors, targets).predict(wanted)]
    columns = [_has(vectors, target > 0, wanted) for target in targets.T]
    return [
        tuple(name for name, has in zip(train.classes, row, strict=True) if has) for row in np.stack(columns, axis=1)
    ]


def _has(vectors: Any, target: npt.NDArray[np.bool_], wanted: Any) -> npt.NDArray[np.bool_]:
    """Whether documents have a class, ``(documents,)``."""
    if target.all():
        return np.ones(wanted.shape[0], np.bool_)
    return np.asarray(LinearSVC().fit(vectors, target).predict(wanted), np.bool_)


def text_of(document: Document) -> str:
    """Title, headings and text of a document."""
    parts = [document.title]
    for section in document.sections:
        parts += [section.heading, section.text]
    return "\n\n".join(part for part in parts if part)
