"""Loading the documents of batches ahead of the steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, count, islice
from multiprocessing.sharedctypes import RawValue
from multiprocessing.util import Finalize
from types import FrameType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ..sampling import DocumentBatches, Place
from .batch import TrainingBatch, TrainingExample

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


class RunBatches(Sampler[list[Place]]):
    """The batches of a run from a step on, epoch after epoch.

    Args:
        batches: the batches of an epoch.
        first: number of the first batch, counted over the epochs.
        steps: batches of the whole run; None for a run without end.
    """

    def __init__(self, batches: DocumentBatches, first: int, steps: int | None) -> None:
        self._batches, self._first, self._steps = batches, first, steps

    def __iter__(self) -> Iterator[list[Place]]:
        """The batches, each with the places of this process's documents."""
        epoch, done = divmod(self._first, len(self._batches))
        onwards = islice(chain.from_iterable(self._batches.of_epoch(number) for number in count(epoch)), done, None)
        return islice(onwards, None if self._steps is None else max(0, self._steps - self._first))


class EpochLoader(DataLoader[Any]):
    """Loads batches ahead in worker processes, across the ends of epochs.

    An iteration gives the batches of one epoch. Meanwhile the workers go on into the next epoch, so that its first
    steps need not wait; no more than ``prefetch_factor`` batches of each worker are under way.

    Args:
        corpus: the documents.
        batches: which documents make up which batch.
        collate: makes a batch of documents.
        workers: processes that load; with 0 batches are made when they are asked for.
        steps: batches of the whole run, after which there are none; None for a run without end.
    """

    def __init__(
        self, corpus: Corpus, batches: DocumentBatches, collate: Collate, workers: int = 0, *, steps: int | None = None
    ) -> None:
        self._options: dict[str, Any] = {
            "collate_fn": collate,
            "num_workers": workers,
            "prefetch_factor": 4 if workers else None,
            # Seeds of its own, or a loader would draw from the generator that dropout draws from.
            "generator": torch.Generator(),
        }
        super().__init__(EpochExamples(corpus), batch_sampler=batches, **self._options)
        self._batches, self._steps = batches, steps
        # What is loaded ahead, and the number of the batch that comes next. The workers live as long as this iterator.
        self._ahead: Iterator[TrainingBatch] | None = None
        self._dismiss: Callable[[], object] | None = None
        self._next = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches follow."""
        self._batches.set_epoch(epoch)

    def __iter__(self) -> Any:
        """The batches of the epoch; what is left of an iteration before it is dropped."""
        first = self._batches.epoch * len(self)
        if self._ahead is None or self._next != first:
            self.close()
            onwards = RunBatches(self._batches, first, self._steps)
            # Workers are ended by a signal, at the exit of Python too, and heed it only then.
            is_dismissed = RawValue("b", 0)
            begin = partial(_begin_worker, is_dismissed) if self.num_workers else None
            ahead = DataLoader(self.dataset, batch_sampler=onwards, worker_init_fn=begin, **self._options)
            self._dismiss = Finalize(self, _dismiss, (is_dismissed,), exitpriority=10)
            self._ahead, self._next = iter(ahead), first
        return self._epoch(first)

    def close(self) -> None:
        """End the workers and drop what they have loaded."""
        if self._dismiss is not None:
            self._dismiss()
        # The traceback of an error holds the iterator, and its collection would no longer reach the workers.
        getattr(self._ahead, "_shutdown_workers", int)()
        self._ahead = None

    def _epoch(self, first: int) -> Iterator[TrainingBatch]:
        # The iterator is never held here, so that closing the loader ends its workers even while this is under way.
        for step in range(first, first + len(self)):
            if self._ahead is None or self._next != step:
                return
            # Counted before it comes: after an error the batches on their way are not those of the step.
            self._next += 1
            batch = next(self._ahead, None)
            if batch is None:
                return
            yield batch


def _begin_worker(is_dismissed: Any, _: int) -> None:
    """Keep a worker at work when its job is asked to stop.

    Clusters send SIGTERM to all processes of a job, and the steps up to the checkpoint still need their batches. A
    worker ends with its run in any case, also with one that was killed.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if is_dismissed.value:
            os._exit(0)

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, end)


def _dismiss(is_dismissed: Any) -> None:
    is_dismissed.value = 1
