"""Loading the documents of batches ahead of the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from ..sampling import DocumentBatches, Place
from .training_batch import TrainingBatch, TrainingExample

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


class EpochLoader(DataLoader[Any]):
    """Loads the batches of an epoch ahead, in worker processes."""

    def __init__(self, corpus: Corpus, batches: DocumentBatches, collate: Collate, workers: int = 0) -> None:
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
