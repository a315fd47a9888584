"""The documents among which negatives are looked for, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import RetrievalError

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class MinedDocuments:
    """The documents among which negatives are looked for.

    Args:
        ids: their ids.
        groups: ``(documents,)``, equal numbers for documents of the same text.
        vectors: ``(documents, hidden)``, their vectors, held or mapped; None where there are none.
        similarity: ``cosine`` or ``dot``, the measure by which the model compares.
    """

    ids: Sequence[str]
    groups: Rows
    vectors: Vectors | None = None
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        if len(set(self.ids)) < len(self.ids):
            twice = next(id for id, count in Counter(self.ids).items() if count > 1)
            raise RetrievalError(f"two documents have the id {twice!r}; give each its own to mine negatives")

    @cached_property
    def rows(self) -> dict[str, int]:
        """Places of the documents by id."""
        return {id: row for row, id in enumerate(self.ids)}

    def rows_of(self, ids: Collection[str]) -> Rows:
        """Places of those documents that are there, each once."""
        return np.array(sorted({self.rows[id] for id in ids if id in self.rows}), np.int64)

    @cached_property
    def order(self) -> Rows:
        """The place of every document among the ids in order, by which ties are broken, ``(documents,)``."""
        order = np.empty(len(self.ids), np.int64)
        order[sorted(range(len(self.ids)), key=lambda row: self.ids[row])] = np.arange(len(self.ids))
        return order

    def units(self, rows: Rows) -> Vectors:
        """Vectors of some documents at unit length, ``(rows, hidden)``."""
        assert self.vectors is not None
        found = np.asarray(self.vectors[rows], np.float32)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1), np.float32)

    def is_similar(self, rows: Rows, positives: Rows, bound: float | None) -> npt.NDArray[np.bool_]:
        """Which documents are copies or near-duplicates of a positive, ``(rows,)``."""
        found = np.isin(self.groups[rows], self.groups[positives])
        if bound is not None and self.vectors is not None and len(rows):
            found |= (self.units(rows) @ self.units(positives).T).max(axis=1) > bound
        return found
