"""Which documents make up which batch, as a pure function of seed, epoch and step."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..runtime.text import counted

Rows = npt.NDArray[np.int64]


def random_generator(*key: int | str) -> np.random.Generator:
    """A random generator that depends on nothing but its key."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


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


class PairBatches(EpochBatches):
    """Batches of pairs in an order of its own for every epoch; whole pairs are dealt to processes.

    A batch holds the two documents of every pair side by side. Documents are counted through all pairs: number ``2 p``
    is the first document of pair ``p``, and ``2 p + 1`` the second.

    Args:
        passage_counts: ``(pairs, 2)``, passages of both documents of every pair.
        batch_size: pairs of a batch, over all processes; all pairs make one batch where there are fewer.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.

    Raises:
        ValueError: a process would have no pair of a batch.
    """

    def __init__(
        self, passage_counts: npt.NDArray[np.int64], batch_size: int, seed: int, rank: int = 0, processes: int = 1
    ) -> None:
        if (pairs := min(batch_size, len(passage_counts))) < processes:
            raise ValueError(f"a batch of {counted(pairs, 'pair')} is too small for {processes} processes")
        super().__init__(passage_counts.sum(axis=1), batch_size, seed, rank, processes)

    def of_epoch(self, epoch: int) -> Iterator[list[Place]]:
        """The batches of any epoch, as places of documents."""
        for pairs in super().of_epoch(epoch):
            yield [(epoch, 2 * pair + side) for epoch, pair in pairs for side in (0, 1)]


class BalancedPairBatches(DocumentBatches):
    """Batches with as many similar pairs as others, in an order of its own for every epoch (SST, appendix B.1).

    An epoch passes once over the pairs of the label that has more, but for those left over, too few for a batch; pairs
    of the other label come as often as it takes, all of them before any comes again. Pairs are dealt to processes by
    their sentences, so that a process may have more of one label.

    Args:
        sentences: ``(pairs,)``, sentences of both documents of every pair.
        labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
        batch_size: pairs of a batch, over all processes, an even number; twice those of the label that has more, where
            these are too few.
        seed: seed of the order.
        rank: this process.
        processes: number of processes.

    Raises:
        ValueError: there are no pairs of a label, the batch size is odd, or a process would have no pair of a batch.
    """

    def __init__(
        self,
        sentences: npt.NDArray[np.int64],
        batch_size: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        *,
        labels: npt.NDArray[np.int64],
    ) -> None:
        self._members = tuple(np.flatnonzero(labels == label).astype(np.int64) for label in (1, 0))
        sizes = [len(members) for members in self._members]
        if not min(sizes):
            raise ValueError(f"all {counted(max(sizes), 'pair')} have the same label")
        if batch_size % 2:
            raise ValueError(f"a batch of {batch_size} pairs has no halves")
        self._half, self._most = min(batch_size // 2, max(sizes)), max(sizes)
        if 2 * self._half < processes:
            raise ValueError(f"a batch of {counted(2 * self._half, 'pair')} is too small for {processes} processes")
        super().__init__(sentences, 2 * self._half, seed, rank, processes)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self._most // self._half

    def _draw(self, draw: np.random.Generator) -> Iterator[Rows]:
        needed = len(self) * self._half
        orders = []
        for members in self._members:
            rounds = -(-needed // len(members))
            orders.append(np.concatenate([draw.permutation(members) for _ in range(rounds)])[:needed])
        for step in range(len(self)):
            chosen = slice(step * self._half, (step + 1) * self._half)
            yield np.concatenate([order[chosen] for order in orders])
