"""Which documents are near: vectors fitted to their collection, nearest documents, closest pairs, copies, outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.neighbors import NearestNeighbors

from ..inference.fitting import MOST_DRAWN, balanced_weight
from ..runtime.arrays import Rows, Vectors
from ..settings.document import LEARNED_SIZE
from ..similarity.background import Background
from .digests import BINS, EMPTY, WordCounts
from .names import spread

Scores = npt.NDArray[np.float32]

# Neighbours by which the isolation of a document is measured.
_NEAR = 5
# A document as PDF and as DOCX, with other line ends and heads of pages, has about nine in ten runs of words alike.
_COPIED = 0.7
# Vectors that differ by less are alike.
ROUNDING = 1e-6


def fit_vectors(vectors: Vectors, lexical: int, words: WordCounts, seed: int = 0) -> Vectors:
    """Vectors fitted to their collection: without what all documents share, and with the collection's own words.

    The words are latent semantic analysis of tf-idf, also without their mean, and weighed so that both parts tell
    pairs apart equally (:func:`~graphdoc.inference.fitting.balanced_weight`). They take the place of the last
    ``lexical`` numbers, which stand for words already.

    Returns:
        ``(documents, hidden + size)``, of unit length or zero.
    """
    own = _centred(vectors[:, : vectors.shape[1] - lexical])
    counts = csr_array(words.counts, dtype=np.float32)
    counts = counts[:, np.bincount(counts.indices, minlength=counts.shape[1]) > 1]
    size = min(LEARNED_SIZE, *(length - 1 for length in counts.shape))
    if size < 2:
        return own
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    latent = _centred(TruncatedSVD(size, random_state=seed).fit_transform(weights))
    drawn = spread(np.arange(len(own)), MOST_DRAWN)
    return unit(np.hstack([own, balanced_weight(own[drawn], latent[drawn]) * latent]))


def background_of(vectors: Vectors) -> Background:
    """How alike the pairs of a collection are, of 2,000 documents spread over it, from unit vectors."""
    drawn = spread(vectors, 2 * MOST_DRAWN)
    return Background.from_scores((drawn @ drawn.T)[np.tri(len(drawn), k=-1, dtype=bool)], len(drawn))


def _centred(vectors: npt.NDArray[Any]) -> Vectors:
    rows = unit(vectors)
    return unit(np.where(rows.any(axis=1, keepdims=True), rows - rows.mean(axis=0), 0.0))


def unit(vectors: npt.NDArray[Any]) -> Vectors:
    """Vectors of length 1, ``(documents, hidden)``; those of almost no length stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 1e-9, lengths, 1), np.float32)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest documents of every document, nearest first: their rows and cosines, ``(documents, neighbours)``."""

    rows: Rows
    scores: Scores

    @classmethod
    def from_vectors(cls, vectors: Vectors, count: int) -> Neighbours:
        """Find ``count`` of each, exactly, by vectors ``(documents, hidden)`` of unit length or zero."""
        documents = len(vectors)
        count = min(count, documents - 1)
        # Among unit vectors the nearest by distance are the nearest by cosine.
        _, found = NearestNeighbors(n_neighbors=count + 1, algorithm="brute").fit(vectors).kneighbors(vectors)
        rows = np.empty((documents, count), np.int64)
        scores = np.empty((documents, count), np.float32)
        for row, near in enumerate(found):
            # Of several copies, the document itself need not be the first, or among them at all.
            others = near[near != row][:count]
            cosines = np.clip(vectors[others] @ vectors[row], -1.0, 1.0)
            order = np.lexsort((others, -np.round(cosines, 6)))
            rows[row], scores[row] = others[order], cosines[order]
        return cls(rows, scores)

    @property
    def closeness(self) -> Scores:
        """Mean cosine of every document with its five nearest, ``(documents,)``."""
        return np.asarray(self.scores[:, :_NEAR].mean(axis=1), np.float32)

    def pairs(self, top_k: int) -> list[tuple[int, int, float]]:
        """The closest pairs, each once, best first: of every document with its nearest ones."""
        ends = np.sort(np.stack([np.repeat(np.arange(len(self.rows)), self.rows.shape[1]), self.rows.ravel()]), axis=0)
        _, first = np.unique(ends[0] * len(self.rows) + ends[1], return_index=True)
        scores = self.scores.ravel()[first]
        order = np.lexsort((first, -np.round(scores, 6)))[:top_k]
        return [(int(ends[0][first[at]]), int(ends[1][first[at]]), float(scores[at])) for at in order]

    def duplicates(self, vectors: Vectors, least: float, sketches: Sequence[bytes]) -> list[Rows]:
        """Sets of documents that are linked by near-equal vectors or texts; largest first.

        Vectors, of unit length or zero and before a fit, are near-equal from a cosine of ``least`` if a run of words is
        the same too; texts by their sketches (:func:`~graphdoc.overview.digests.sketch_of`), empty where not known.
        """
        bins = np.stack([np.frombuffer(sketch, np.uint32) if sketch else np.full(BINS, EMPTY) for sketch in sketches])
        first, is_known = dict[bytes, int](), (bins != EMPTY).any(axis=1)
        links = [(first.setdefault(sketch, row), row) for row, sketch in enumerate(sketches) if sketch]
        for row, near in enumerate(self.rows):
            used, alike = (bins[near] != EMPTY) | (bins[row] != EMPTY), bins[near] == bins[row]
            shares = (alike & used).sum(axis=1) / np.maximum(used.sum(axis=1), 1)
            # Vectors of texts in a language that the model does not know are all alike.
            may_be = (shares > 0) | ~(is_known[near] & is_known[row])
            is_copy = (may_be & (vectors[near] @ vectors[row] >= least)) | (shares >= _COPIED)
            links += [(row, int(other)) for other in near[is_copy]]
        left, right = np.array(links, np.int64).reshape(-1, 2).T
        graph = coo_array((np.ones(len(left), bool), (left, right)), shape=(len(self.rows),) * 2)
        _, parts = connected_components(graph, directed=False)
        sets = [np.flatnonzero(parts == part) for part in np.flatnonzero(np.bincount(parts) > 1)]
        return sorted(sets, key=lambda members: (-len(members), int(members[0])))

    def outliers(self, top_k: int) -> list[int]:
        """The documents that are farthest from all others, by :attr:`closeness`."""
        return [int(row) for row in np.lexsort((np.arange(len(self.rows)), np.round(self.closeness, 6)))[:top_k]]


def are_alike(vectors: npt.NDArray[np.float32]) -> bool:
    """Whether all vectors are the same but for rounding."""
    return float(np.ptp(vectors, axis=0).max()) < ROUNDING
