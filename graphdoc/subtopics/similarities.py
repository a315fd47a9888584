"""How alike sentences are, by the words they share or by their vectors: what subtopics are found by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from .terms import SentenceTerms

Floats = npt.NDArray[np.float64]


def word_similarity(sentences: Sequence[SentenceTerms]) -> Floats:
    r"""Similarity by common words, as TextRank takes it.

    .. math::
        A_{ij} = \frac{|\{w \mid w \in s_i, w \in s_j\}|}{\log |s_i| + \log |s_j|}

    Words in common are distinct stems without stop words, lengths are all words. Where the logarithms add up to 0,
    between sentences of one word, the similarity is 0. Source: SST, equation 1.

    Args:
        sentences: what the sentences are compared by.

    Returns:
        ``(sentences, sentences)``, 0 for a sentence and itself.
    """
    column_of = {term: column for column, term in enumerate(dict.fromkeys(chain(*(one.terms for one in sentences))))}
    counts = np.array([len(one.terms) for one in sentences], np.int64)
    columns = np.fromiter((column_of[term] for one in sentences for term in one.terms), np.int64, int(counts.sum()))
    ends = np.concatenate([[0], np.cumsum(counts)])
    occurs = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(sentences), max(len(column_of), 1)))
    common = (occurs @ occurs.T).toarray()
    logarithms = np.log(np.maximum([one.words for one in sentences], 1))
    lengths = logarithms[:, None] + logarithms[None, :]
    similarity: Floats = np.divide(common, lengths, out=np.zeros_like(common), where=lengths > 0)
    np.fill_diagonal(similarity, 0.0)
    return similarity


def vector_similarity(vectors: npt.ArrayLike, neighbours: int | None = 10) -> Floats:
    r"""Similarity by vectors: cosines, those below 0 cut off, and of every sentence only its nearest kept.

    A pair is kept if either is among the nearest of the other, so that the matrix is symmetric. Source: SST, equation
    3, with the sparsification of appendix B.1.

    Args:
        vectors: ``(sentences, width)``.
        neighbours: sentences that a sentence keeps; None for all.

    Returns:
        ``(sentences, sentences)``, 0 for a sentence and itself.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: npt.NDArray[Any] = rows / np.where(lengths > 0, lengths, 1)
    similarity = np.maximum(unit @ unit.T, 0.0)
    np.fill_diagonal(similarity, 0.0)
    if neighbours is not None and neighbours < len(similarity) - 1:
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :neighbours]
        kept = np.zeros_like(similarity, bool)
        np.put_along_axis(kept, order, True, axis=1)
        similarity = np.where(kept | kept.T, similarity, 0.0)
    return np.asarray((similarity + similarity.T) / 2)
