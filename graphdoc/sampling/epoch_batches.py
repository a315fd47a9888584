"""Which documents make up which batch, as a pure function of seed, epoch and step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .draws import Rows, random_generator

# A row of the corpus in an epoch: all that a draw depends on.
Place = tuple[int, int]


class DocumentBatches(ABC):
    """Batches of an epoch, as a pure function of seed, epoch and step; of each, every process gets its share.

    Shares are such that all processes have about as many passages.

    Args:
        passage_counts: passages of every document of the corpus.
        batch_size: documents of a batch, over all processes.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.

    Raises:
        ValueError: a process would have no document of a batch.
    """

    def __init__(
        self, passage_counts: npt.NDArray[np.int64], batch_size: int, seed: int, rank: int = 0, processes: int = 1
    ) -> None:
        self.batch_size = batch_size
        if batch_size < processes:
            raise ValueError(f"a batch of {batch_size} documents is too small for {processes} processes")
        self._counts = np.asarray(passage_counts)
        self._seed = seed
        self._rank, self._processes = rank, processes

    @abstractmethod
    def __len__(self) -> int:
        """Number of batches of an epoch, the same for all."""

    def of_epoch(self, epoch: int) -> Iterator[list[Place]]:
        """The batches of an epoch: of each, the places of this process's documents."""
        for rows in self._draw(random_generator(self._seed, "order", epoch)):
            yield [(epoch, int(row)) for row in self._share(rows)]

    @abstractmethod
    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        """The documents of every batch of an epoch, drawn from the epoch's own random numbers."""

    def _share(self, rows: Rows) -> Rows:
        """Deal documents out from the longest to the shortest, forth and back."""
        if self._processes == 1:
            return rows
        by_length = rows[np.argsort(-self._counts[rows], kind="stable")]
        place = np.arange(len(rows)) % (2 * self._processes)
        dealt_to = np.where(place < self._processes, place, 2 * self._processes - 1 - place)
        share: Rows = by_length[dealt_to == self._rank]
        return share


class EpochBatches(DocumentBatches):
    """Batches of documents in an order of its own for every epoch.

    Documents left over at the end of an epoch, too few for a batch, are left to other epochs.

    Args:
        passage_counts: passages of every document.
        batch_size: documents of a batch, over all processes; all documents make one batch where there are fewer.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.
        rows: documents that are trained on; None for all.

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
        rows: Rows | None = None,
    ) -> None:
        self._rows = np.arange(len(passage_counts)) if rows is None else rows
        super().__init__(passage_counts, min(batch_size, len(self._rows)), seed, rank, processes)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return len(self._rows) // self.batch_size

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        order = draw.permutation(self._rows)
        for step in range(len(self)):
            yield order[step * self.batch_size : (step + 1) * self.batch_size]
