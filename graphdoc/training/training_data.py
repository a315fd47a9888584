"""Which documents make up which batch, and loading them ahead of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ..sampling.sub_documents import random_generator
from .training_batch import TrainingBatch, TrainingExample

# A row of the corpus in an epoch: all that a draw depends on.
Place = tuple[int, int]
Collate = Callable[[Sequence[tuple[TrainingExample, int, int]]], TrainingBatch]


class Corpus(Protocol):
    """Documents that are ready to train on."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> TrainingExample: ...

    @property
    def passage_counts(self) -> npt.NDArray[np.int64]:
        """Passages of every document."""
        ...


class EpochExamples(Dataset[tuple[TrainingExample, int, int]]):
    """The documents of a corpus by epoch and row."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __getitem__(self, place: Place) -> tuple[TrainingExample, int, int]:
        epoch, row = place
        return self._corpus[row], epoch, row


class EpochBatches(Sampler[list[Place]]):
    """Batches of an epoch, as a pure function of seed, epoch and step.

    Every epoch has an order of its own; documents left over at its end, too few for a batch, are left to other epochs.
    Of a batch every process gets its share, such that all have about as many passages.

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
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._counts = np.asarray(passage_counts)
        self._rows = np.arange(len(self._counts)) if rows is None else rows
        self.batch_size = min(batch_size, len(self._rows))
        if self.batch_size < processes:
            raise ValueError(f"a batch of {self.batch_size} documents is too small for {processes} processes")
        self._seed = seed
        self._rank, self._processes = rank, processes
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches follow."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return len(self._rows) // self.batch_size

    def __iter__(self) -> Iterator[list[Place]]:
        """The batches of the epoch: of each, the places of this process's documents."""
        epoch = self._epoch
        order = random_generator(self._seed, "order", epoch).permutation(self._rows)
        for step in range(len(self)):
            rows = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield [(epoch, int(row)) for row in self._share(rows)]

    def _share(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Deal documents out from the longest to the shortest, forth and back."""
        if self._processes == 1:
            return rows
        by_length = rows[np.argsort(-self._counts[rows], kind="stable")]
        place = np.arange(len(rows)) % (2 * self._processes)
        dealt_to = np.where(place < self._processes, place, 2 * self._processes - 1 - place)
        share: npt.NDArray[np.int64] = by_length[dealt_to == self._rank]
        return share


class EpochLoader(DataLoader[Any]):
    """Loads the batches of an epoch ahead, in worker processes."""

    def __init__(self, corpus: Corpus, batches: EpochBatches, collate: Collate, workers: int = 0) -> None:
        super().__init__(
            EpochExamples(corpus),
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            prefetch_factor=4 if workers else None,
            worker_init_fn=_one_thread if workers else None,
            # Seeds of its own, or a loader would draw from the generator that dropout draws from.
            generator=torch.Generator(),
        )

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches follow."""
        sampler: Any = self.batch_sampler
        sampler.set_epoch(epoch)


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
