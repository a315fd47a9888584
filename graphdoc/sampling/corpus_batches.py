"""Batches of documents of one corpus each, for a model that learns from several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .draws import Rows
from .epoch_batches import DocumentBatches


class CorpusBatches(DocumentBatches):
    """Batches in which all documents are of one corpus, in an order of its own for every epoch.

    Documents of one corpus are harder to tell apart than those of several, whose subjects and style give them away.
    Documents left over at the end of a corpus, too few for a batch, are left to other epochs.

    Args:
        passage_counts: passages of every document.
        batch_size: documents of a batch, over all processes; all documents of a corpus make one batch where there are
            fewer.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.
        corpora: rows of the documents of every corpus that are trained on.

    Raises:
        ValueError: a process would have no document of a batch.
    """

    def __init__(
        self,
        passage_counts: npt.NDArray[np.int64],
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        corpora: Sequence[Rows],
    ) -> None:
        self._corpora = corpora
        self._sizes = [min(batch_size, len(rows)) for rows in corpora]
        super().__init__(passage_counts, min(self._sizes), seed, rank, processes)
        self.batch_size = max(self._sizes)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return sum(len(rows) // size for rows, size in zip(self._corpora, self._sizes, strict=True))

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        batches: list[Rows] = []
        for rows, size in zip(self._corpora, self._sizes, strict=True):
            order = draw.permutation(rows)
            batches.extend(order[start : start + size] for start in range(0, len(order) - size + 1, size))
        return (batches[number] for number in draw.permutation(len(batches)).tolist())
