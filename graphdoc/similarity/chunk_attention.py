"""Chunkwise attention as comparisons show it: within a document, and from one document to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .cosine import Floats


@dataclass(frozen=True)
class ChunkwiseAttention:
    """Learned chunkwise attention of one document (CoLDE, section 3.2).

    Args:
        pairs: ``(2, pairs)``, passages that are looked at, above those that look: from every section of the document
            to the next, from the last to the first; within the only one.
        weights: ``(pairs, heads)``, summing to 1 over the pairs of one passage that looks.
        queries: ``(passages, heads, width)``, what a passage looks for, in the document that is not split.
        keys: ``(passages, heads, width)``, what it is found by.
    """

    pairs: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    keys: npt.NDArray[np.float32]

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.queries.shape[1])

    def within(self) -> Floats:
        """Attention between consecutive sections.

        Returns:
            ``(heads, passages that look, passages looked at)``; 0 where there is no pair.
        """
        count = len(self.queries)
        matrix = np.zeros((self.heads, count, count))
        matrix[:, self.pairs[1], self.pairs[0]] = self.weights.T
        return matrix

    def to(self, other: ChunkwiseAttention) -> Floats:
        """Attention of this document to another one, as if the other were its next section.

        Returns:
            ``(heads, passages of this document, passages of the other)``; every row sums to 1.
        """
        queries, keys = (one.astype(np.float64) for one in (self.queries, other.keys))
        scores = np.einsum("qhw,khw->hqk", queries, keys) / queries.shape[-1] ** 0.5
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=-1, keepdims=True))
