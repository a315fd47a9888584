"""Which documents are close: nearest ones of each, closest pairs, sets of near-duplicates, and those far from all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Vectors = npt.NDArray[np.float32]

# A document's isolation is read from so many of its neighbours.
_NEAR = 5


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest documents of every document, nearest first.

    Args:
        rows: ``(documents, neighbours)``.
        scores: their cosines, ``(documents, neighbours)``.
    """

    rows: Rows
    scores: Scores

    @classmethod
    def of(cls, vectors: Vectors, count: int) -> Neighbours:
        """Find them, exactly.

        Args:
            vectors: ``(documents, hidden)``, of unit length or zero.
            count: how many of each; fewer where there are fewer documents.
        """
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

    def pairs(self, most: int) -> list[tuple[int, int, float]]:
        """The closest pairs, each once, best first: of every document with its nearest ones.

        Args:
            most: how many.
        """
        left = np.repeat(np.arange(len(self.rows)), self.rows.shape[1])
        ends = np.sort(np.stack([left, self.rows.ravel()]), axis=0)
        _, first = np.unique(ends[0] * len(self.rows) + ends[1], return_index=True)
        scores = self.scores.ravel()[first]
        order = np.lexsort((first, -np.round(scores, 6)))[:most]
        return [(int(ends[0][first[at]]), int(ends[1][first[at]]), float(scores[at])) for at in order]

    def duplicates(self, least: float, copies: Sequence[bytes]) -> list[Rows]:
        """Sets of documents that are linked by near-equal vectors, or have the very same text; largest first.

        Args:
            least: cosine from which two documents count as near-duplicates.
            copies: hash of the text of every document; empty where it is not known.
        """
        left, column = np.nonzero(self.scores >= least)
        right = self.rows[left, column]
        seen: dict[bytes, int] = {}
        same = [(seen.setdefault(copy, row), row) for row, copy in enumerate(copies) if copy]
        linked = np.array([(first, row) for first, row in same if first != row], np.int64).reshape(-1, 2)
        left, right = np.concatenate([left, linked[:, 0]]), np.concatenate([right, linked[:, 1]])
        links = coo_array((np.ones(len(left), bool), (left, right)), shape=(len(self.rows),) * 2)
        _, parts = connected_components(links, directed=False)
        sizes = np.bincount(parts)
        sets = [np.flatnonzero(parts == part) for part in np.flatnonzero(sizes > 1)]
        return sorted(sets, key=lambda members: (-len(members), int(members[0])))

    def outliers(self, most: int) -> list[int]:
        """The documents that are farthest from all others, by :attr:`closeness`."""
        order = np.lexsort((np.arange(len(self.rows)), np.round(self.closeness, 6)))
        return [int(row) for row in order[:most]]
