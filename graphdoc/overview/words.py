"""The words that tell groups of documents from each other, and documents from all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from ..subtopics.table import telling_terms
from .digests import WordCounts

Rows = npt.NDArray[np.int64]

# A word that fewer of a group's documents have says nothing about the group.
_LEAST_SHARE = 0.15


def words_of_groups(words: WordCounts, groups: Sequence[Rows], most: int) -> list[tuple[str, ...]]:
    """The words that tell every group from the others, most telling first (:func:`telling_terms`).

    A word counts once for every document that has it, a little more where it occurs often there: so that one long
    document does not name its group.

    Args:
        words: the words of all documents.
        groups: rows of the documents of every group.
        most: words of a group, at most.
    """
    weights = csr_array(words.counts, dtype=np.float64)
    weights.data = np.log1p(weights.data)
    counts = []
    for rows in groups:
        own = weights[rows]
        total = np.asarray(own.sum(axis=0)).ravel()
        occurs_in = np.bincount(own.indices, minlength=own.shape[1])
        shared = np.flatnonzero(occurs_in >= max(min(2, len(rows)), _LEAST_SHARE * len(rows)))
        # By falling number, so that of equals the more frequent comes first.
        order = shared[np.lexsort((shared, -total[shared]))]
        counts.append({int(term): float(total[term]) for term in order})
    return [tuple(words.written[term] for term in own) for own in telling_terms(counts, most)]


def words_of_documents(words: WordCounts, most: int) -> tuple[list[str], list[Rows]]:
    """The words that tell every document from the others, by tf-idf, most telling first.

    Args:
        words: the words of all documents.
        most: words of a document, at most.

    Returns:
        All words that are telling somewhere, and for every document their places among these.
    """
    if not words.written:
        return [], [np.empty(0, np.int64)] * words.counts.shape[0]
    weights = csr_array(TfidfTransformer(sublinear_tf=True, norm=None).fit_transform(words.counts))
    chosen = []
    for start, end in zip(weights.indptr, weights.indptr[1:], strict=False):
        terms = weights.indices[start:end]
        chosen.append(terms[np.lexsort((terms, -weights.data[start:end]))][:most].astype(np.int64))
    used, places = np.unique(np.concatenate(chosen), return_inverse=True)
    ends = np.cumsum([len(own) for own in chosen])
    return [words.written[term] for term in used], np.split(places, ends[:-1])
