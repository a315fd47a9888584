"""The lexical baseline of document comparison: cosine of TF-IDF vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer

NAME = "TF-IDF cosine"
# Words that one document alone has tell nothing of pairs; English words without meaning would drown all others. Where
# that leaves nothing, as of a handful of short texts, all words count.
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"sublinear_tf": True, "min_df": 2, "stop_words": "english"},
    {"sublinear_tf": True},
)


def tfidf_similarities(texts: Sequence[str], pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The TF-IDF cosine of pairs of texts: logarithmic counts of words that at least two of the texts have.

    Args:
        texts: the texts that occur in pairs, whole, which inverse document frequencies are counted in too.
        pairs: ``(pairs, 2)``, positions in ``texts``.

    Returns:
        ``(pairs,)``; 0 with a text that has no such words.
    """
    fitted = fitted_vectors(texts)
    if fitted is None:
        return np.zeros(len(pairs))
    _, vectors = fitted
    products = vectors[pairs[:, 0]].multiply(vectors[pairs[:, 1]]).sum(axis=1)
    return np.asarray(products, np.float64).ravel()


def fitted_vectors(texts: Sequence[str]) -> tuple[TfidfVectorizer, Any] | None:
    """TF-IDF vectors of texts, and what makes such vectors of others; None where the texts have no words.

    Args:
        texts: the texts, which inverse document frequencies are counted in.

    Returns:
        The vectorizer; a sparse matrix ``(texts, words)`` with rows of unit length, or of zeros.
    """
    for settings in _SETTINGS:
        vectorizer = TfidfVectorizer(**settings)
        try:
            return vectorizer, vectorizer.fit_transform(texts)
        except ValueError:
            # No word is left.
            continue
    return None
